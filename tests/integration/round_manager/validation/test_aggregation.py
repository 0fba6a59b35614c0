"""Dawid-Skene aggregation, and settling examples on which validators disagree."""

from dataclasses import replace
from typing import Any

import pytest

from round_manager.errors import MetricsUnavailable, RoundAlreadyClosed
from round_manager.loop.waiting import UNDECIDED_VOTES, reasons_not_to_close
from round_manager.models import Example, ExampleStatus
from round_manager.validation.aggregation import aggregate, compare, settle
from round_manager.validation.decisions import Decisions
from round_manager.validation.metrics import round_metrics
from tests.campaign import OWNER, Campaign, NewCampaign

EVERYBODY = ("careful 1", "careful 2", "careless 1", "careless 2")
WHY = "the careful ones know better"


def contested_example(campaign: Campaign) -> Example:
    """Twelve examples with two careful validators and two who always vote the same; one more example with a tie."""
    labels = campaign.spec.label_names
    examples = [campaign.add_example(label=labels[place % 3]) for place in range(12)]
    (split,) = campaign.confirmed_examples("W1")
    for example in examples:
        campaign.vote(example, None, None, labels[0], labels[0], voters=EVERYBODY)
    other = campaign.other_label(split)
    campaign.vote(split, None, None, other, other, voters=EVERYBODY)
    return split


@pytest.mark.any_database
def test_reliable_validators_weigh_more_and_can_break_a_tie(new_campaign: NewCampaign) -> None:
    # Two of three decide nothing where four vote, and the careful two came first.
    campaign = new_campaign(validation={"first_votes": 3, "max_votes": 4, "gold_rate": 0.0})
    split = contested_example(campaign)
    campaign.decide()
    assert (campaign.status_of(split), campaign.reload(split).gold_label) == (ExampleStatus.DISPUTED, None)
    assert campaign.bonus_states() == {"released": 1}
    with campaign.store.read() as session:
        found = {one.example_id: one for one in aggregate(session, campaign.round)}
        beside = compare(session, campaign.round, least=0.9)
    assert (found[split.id].label, found[split.id].probability > 0.9) == (split.label, True)
    assert (beside.examples, beside.could_settle > 0) == (13, True)

    terms: dict[str, Any] = {"actor": OWNER, "reason": WHY, "now": campaign.now}
    done = settle(campaign.store, campaign.round, least=0.9, **terms)
    assert done.verified >= 1
    assert campaign.status_of(split) is ExampleStatus.VERIFIED
    assert campaign.examples_with_bonus() == [split.id]
    assert settle(campaign.store, campaign.round, least=0.9, **terms) == Decisions()
    entry = next(entry for entry in campaign.audit("settled") if entry.subject_id == split.id)
    assert (entry.reason, (entry.after or {})["gold_label"]) == (WHY, split.label)
    with campaign.store.read() as session:
        figures = round_metrics(session, campaign.round)
    assert (figures.differing, figures.counts.verified_fooling) == (0, done.verified + _by_votes(campaign))


def test_a_settled_bonus_is_owed_once_as_soon_as_the_budget_covers_it(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"first_votes": 3, "max_votes": 4, "gold_rate": 0.0})
    split = contested_example(campaign)
    campaign.decide()
    bound = campaign.spend_budget()
    done = settle(campaign.store, campaign.round, least=0.9, actor=OWNER, reason=WHY, now=campaign.now)
    assert (campaign.status_of(split), done.bonuses, done.uncovered) == (ExampleStatus.VERIFIED, 0, 1)
    with campaign.store.read() as session:
        assert UNDECIDED_VOTES in reasons_not_to_close(session, campaign.round, now=campaign.now)
    found = campaign.decide()
    assert (found.bonuses, found.uncovered) == (0, 1)
    campaign.set_budget(bound + 1_000)
    assert [campaign.decide().bonuses for _ in range(2)] == [1, 0]
    assert (campaign.examples_with_bonus(), campaign.uncounted_votes()) == ([split.id], 0)


@pytest.mark.any_database
def test_a_settled_example_cannot_be_settled_again_and_is_not_counted_as_the_policys(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"first_votes": 3, "max_votes": 4, "gold_rate": 0.0})
    contested_example(campaign)
    campaign.decide()
    with campaign.store.read() as session:
        before = compare(session, campaign.round, least=0.9)
    done = settle(campaign.store, campaign.round, least=0.9, actor=OWNER, reason=WHY, now=campaign.now)
    assert done.verified + done.disputed == before.could_settle > 0
    with campaign.store.read() as session:
        assert compare(session, campaign.round, least=0.9) == replace(before, could_settle=0)


def _by_votes(campaign: Campaign) -> int:
    settled = {entry.subject_id for entry in campaign.audit("settled")}
    verified = campaign.rows(Example, Example.status == ExampleStatus.VERIFIED)
    return sum(example.id not in settled for example in verified)


@pytest.mark.any_database
def test_without_votes_there_is_nothing_to_aggregate(campaign: Campaign) -> None:
    with campaign.store.read() as session:
        assert aggregate(session, campaign.round) == []


@pytest.mark.any_database
def test_answers_are_not_aggregated(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("qa")
    with campaign.store.read() as session, pytest.raises(MetricsUnavailable):
        aggregate(session, campaign.round)


@pytest.mark.any_database
def test_a_closed_round_is_not_settled(campaign: Campaign) -> None:
    campaign.mark_closed()
    with pytest.raises(RoundAlreadyClosed):
        settle(campaign.store, campaign.round, least=0.9, actor=OWNER, reason=WHY, now=campaign.now)
