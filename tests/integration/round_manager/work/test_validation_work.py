"""Workers never judge their own examples, nor an example twice, and gold items are mixed in."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from round_manager.models import Example, ExampleStatus, GoldItem, HitKind, Lease, Task, WorkItem
from round_manager.tasks.tasks import create_task, update_gold
from round_manager.work.errors import (
    AlreadySubmitted,
    HitIncomplete,
    InvalidInput,
    NothingToDo,
    TextTooLong,
    TimeIsOver,
)
from round_manager.work.gold import each_gold_answer, gold_count
from round_manager.work.sessions import session_context
from round_manager.work.validation_work import Judgement, cast_vote, judge_item
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import MINUTE, Floor, judged_items, pack_of

POSITIVE = Judgement(label="positive")
NO_GOLD = {"gold_rate": 0.0}


def given(floor: Floor) -> list[int]:
    """The ids of the examples that the newest session has."""
    last = max(row.session_id for row in floor.rows(WorkItem))
    return [row.example_id for row in floor.rows(WorkItem, WorkItem.session_id == last)]


def test_a_page_shows_the_text_without_its_author_or_target(lay: LayFloor) -> None:
    floor = lay("nli", validation=NO_GOLD)
    example = floor.pending(label="neutral", explanation={"why_right": "secret"})
    work = floor.validating()
    with floor.store.read() as session:
        (item,) = judged_items(session, work)
    assert item.fields == {name: example.fields[name] for name in ("premise", "hypothesis")}
    assert set(vars(item)) == {"item", "fields", "draft", "judgement"}


def test_no_worker_judges_their_own_example_or_one_twice(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    own, voted, fresh = floor.pending("W1"), floor.pending(), floor.pending()
    with floor.write() as session:
        other = session.get_one(Example, voted.id)
        cast_vote(session, other, own.author_id, source=other.source, voted_at=floor.now, label="positive")
    work = floor.validating("W1")
    assert given(floor) == [fresh.id]
    floor.judge_all(work, POSITIVE)
    floor.finish(work)
    with pytest.raises(NothingToDo):
        floor.validating("W1")


def test_no_worker_gets_an_example_that_is_leased_to_them_elsewhere(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    examples = [floor.pending(), floor.pending()]
    worker = floor.pending("V1").author_id
    span: dict[str, Any] = {"leased_at": floor.now, "expires_at": floor.now + MINUTE}
    with floor.write() as session:
        session.add(Lease(example_id=examples[0].id, author_id=examples[0].author_id, worker_id=worker, **span))
    floor.validating("V1")
    assert given(floor) == [examples[1].id]


def test_no_more_workers_are_asked_than_votes_are_wanted(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    floor.pending(wanted=2)
    first, second = floor.validating("V1"), floor.validating("V2")
    with pytest.raises(NothingToDo):
        floor.validating("V3")
    floor.judge_all(first, POSITIVE)
    floor.finish(first)
    floor.confirm(first)
    with pytest.raises(NothingToDo):
        floor.validating("V3")
    assert len(floor.votes()) == 1
    floor.clock.set(second.expires_at)
    assert floor.validating("V3").status == "open"


def test_a_submitted_judgement_keeps_its_lease_for_an_hour(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    floor.pending(wanted=1)
    work = floor.validating("V1")
    floor.judge_all(work, POSITIVE)
    floor.finish(work)
    floor.clock.advance(59 * MINUTE)
    with pytest.raises(NothingToDo):
        floor.validating("V2")
    floor.clock.advance(MINUTE)
    floor.validating("V2")


def test_examples_that_are_not_pending_are_not_handed_out(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    for status in (ExampleStatus.UNCONFIRMED, ExampleStatus.UNCHECKED, ExampleStatus.FLAGGED):
        floor.pending(status=status)
    with pytest.raises(NothingToDo):
        floor.validating()


def test_the_oldest_come_first_and_each_worker_sees_them_in_another_order(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD, work={"validations_per_hit": 5})
    ids = [floor.pending(wanted=5).id for _ in range(7)]
    orders = []
    for number in range(4):
        floor.validating(f"V{number}")
        orders.append(given(floor))
    assert all(sorted(order) == ids[:5] for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def test_a_judgement_can_be_changed_until_it_is_submitted_and_must_be_one_that_the_task_knows(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    floor.pending()
    work = floor.validating()
    reason = floor.spec.validation.flag_reasons[0]
    bad = (
        (Judgement(), InvalidInput),
        (Judgement(label="positive", flag=reason), InvalidInput),
        (Judgement(label="Positive"), InvalidInput),
        (Judgement(answer={"text": "A"}), InvalidInput),
        (Judgement(flag="I do not like it"), InvalidInput),
        (Judgement(label="positive", comment="x" * 200_000), TextTooLong),
        (Judgement(label="positive", comment="a\x00"), InvalidInput),
    )
    for judgement, error in bad:
        with floor.write() as session, pytest.raises(error):
            judge_item(session, work, 0, judgement, now=floor.now)
    with pytest.raises(HitIncomplete):
        floor.finish(work)
    for judgement in (POSITIVE, Judgement(flag=reason, comment="why? 🦊 \u202eabc")):
        floor.judge_all(work, judgement)
        with floor.store.read() as session:
            assert judged_items(session, work)[0].judgement == judgement
    assert floor.votes() == []
    floor.finish(work)
    with pytest.raises(AlreadySubmitted):
        floor.judge_all(work, POSITIVE)


def test_nothing_is_judged_after_the_deadline(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    floor.pending()
    work = floor.validating()
    floor.clock.set(work.expires_at)
    with pytest.raises(TimeIsOver):
        floor.judge_all(work, POSITIVE)


def test_an_answer_must_be_a_span_of_the_passage(lay: LayFloor) -> None:
    floor = lay("qa", validation=NO_GOLD)
    floor.pending()
    work = floor.validating()
    for judgement, error in (
        (Judgement(label="x"), InvalidInput),
        (Judgement(answer={"text": "B", "start": 0, "end": 1}), InvalidInput),
        (Judgement(answer={"text": "A" * 10**6, "start": 0, "end": 10**6}), InvalidInput),
    ):
        with floor.write() as session, pytest.raises(error):
            judge_item(session, work, 0, judgement, now=floor.now)
    floor.judge_all(work, Judgement(answer={"text": "A", "start": 0, "end": 1, "labels": ["Answer"]}))
    floor.finish(work)
    floor.confirm(work)
    (vote,) = floor.votes()
    assert vote.answer == {"text": "A", "start": 0, "end": 1}


def test_gold_is_mixed_in_at_the_tasks_rate(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.3}, work={"validations_per_hit": 5})
    pack = pack_of("sentiment")
    with floor.write() as session:
        assert update_gold(session, floor.task, pack.seed[:40], now=floor.now) == 40
    for _ in range(5):
        floor.pending(wanted=30)
    counts: Counter[int] = Counter()
    for number in range(12):
        floor.open(f"V{number}", kind=HitKind.VALIDATE)
        last = max(row.session_id for row in floor.rows(WorkItem))
        items = floor.rows(WorkItem, WorkItem.session_id == last)
        assert len(items) == 5
        counts[sum(row.gold_id is not None for row in items)] += 1
    assert set(counts) == {1, 2}


def test_which_items_are_gold_follows_from_a_secret_of_the_task_and_is_the_same_each_time(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.5}, work={"validations_per_hit": 5})
    with floor.write() as session:
        update_gold(session, floor.task, pack_of("sentiment").seed[:40], now=floor.now)
    for _ in range(5):
        floor.pending(wanted=1)
    hit = floor.hit(HitKind.VALIDATE)

    def drawn(salt: str) -> tuple[int | None, ...]:
        """The gold on one page, which begins again with its old id: where and which."""
        with floor.write() as session:
            session.get_one(Task, floor.task.id).worker_salt = salt * 32
        floor.clock.advance(21 * MINUTE)
        page = floor.open("V1", hit=hit)
        return tuple(row.gold_id for row in sorted(floor.rows(WorkItem, WorkItem.session_id == page.id), key=place))

    pages = [drawn(salt) for salt in "abca"]
    assert pages[0] == pages[3]
    assert len(set(pages)) > 1
    page = floor.open("V1", hit=hit)
    with floor.write() as session:
        task, desk = session.get_one(Task, floor.task.id), session_context(session, page)
        counts = set()
        for number in range(40):
            task.worker_salt = f"{number:032}"
            counts.add(gold_count(session, desk, 5))
    assert counts == {2, 3}


def place(row: WorkItem) -> int:
    return row.item


def test_no_worker_gets_the_same_gold_twice(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.5}, work={"validations_per_hit": 2})
    with floor.write() as session:
        update_gold(session, floor.task, pack_of("sentiment").seed[:2], now=floor.now)
    for _ in range(4):
        floor.pending()
    for _ in range(3):
        work = floor.validating("V1")
        floor.judge_all(work, POSITIVE)
        floor.finish(work)
    rows = floor.rows(WorkItem)
    assert sorted(row.gold_id for row in rows if row.gold_id) == [row.id for row in floor.rows(GoldItem)]
    assert len(rows) == 6


def test_gold_answers_count_once_the_marketplace_has_confirmed_the_worker(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.6}, work={"validations_per_hit": 5})
    seed = [row for row in pack_of("sentiment").seed if row.label == "positive"][:2]
    wrong = [row for row in pack_of("sentiment").seed if row.label == "negative"][:1]
    with floor.write() as session:
        update_gold(session, floor.task, [*seed, *wrong], now=floor.now)
    examples = [floor.pending() for _ in range(2)]
    work = floor.validating("V1")
    floor.judge_all(work, POSITIVE)
    floor.finish(work)
    with floor.store.read() as session:
        assert list(each_gold_answer(session, floor.task)) == []
    floor.confirm(work)
    with floor.store.read() as session:
        answers = list(each_gold_answer(session, floor.task))
    assert {item.worker_id for item, _ in answers} == {work.worker_id}
    found = Counter((item.expected_label, is_right) for item, is_right in answers)
    assert found == {("positive", True): 2, ("negative", False): 1}
    assert sorted(vote.example_id for vote in floor.votes()) == [one.id for one in examples]


def test_examples_that_people_agreed_on_become_gold_once_and_get_no_further_vote(lay: LayFloor) -> None:
    floor = lay("qa", validation={"gold_rate": 0.5}, work={"validations_per_hit": 2})
    answer = {"text": "A sentence of", "start": 0, "end": 13}
    known: dict[str, Any] = {"status": ExampleStatus.VERIFIED, "gold_answer": answer, "decided_at": floor.now}
    own, voted, verified = floor.pending("V1", **known), floor.pending(**known), floor.pending(**known)
    with floor.write() as session:
        row = session.get_one(Example, voted.id)
        cast_vote(session, row, own.author_id, source=row.source, voted_at=floor.now, answer=answer)
    plain = [floor.pending(), floor.pending()]
    work = floor.validating("V1")
    assert sorted(given(floor)) == [verified.id, plain[0].id]
    floor.judge_all(work, Judgement(answer={"text": "sentence", "start": 2, "end": 10}))
    floor.finish(work)
    floor.validating("V1")
    assert given(floor) == [plain[1].id]
    floor.confirm(work)
    with floor.store.read() as session:
        ((item, is_right),) = list(each_gold_answer(session, floor.task))
    assert (item.expected_answer, is_right) == (answer, True)
    assert [vote.example_id for vote in floor.votes()] == [voted.id, plain[0].id]


def test_gold_that_its_owner_changed_is_retired_and_comes_back_with_its_old_text(floor: Floor) -> None:
    rows = pack_of("sentiment").seed[:3]
    for chosen, live in ((rows, 3), (rows[:1], 1), (rows[:2], 2)):
        with floor.write() as session:
            assert update_gold(session, floor.task, chosen, now=floor.now) == live
        assert len(floor.rows(GoldItem, GoldItem.retired_at.is_(None))) == live
    assert len(floor.rows(GoldItem)) == 3


def test_a_row_that_left_the_seed_is_no_longer_handed_out(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.5}, work={"validations_per_hit": 2})
    floor.pending(wanted=9)
    pack = replace(pack_of("sentiment"), spec=floor.spec)
    kept, left = [row for row in pack.seed if row.split == "held_out"][:2]
    for rows in ([left], [kept]):
        pack.__dict__["seed"] = rows
        with floor.write() as session:
            create_task(session, pack, now=floor.now)
        floor.validating(f"V-{rows[0].id}")
    items = {row.id: row.key.rpartition("@")[0] for row in floor.rows(GoldItem)}
    assert [items[row.gold_id] for row in floor.rows(WorkItem) if row.gold_id] == [left.id, kept.id]


def test_gold_with_a_label_that_the_round_does_not_have_waits_for_a_round_that_has(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.5}, work={"validations_per_hit": 2})
    floor.pending(wanted=9)
    renamed = [replace(row, label="mixed") for row in pack_of("sentiment").seed[:3]]
    with floor.write() as session:
        assert update_gold(session, floor.task, renamed, now=floor.now) == 3
    floor.validating("V1")
    assert [row.gold_id for row in floor.rows(WorkItem)] == [None]


def test_without_anything_to_vote_on_no_worker_is_paid_for_gold_alone(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 1.0})
    with floor.write() as session:
        update_gold(session, floor.task, pack_of("sentiment").seed[:9], now=floor.now)
    with pytest.raises(NothingToDo):
        floor.validating()
