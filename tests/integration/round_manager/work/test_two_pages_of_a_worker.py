"""Two pages of one worker with one context: it is written on once, and the other page is refused in time."""

import pytest

from round_manager.models import Example, ExampleStatus, WorkSession
from round_manager.work.attempts import CreationItem
from round_manager.work.creation import skip
from round_manager.work.errors import NothingToDo, WrittenElsewhere
from round_manager.work.sessions import sweep
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import MINUTE, Floor, shown_items


def shown(floor: Floor, page: WorkSession) -> CreationItem:
    with floor.store.read() as session:
        return shown_items(session, page)[0]


@pytest.mark.parametrize("first", [0, 1], ids=["the older page is first", "the newer page is first"])
def test_two_pages_cannot_both_submit_on_the_same_context(lay: LayFloor, first: int) -> None:
    floor = lay(contexts=1)
    pages = [floor.open("W1"), floor.open("W1")]
    assert floor.context(pages[0]).id == floor.context(pages[1]).id
    behind = pages[1 - first]
    text = floor.fooling(behind)
    floor.ask(behind, text)
    assert not shown(floor, behind).can_skip
    floor.write_all(pages[first])
    with pytest.raises(WrittenElsewhere):
        floor.hand_in(behind, text)
    # No attempts are spent on a text that cannot be submitted.
    with pytest.raises(WrittenElsewhere):
        floor.ask(behind, f"{text} again")
    floor.finish(pages[first])
    floor.confirm(pages[first])
    with pytest.raises(WrittenElsewhere):
        floor.hand_in(behind, text)
    assert len(floor.rows(Example)) == 1


def test_the_slower_page_may_skip_at_once_and_continue_with_another_context(lay: LayFloor) -> None:
    floor = lay(contexts=2, rounds={"context_strategy": "in_order"}, work={"tries_before_skip": 2})
    older, newer = floor.open("W1"), floor.open("W1")
    again = floor.open("W1")
    assert floor.context(again).id == floor.context(older).id != floor.context(newer).id
    floor.write_all(again)
    assert shown(floor, older).can_skip
    with floor.write() as session:
        assert skip(session, older, 0, now=floor.now).context.id == floor.context(newer).id
    floor.write_all(older)
    assert shown(floor, newer).can_skip
    with floor.write() as session, pytest.raises(NothingToDo):
        skip(session, newer, 0, now=floor.now)


def test_if_a_task_allows_repeated_contexts_both_pages_submit(lay: LayFloor) -> None:
    floor = lay(contexts=1, work={"repeat_context": True})
    for page in [floor.open("W1"), floor.open("W1")]:
        floor.write_all(page)
    assert len(floor.rows(Example)) == 2


def test_submissions_of_an_expired_page_do_not_block_the_other(lay: LayFloor) -> None:
    floor = lay(contexts=1)
    floor.write_all(floor.open("W1"))
    floor.clock.advance(21 * MINUTE)
    with floor.write() as session:
        sweep(session, now=floor.now)
    floor.write_all(floor.open("W1"))
    assert len(floor.rows(Example)) == 2


def test_the_second_of_two_confirmed_examples_on_a_context_is_withdrawn(
    lay: LayFloor,
) -> None:
    floor = lay(contexts=1)
    late = floor.open("W1")
    floor.write_all(late)
    floor.clock.advance(21 * MINUTE)
    page = floor.open("W1")
    floor.write_all(page)
    for one in (page, late):
        floor.confirm(one)
    first, second = floor.rows(Example)
    assert (first.status, second.status) == (ExampleStatus.WITHDRAWN, ExampleStatus.PENDING)
    assert [entry.subject_id for entry in floor.audit("withdrew")] == [first.id]
