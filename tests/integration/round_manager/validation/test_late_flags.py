"""A flag on a decided example reaches the owner, and does not undo the decision."""

from typing import Any

import pytest

from round_manager.errors import DecisionRefused
from round_manager.models import Example, ExampleStatus, Task, WorkSession
from round_manager.validation.flags import (
    Flagged,
    FlaggedGold,
    count_late,
    find_example,
    flagged,
    flagged_gold,
    keep,
    withdraw,
)
from round_manager.validation.voted_examples import gold_accuracy
from round_manager.work.validation_work import Judgement
from tests.campaign import OWNER, Campaign, NewCampaign
from tests.campaign.base import built_in_pack
from tests.fakes.gold import update_gold

FLAG = "It names a person"
WHY = "I looked at it."


@pytest.fixture
def gold_campaign(new_campaign: NewCampaign) -> Campaign:
    """A task whose pages to validate have one known answer and one example."""
    return new_campaign(validation={"gold_rate": 0.5, "gold_withheld": 1.0}, work={"validations_per_hit": 2})


def known(campaign: Campaign) -> Example:
    """An example that people agreed on: the next page shows it as gold."""
    terms: dict[str, Any] = {"gold_label": "positive", "decided_at": campaign.now, "votes_wanted": 0}
    return campaign.add_example(status=ExampleStatus.VERIFIED, **terms)


def judged(campaign: Campaign, judgement: Judgement, voter: str = "V1") -> WorkSession:
    """A confirmed page on which a worker gave every item the same judgement."""
    campaign.add_example()
    page = campaign.open_validation_page(voter)
    campaign.judge_all(page, judgement)
    campaign.finish_page(page)
    campaign.confirm(page)
    return page


def flagging(campaign: Campaign) -> Judgement:
    return Judgement(flag=campaign.spec.validation.flag_reasons[1], comment="two at once")


def late(campaign: Campaign) -> list[Flagged]:
    with campaign.store.read() as session:
        return [one for one in flagged(session, campaign.round) if not one.waits]


def gold_flags(campaign: Campaign) -> list[FlaggedGold]:
    with campaign.store.read() as session:
        return flagged_gold(session, campaign.round)


def accuracy(campaign: Campaign) -> list[str]:
    with campaign.store.read() as session:
        rates = gold_accuracy(session, session.get_one(Task, campaign.task.id)).values()
    return [f"{rate.count} of {rate.of}" for rate in rates]


def say(campaign: Campaign, decision: Any, example: Example) -> None:
    with campaign.store.write() as session:
        row = find_example(session, session.get_one(Task, campaign.task.id), example.public_id)
        decision(session, row, actor=OWNER, reason=WHY, now=campaign.now)


@pytest.mark.any_database
def test_a_flag_on_a_decided_example_is_listed_and_undoes_nothing(campaign: Campaign) -> None:
    (example,) = campaign.confirmed_examples()
    campaign.vote(example, None, None)
    campaign.decide()
    assert late(campaign) == []
    campaign.vote(example, flag=FLAG)
    campaign.decide()
    assert (campaign.status_of(example), campaign.bonus_states()) == (ExampleStatus.VERIFIED, {"owed": 1})
    (shown,) = late(campaign)
    assert (shown.example, shown.status, shown.votes[-1].flag) == (example.public_id, ExampleStatus.VERIFIED, FLAG)
    with campaign.store.read() as session:
        assert count_late(session, campaign.round) == 1


@pytest.mark.any_database
def test_a_kept_example_is_listed_again_only_if_another_validator_flags_it(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, flag=FLAG)
    say(campaign, keep, example)
    campaign.vote(example, None, None)
    campaign.decide()
    assert (campaign.status_of(example), late(campaign)) == (ExampleStatus.VERIFIED, [])
    campaign.vote(example, flag=FLAG)
    assert len(late(campaign)) == 1
    say(campaign, keep, example)
    assert (campaign.status_of(example), late(campaign)) == (ExampleStatus.VERIFIED, [])
    with pytest.raises(DecisionRefused):
        say(campaign, keep, example)


def test_a_withdrawn_example_is_no_longer_listed(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, None, None)
    campaign.decide()
    campaign.vote(example, flag=FLAG)
    say(campaign, withdraw, example)
    assert (campaign.status_of(example), late(campaign)) == (ExampleStatus.WITHDRAWN, [])


def test_a_flag_on_gold_reaches_the_owner_and_lowers_no_score(gold_campaign: Campaign) -> None:
    gold = known(gold_campaign)
    judged(gold_campaign, flagging(gold_campaign))
    (shown,) = late(gold_campaign)
    assert (shown.example, shown.round, shown.votes[0].comment) == (gold.public_id, 1, "two at once")
    assert gold_campaign.status_of(gold) is ExampleStatus.VERIFIED
    assert accuracy(gold_campaign) == []
    say(gold_campaign, keep, gold)
    assert late(gold_campaign) == []


@pytest.mark.any_database
def test_a_flag_on_gold_of_a_closed_round_is_listed_and_can_be_kept(gold_campaign: Campaign) -> None:
    gold = known(gold_campaign)
    judged(gold_campaign, flagging(gold_campaign))
    gold_campaign.mark_closed()
    with pytest.raises(DecisionRefused):
        say(gold_campaign, withdraw, gold)
    assert len(late(gold_campaign)) == 1
    say(gold_campaign, keep, gold)
    assert late(gold_campaign) == []


@pytest.mark.any_database
def test_withdrawn_gold_lowers_no_score(gold_campaign: Campaign) -> None:
    gold = known(gold_campaign)
    judged(gold_campaign, Judgement(label="negative"))
    assert accuracy(gold_campaign) == ["0 of 1"]
    say(gold_campaign, withdraw, gold)
    assert accuracy(gold_campaign) == []


def test_a_flag_on_the_owners_gold_is_listed_until_the_row_is_corrected(gold_campaign: Campaign) -> None:
    (row,) = built_in_pack("sentiment").seed[:1]
    with gold_campaign.store.write() as session:
        update_gold(session, gold_campaign.task, [row], now=gold_campaign.now)
    judged(gold_campaign, flagging(gold_campaign))
    (shown,) = gold_flags(gold_campaign)
    assert (shown.row, shown.target, shown.flags[0].comment) == (row.id, row.label, "two at once")
    assert accuracy(gold_campaign) == []
    with gold_campaign.store.write() as session:
        update_gold(session, gold_campaign.task, [], now=gold_campaign.now)
    assert gold_flags(gold_campaign) == []


@pytest.mark.any_database
def test_unconfirmed_flags_are_ignored(gold_campaign: Campaign) -> None:
    known(gold_campaign)
    gold_campaign.add_example()
    page = gold_campaign.open_validation_page()
    gold_campaign.judge_all(page, flagging(gold_campaign))
    gold_campaign.finish_page(page)
    assert late(gold_campaign) == []
