"""Dawid-Skene aggregation, and settling examples on which validators disagree."""

from dataclasses import replace
from typing import Any

import pytest

from round_manager.errors import MetricsUnavailable, RoundAlreadyClosed
from round_manager.loop.waiting import UNDECIDED_VOTES, reasons_not_to_close
from round_manager.models import Example, ExampleStatus
from round_manager.validation.aggregation import Settlement, aggregate, compare, settle
from round_manager.validation.metrics import round_metrics
from tests.integration.round_manager.validation.conftest import SeatPanel
from tests.integration.round_manager.validation.panel import OWNER, Panel

EVERYBODY = ("careful 1", "careful 2", "careless 1", "careless 2")
WHY = "the careful ones know better"


def campaign(panel: Panel) -> Example:
    """Twelve examples with two careful validators and two who always vote the same; one more example with a tie."""
    labels = panel.floor.spec.label_names
    examples = [panel.floor.pending(label=labels[place % 3]) for place in range(12)]
    (split,) = panel.written("W1")
    for example in examples:
        panel.vote(example, None, None, labels[0], labels[0], voters=EVERYBODY)
    other = panel.other(split)
    panel.vote(split, None, None, other, other, voters=EVERYBODY)
    return split


def test_reliable_validators_weigh_more_and_can_break_a_tie(seat: SeatPanel) -> None:
    # Two of three decide nothing where four vote, and the careful two came first.
    panel = seat(validation={"first_votes": 3, "max_votes": 4, "gold_rate": 0.0})
    split = campaign(panel)
    panel.decide()
    assert (panel.status(split), panel.floor.one(split).gold_label) == (ExampleStatus.DISPUTED, None)
    assert panel.bonuses() == {"released": 1}
    with panel.store.read() as session:
        found = {one.example_id: one for one in aggregate(session, panel.round)}
        beside = compare(session, panel.round, least=0.9)
    assert (found[split.id].label, found[split.id].probability > 0.9) == (split.label, True)
    assert (beside.examples, beside.could_settle > 0) == (13, True)

    terms: dict[str, Any] = {"actor": OWNER, "reason": WHY, "now": panel.now}
    done = settle(panel.store, panel.round, least=0.9, **terms)
    assert done.verified >= 1
    assert panel.status(split) is ExampleStatus.VERIFIED
    assert panel.owed_to() == [split.id]
    assert settle(panel.store, panel.round, least=0.9, **terms) == Settlement()
    entry = next(entry for entry in panel.audited("settled") if entry.subject_id == split.id)
    assert (entry.reason, (entry.after or {})["gold_label"]) == (WHY, split.label)
    with panel.store.read() as session:
        figures = round_metrics(session, panel.round)
    assert (figures.differing, figures.counts.verified_fooling) == (0, done.verified + _by_votes(panel))


def test_a_settled_bonus_is_owed_once_as_soon_as_the_budget_covers_it(seat: SeatPanel) -> None:
    panel = seat(validation={"first_votes": 3, "max_votes": 4, "gold_rate": 0.0})
    split = campaign(panel)
    panel.decide()
    bound = panel.spend_all()
    done = settle(panel.store, panel.round, least=0.9, actor=OWNER, reason=WHY, now=panel.now)
    assert (panel.status(split), done.bonuses, done.uncovered) == (ExampleStatus.VERIFIED, 0, 1)
    with panel.store.read() as session:
        assert UNDECIDED_VOTES in reasons_not_to_close(session, panel.round, now=panel.now)
    found = panel.decide()
    assert (found.bonuses, found.uncovered) == (0, 1)
    panel.set_budget(bound + 1_000)
    assert [panel.decide().bonuses for _ in range(2)] == [1, 0]
    assert (panel.owed_to(), panel.uncounted()) == ([split.id], 0)


def test_a_settled_example_cannot_be_settled_again_and_is_not_counted_as_the_policys(seat: SeatPanel) -> None:
    panel = seat(validation={"first_votes": 3, "max_votes": 4, "gold_rate": 0.0})
    campaign(panel)
    panel.decide()
    with panel.store.read() as session:
        before = compare(session, panel.round, least=0.9)
    done = settle(panel.store, panel.round, least=0.9, actor=OWNER, reason=WHY, now=panel.now)
    assert done.verified + done.disputed == before.could_settle > 0
    with panel.store.read() as session:
        assert compare(session, panel.round, least=0.9) == replace(before, could_settle=0)


def _by_votes(panel: Panel) -> int:
    settled = {entry.subject_id for entry in panel.audited("settled")}
    verified = panel.floor.rows(Example, Example.status == ExampleStatus.VERIFIED)
    return sum(example.id not in settled for example in verified)


def test_without_votes_there_is_nothing_to_aggregate(panel: Panel) -> None:
    with panel.store.read() as session:
        assert aggregate(session, panel.round) == []


def test_answers_are_not_aggregated(seat: SeatPanel) -> None:
    panel = seat("qa")
    with panel.store.read() as session, pytest.raises(MetricsUnavailable):
        aggregate(session, panel.round)


def test_a_closed_round_is_not_settled(panel: Panel) -> None:
    panel.close()
    with pytest.raises(RoundAlreadyClosed):
        settle(panel.store, panel.round, least=0.9, actor=OWNER, reason=WHY, now=panel.now)
