"""Use cases of worker pages: how many transactions they take, and what they leave behind if they are interrupted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from common.errors import CodedError
from ml_backend.judge import Judge, JudgeRequest
from ml_backend.verdict import Verdict
from round_manager.database.store import Store
from round_manager.models import Attempt, Example, Lease, LeaseEnd, SessionStatus, WorkItem, WorkSession
from round_manager.services import work as services
from round_manager.services.work import AttemptResult
from round_manager.work.attempts import PageInput
from round_manager.work.errors import NoAttemptsLeft, OtherText, TimeIsOver
from tests.integration.round_manager.work.floor import Floor, lay_floor

DRAFT = {"result": [{"value": "a draft"}]}


class Unavailable(CodedError):
    """A model that does not answer."""

    code = "unavailable_in_test"
    retry = True


class Interrupted(BaseException):
    """The process is killed while the model runs."""


class Thinking:
    """A judge that does something before it answers."""

    def __init__(self, floor: Floor, meanwhile: Callable[[], None]) -> None:
        self.floor = floor
        self.meanwhile = meanwhile

    def judge(self, request: JudgeRequest) -> Verdict:
        self.meanwhile()
        return self.floor.judge(request)


@pytest.fixture
def floor(store: Store) -> Floor:
    return lay_floor(store, work={"tries": 2, "tries_before_skip": 0})


def ask(floor: Floor, work: WorkSession, text: str, judge: Judge | None = None) -> AttemptResult:
    written = PageInput({"text": text})
    mark = floor.items(work)[0].mark
    return services.ask_target(
        floor.services, judge or floor, work.public_id, 0, mark=mark, read=lambda _item: written, draft=DRAFT
    )


def raise_error(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@contextmanager
def counted(store: Store) -> Iterator[dict[str, int]]:
    """Count the transactions and the statements in the block."""
    counts = {"read": 0, "write": 0, "statements": 0}
    original = {name: getattr(store, name) for name in ("read", "write")}

    def count_statement(*_: Any) -> None:
        counts["statements"] += 1

    def counting(name: str) -> Callable[[], Any]:
        def begin() -> Any:
            counts[name] += 1
            return original[name]()

        return begin

    for name in original:
        setattr(store, name, counting(name))
    event.listen(store.engine, "before_cursor_execute", count_statement)
    try:
        yield counts
    finally:
        event.remove(store.engine, "before_cursor_execute", count_statement)
        for name in original:
            delattr(store, name)


def test_an_attempt_takes_one_read_and_one_write_transaction(floor: Floor) -> None:
    work = floor.open()
    mark, written = floor.items(work)[0].mark, PageInput({"text": "one"})
    with counted(floor.store) as counts:
        services.ask_target(
            floor.services, floor, work.public_id, 0, mark=mark, read=lambda _item: written, draft=DRAFT
        )
    assert (counts["read"], counts["write"]) == (1, 1)
    assert counts["statements"] <= 30


def test_a_repeated_attempt_takes_one_read_and_uses_no_attempt(floor: Floor) -> None:
    work = floor.open()
    first = ask(floor, work, "one")
    mark, written = floor.items(work)[0].mark, PageInput({"text": "one"})
    with counted(floor.store) as counts:
        again = services.ask_target(
            floor.services, floor, work.public_id, 0, mark=mark, read=lambda _item: written, draft={}
        )
    assert (counts["read"], counts["write"]) == (1, 0)
    assert (again.attempt.id, again.number, again.used, again.repeated) == (first.attempt.id, 1, 1, True)


def test_submitting_takes_one_write_transaction(floor: Floor) -> None:
    work = floor.open()
    text = floor.fooling(work)
    ask(floor, work, text)
    mark, written = floor.items(work)[0].mark, PageInput({"text": text})
    with counted(floor.store) as counts:
        item = services.submit_example(floor.services, work.public_id, 0, mark=mark, read=lambda _item: written)
    assert (counts["read"], counts["write"]) == (0, 1)
    assert item.example is not None


def test_the_draft_is_stored_if_the_model_cannot_be_asked(floor: Floor) -> None:
    work = floor.open()
    with pytest.raises(Unavailable):
        ask(floor, work, "one", Thinking(floor, raise_error(Unavailable())))
    assert floor.rows(Attempt) == []
    assert floor.items(work)[0].draft == DRAFT


def test_a_process_that_is_killed_while_the_model_thinks_leaves_nothing_and_can_ask_again(floor: Floor) -> None:
    work = floor.open()
    with pytest.raises(Interrupted):
        ask(floor, work, "one", Thinking(floor, raise_error(Interrupted())))
    assert floor.rows(Attempt) == []
    result = ask(floor, work, "one")
    assert (result.number, result.used, result.repeated) == (1, 1, False)


def test_the_time_can_run_out_while_the_model_thinks(floor: Floor) -> None:
    work = floor.open()
    with pytest.raises(TimeIsOver):
        ask(floor, work, "one", Thinking(floor, lambda: floor.clock.set(work.expires_at)))
    assert floor.rows(Attempt) == []


def test_a_text_that_is_skipped_while_the_model_thinks_gets_no_attempt(floor: Floor) -> None:
    work = floor.open()
    mark = floor.items(work)[0].mark

    def skip() -> None:
        services.skip_context(floor.services, work.public_id, 0, mark=mark)

    with pytest.raises(OtherText):
        ask(floor, work, "one", Thinking(floor, skip))
    assert floor.rows(Attempt) == []


def test_the_last_attempt_can_be_used_while_the_model_thinks(floor: Floor) -> None:
    work = floor.open()
    ask(floor, work, "one")
    other: list[AttemptResult] = []
    with pytest.raises(NoAttemptsLeft):
        ask(floor, work, "two", Thinking(floor, lambda: other.append(ask(floor, work, "three"))))
    assert len(floor.rows(Attempt)) == 2


def test_the_same_text_from_two_tabs_is_one_attempt(floor: Floor) -> None:
    work = floor.open()
    other: list[AttemptResult] = []
    result = ask(floor, work, "one", Thinking(floor, lambda: other.append(ask(floor, work, "one"))))
    assert result.attempt.id == other[0].attempt.id
    assert len(floor.rows(Attempt)) == 1


def test_overdue_pages_and_leases_are_ended_in_several_transactions(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("round_manager.work.leases.SWEPT_AT_ONCE", 2)
    monkeypatch.setattr(services, "SWEPT_AT_ONCE", 2)
    pages = [floor.open(f"W{number}") for number in range(3)]
    floor.clock.set(max(page.expires_at for page in pages))
    services.end_overdue_work(floor.services)
    assert {page.status for page in floor.rows(WorkSession)} == {SessionStatus.EXPIRED}
    assert {lease.outcome for lease in floor.rows(Lease)} == {LeaseEnd.EXPIRED}
    assert floor.rows(Example) == []
    assert len(floor.rows(WorkItem)) == 3
