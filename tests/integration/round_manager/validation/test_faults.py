"""Decisions end the same if killed at any statement or run concurrently, and owe no bonus twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from round_manager.database.store import Store
from round_manager.models import Example, ExampleStatus
from round_manager.validation.decisions import Decisions
from tests.campaign import Campaign, NewCampaign
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


def until_done(campaign: Campaign) -> int:
    """Kill the decision at its first statement, then at its second, and so on, until it completes."""
    for statement in range(300):
        try:
            with killed_at(campaign.store, statement):
                campaign.decide()
        except Killed:
            continue
        return statement
    raise AssertionError("it never came through")


def voted(campaign: Campaign) -> list[Example]:
    """Three examples of one HIT: one to be verified, one disputed, one that wants more votes."""
    verified, disputed, open_one = campaign.confirmed_examples(hit=campaign.add_paid_hit())
    campaign.vote(verified, None, None)
    campaign.vote(disputed, *[campaign.other_label(disputed)] * 3)
    campaign.vote(open_one, None, campaign.other_label(open_one))
    return [verified, disputed, open_one]


def check_ended_well(campaign: Campaign, examples: list[Example]) -> None:
    statuses = [campaign.status_of(example) for example in examples]
    assert statuses == [ExampleStatus.VERIFIED, ExampleStatus.DISPUTED, ExampleStatus.PENDING]
    assert campaign.reload(examples[2]).votes_wanted == 3
    assert campaign.bonus_states() == {"owed": 1, "released": 1, "reserved": 1}
    assert campaign.examples_with_bonus() == [examples[0].id]
    assert campaign.uncounted_votes() == 0


def test_a_run_killed_at_any_statement_ends_the_same_after_a_retry(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 3})
    examples = voted(campaign)
    assert until_done(campaign) > 10
    check_ended_well(campaign, examples)


def test_concurrent_decisions_owe_each_bonus_once(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 3})
    examples = voted(campaign)
    found = at_once(*[campaign.decide] * TOGETHER)
    assert all(isinstance(one, Decisions) for one in found), found
    # Examples locked by one of them were skipped by the others; decide them now.
    campaign.decide()
    check_ended_well(campaign, examples)


@pytest.mark.any_database
def test_votes_cast_during_a_decision_are_not_lost(campaign: Campaign) -> None:
    examples = [campaign.add_example() for _ in range(TOGETHER)]
    deeds: list[Any] = [lambda one=one: campaign.vote(one, None, None) for one in examples]
    at_once(*deeds, campaign.decide, campaign.decide)
    campaign.decide()
    assert {campaign.status_of(example) for example in examples} == {ExampleStatus.VERIFIED}


def test_a_flag_concurrent_with_a_decision_waits_for_the_owner_or_is_late(campaign: Campaign) -> None:
    (example,) = campaign.confirmed_examples()
    campaign.vote(example, None, None)
    crossed = at_once(campaign.decide, lambda: campaign.vote(example, flag="It names a person"))
    assert not [one for one in crossed if isinstance(one, Exception)]
    campaign.decide()
    if campaign.status_of(example) is ExampleStatus.FLAGGED:
        assert campaign.bonus_states() == {"reserved": 1}
    else:
        assert (campaign.status_of(example), campaign.bonus_states()) == (ExampleStatus.VERIFIED, {"owed": 1})
