"""Decisions end the same if killed at any statement or run concurrently, and owe no bonus twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from round_manager.database.store import Store
from round_manager.models import Example, ExampleStatus
from round_manager.validation.decisions import Decisions
from tests.integration.round_manager.validation.conftest import SeatPanel
from tests.integration.round_manager.validation.panel import Panel
from tests.integration.round_manager.work.test_concurrency import at_once

TOGETHER = 4


class Killed(BaseException):
    """The process is killed; nothing may catch this."""


@contextmanager
def killed_at(store: Store, statement: int) -> Iterator[None]:
    """Kill the process before its n-th statement or commit."""
    left = statement

    def step(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    for moment in ("before_cursor_execute", "commit"):
        event.listen(store.engine, moment, step)
    try:
        yield
    finally:
        for moment in ("before_cursor_execute", "commit"):
            event.remove(store.engine, moment, step)


def until_done(panel: Panel) -> int:
    """Kill the decision at its first statement, then at its second, and so on, until it completes."""
    for statement in range(300):
        try:
            with killed_at(panel.store, statement):
                panel.decide()
        except Killed:
            continue
        return statement
    raise AssertionError("it never came through")


def voted(panel: Panel) -> list[Example]:
    """Three examples of one HIT: one to be verified, one disputed, one that wants more votes."""
    verified, disputed, open_one = panel.written(hit=panel.hit())
    panel.vote(verified, None, None)
    panel.vote(disputed, *[panel.other(disputed)] * 3)
    panel.vote(open_one, None, panel.other(open_one))
    return [verified, disputed, open_one]


def check_ended_well(panel: Panel, examples: list[Example]) -> None:
    statuses = [panel.status(example) for example in examples]
    assert statuses == [ExampleStatus.VERIFIED, ExampleStatus.DISPUTED, ExampleStatus.PENDING]
    assert panel.floor.one(examples[2]).votes_wanted == 3
    assert panel.bonuses() == {"owed": 1, "released": 1, "reserved": 1}
    assert panel.owed_to() == [examples[0].id]
    assert panel.uncounted() == 0


def test_a_run_killed_at_any_statement_ends_the_same_after_a_retry(seat: SeatPanel) -> None:
    panel = seat(work={"examples_per_hit": 3})
    examples = voted(panel)
    assert until_done(panel) > 10
    check_ended_well(panel, examples)


def test_concurrent_decisions_owe_each_bonus_once(seat: SeatPanel) -> None:
    panel = seat(work={"examples_per_hit": 3})
    examples = voted(panel)
    found = at_once(*[panel.decide] * TOGETHER)
    assert all(isinstance(one, Decisions) for one in found), found
    # Examples locked by one of them were skipped by the others; decide them now.
    panel.decide()
    check_ended_well(panel, examples)


def test_votes_cast_during_a_decision_are_not_lost(panel: Panel) -> None:
    examples = [panel.floor.pending() for _ in range(TOGETHER)]
    deeds: list[Any] = [lambda one=one: panel.vote(one, None, None) for one in examples]
    at_once(*deeds, panel.decide, panel.decide)
    panel.decide()
    assert {panel.status(example) for example in examples} == {ExampleStatus.VERIFIED}


def test_a_flag_concurrent_with_a_decision_waits_for_the_owner_or_is_late(panel: Panel) -> None:
    (example,) = panel.written()
    panel.vote(example, None, None)
    crossed = at_once(panel.decide, lambda: panel.vote(example, flag="It names a person"))
    assert not [one for one in crossed if isinstance(one, Exception)]
    panel.decide()
    if panel.status(example) is ExampleStatus.FLAGGED:
        assert panel.bonuses() == {"reserved": 1}
    else:
        assert (panel.status(example), panel.bonuses()) == (ExampleStatus.VERIFIED, {"owed": 1})
