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
from round_manager.work.item_cache import ItemCache
from tests.campaign import Campaign, start_campaign

DRAFT = {"result": [{"value": "a draft"}]}


class Unavailable(CodedError):
    """A model that does not answer."""

    code = "unavailable_in_test"
    retry = True


class Interrupted(BaseException):
    """The process is killed while the model runs."""


class Thinking:
    """A judge that does something before it answers."""

    def __init__(self, campaign: Campaign, meanwhile: Callable[[], None]) -> None:
        self.campaign = campaign
        self.meanwhile = meanwhile

    def judge(self, request: JudgeRequest) -> Verdict:
        self.meanwhile()
        return self.campaign.judge(request)


@pytest.fixture
def campaign(store: Store) -> Campaign:
    return start_campaign(store, work={"tries": 2, "tries_before_skip": 0})


def ask(campaign: Campaign, work: WorkSession, text: str, judge: Judge | None = None) -> AttemptResult:
    written = PageInput({"text": text})
    mark = campaign.items(work)[0].mark
    return services.ask_target(
        campaign.services, judge or campaign, work.public_id, 0, mark=mark, read=lambda _item: written, draft=DRAFT
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


@pytest.mark.any_database
def test_an_attempt_takes_one_read_and_one_write_transaction(campaign: Campaign) -> None:
    work = campaign.open_page()
    mark, written = campaign.items(work)[0].mark, PageInput({"text": "one"})
    with counted(campaign.store) as counts:
        services.ask_target(
            campaign.services, campaign, work.public_id, 0, mark=mark, read=lambda _item: written, draft=DRAFT
        )
    assert (counts["read"], counts["write"]) == (1, 1)
    assert counts["statements"] <= 14


def test_the_next_attempt_reads_the_item_only_if_it_has_changed(campaign: Campaign) -> None:
    work, items = campaign.open_page(), ItemCache()

    def statements(text: str) -> int:
        mark, written = campaign.items(work)[0].mark, PageInput({"text": text})
        with counted(campaign.store) as counts:
            services.ask_target(
                campaign.services, campaign, work.public_id, 0, mark=mark, read=lambda _item: written, draft=DRAFT,
                items=items,
            )  # fmt: skip
        return counts["statements"]

    first, second = statements("one"), statements("two")
    # Skipped by another process, which has a cache of its own.
    mark, before = campaign.items(work)[0].mark, campaign.context_of(work).id
    services.skip_context(campaign.services, work.public_id, 0, mark=mark)
    third = statements("three")
    assert second < first == third
    (attempt,) = campaign.rows(Attempt, Attempt.number == 3)
    assert attempt.context_id == campaign.context_of(work).id != before


@pytest.mark.any_database
def test_a_repeated_attempt_takes_one_read_and_uses_no_attempt(campaign: Campaign) -> None:
    work = campaign.open_page()
    first = ask(campaign, work, "one")
    mark, written = campaign.items(work)[0].mark, PageInput({"text": "one"})
    with counted(campaign.store) as counts:
        again = services.ask_target(
            campaign.services, campaign, work.public_id, 0, mark=mark, read=lambda _item: written, draft={}
        )
    assert (counts["read"], counts["write"]) == (1, 0)
    assert (again.attempt.id, again.number, again.used, again.repeated) == (first.attempt.id, 1, 1, True)


@pytest.mark.any_database
def test_submitting_takes_one_write_transaction(campaign: Campaign) -> None:
    work = campaign.open_page()
    text = campaign.page_text(work)
    ask(campaign, work, text)
    mark, written = campaign.items(work)[0].mark, PageInput({"text": text})
    with counted(campaign.store) as counts:
        item = services.submit_example(campaign.services, work.public_id, 0, mark=mark, read=lambda _item: written)
    assert (counts["read"], counts["write"]) == (0, 1)
    assert item.example is not None


@pytest.mark.any_database
def test_the_draft_is_stored_if_the_model_cannot_be_asked(campaign: Campaign) -> None:
    work = campaign.open_page()
    with pytest.raises(Unavailable):
        ask(campaign, work, "one", Thinking(campaign, raise_error(Unavailable())))
    assert campaign.rows(Attempt) == []
    assert campaign.items(work)[0].draft == DRAFT


def test_a_process_that_is_killed_while_the_model_thinks_leaves_nothing_and_can_ask_again(campaign: Campaign) -> None:
    work = campaign.open_page()
    with pytest.raises(Interrupted):
        ask(campaign, work, "one", Thinking(campaign, raise_error(Interrupted())))
    assert campaign.rows(Attempt) == []
    result = ask(campaign, work, "one")
    assert (result.number, result.used, result.repeated) == (1, 1, False)


@pytest.mark.any_database
def test_the_time_can_run_out_while_the_model_thinks(campaign: Campaign) -> None:
    work = campaign.open_page()
    with pytest.raises(TimeIsOver):
        ask(campaign, work, "one", Thinking(campaign, lambda: campaign.clock.set(work.expires_at)))
    assert campaign.rows(Attempt) == []


@pytest.mark.any_database
def test_a_text_that_is_skipped_while_the_model_thinks_gets_no_attempt(campaign: Campaign) -> None:
    work = campaign.open_page()
    mark = campaign.items(work)[0].mark

    def skip() -> None:
        services.skip_context(campaign.services, work.public_id, 0, mark=mark)

    with pytest.raises(OtherText):
        ask(campaign, work, "one", Thinking(campaign, skip))
    assert campaign.rows(Attempt) == []


@pytest.mark.any_database
def test_the_last_attempt_can_be_used_while_the_model_thinks(campaign: Campaign) -> None:
    work = campaign.open_page()
    ask(campaign, work, "one")
    other: list[AttemptResult] = []
    with pytest.raises(NoAttemptsLeft):
        ask(campaign, work, "two", Thinking(campaign, lambda: other.append(ask(campaign, work, "three"))))
    assert len(campaign.rows(Attempt)) == 2


@pytest.mark.any_database
def test_the_same_text_from_two_tabs_is_one_attempt(campaign: Campaign) -> None:
    work = campaign.open_page()
    other: list[AttemptResult] = []
    result = ask(campaign, work, "one", Thinking(campaign, lambda: other.append(ask(campaign, work, "one"))))
    assert result.attempt.id == other[0].attempt.id
    assert len(campaign.rows(Attempt)) == 1


@pytest.mark.any_database
def test_overdue_pages_and_leases_are_ended_in_several_transactions(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("round_manager.work.leases.SWEPT_AT_ONCE", 2)
    monkeypatch.setattr(services, "SWEPT_AT_ONCE", 2)
    pages = [campaign.open_page(f"W{number}") for number in range(3)]
    campaign.clock.set(max(page.expires_at for page in pages))
    services.end_overdue_work(campaign.services)
    assert {page.status for page in campaign.rows(WorkSession)} == {SessionStatus.EXPIRED}
    assert {lease.outcome for lease in campaign.rows(Lease)} == {LeaseEnd.EXPIRED}
    assert campaign.rows(Example) == []
    assert len(campaign.rows(WorkItem)) == 3
