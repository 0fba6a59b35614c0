"""Flagged examples wait for the owner, whose decision is stored with a reason."""

from uuid import uuid4

import pytest
from sqlalchemy.orm import Session

from round_manager.errors import DecisionRefused, ExampleNotFound
from round_manager.models import Example, ExampleStatus, Task
from round_manager.validation.flags import count_flagged, find_example, flagged, keep, withdraw
from tests.campaign import OWNER, Campaign

WHY = "I looked at it."
FLAG = "It names a person"


def held(campaign: Campaign, session: Session, example: Example) -> Example:
    return find_example(session, session.get_one(Task, campaign.task.id), example.public_id)


@pytest.mark.any_database
def test_a_flagged_example_is_shown_with_its_votes_and_reasons_and_waits(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example)
    campaign.vote(example, flag=FLAG)
    campaign.vote(example)
    campaign.decide()
    assert campaign.status_of(example) is ExampleStatus.FLAGGED
    with campaign.store.read() as session:
        (shown,) = flagged(session, campaign.round)
        assert count_flagged(session, campaign.round) == 1
    assert (shown.example, shown.target, shown.fields) == (example.public_id, example.label, example.fields)
    assert [(vote.label, vote.flag) for vote in shown.votes] == [
        (example.label, None),
        (None, FLAG),
        (example.label, None),
    ]


@pytest.mark.any_database
def test_a_kept_example_continues_where_it_was_and_a_flag_is_not_a_vote(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example)
    campaign.vote(example, flag=FLAG)
    with campaign.store.write() as session:
        keep(session, held(campaign, session, example), actor=OWNER, reason=WHY, now=campaign.now)
    kept = campaign.reload(example)
    assert (kept.status, kept.votes_wanted) == (ExampleStatus.PENDING, 3)
    campaign.vote(example)
    campaign.decide()
    assert campaign.status_of(example) is ExampleStatus.VERIFIED
    (entry,) = campaign.audit("kept")
    assert (entry.actor, entry.reason, entry.subject_id) == (OWNER, WHY, example.id)


@pytest.mark.any_database
def test_a_withdrawn_example_stays_withdrawn_and_accepts_no_votes(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, flag=FLAG)
    for _ in range(2):
        with campaign.store.write() as session:
            withdraw(session, held(campaign, session, example), actor=OWNER, reason=WHY, now=campaign.now)
    assert campaign.status_of(example) is ExampleStatus.WITHDRAWN
    assert campaign.decide().verified == 0
    (entry,) = campaign.audit("withdrew")
    assert (entry.before, entry.after) == ({"status": "flagged"}, {"status": "withdrawn"})


@pytest.mark.any_database
def test_only_flagged_examples_can_be_kept(campaign: Campaign) -> None:
    example = campaign.add_example()
    with campaign.store.write() as session, pytest.raises(DecisionRefused):
        keep(session, held(campaign, session, example), actor=OWNER, reason=WHY, now=campaign.now)


@pytest.mark.any_database
def test_a_missing_example_is_reported_with_a_hint(campaign: Campaign) -> None:
    with campaign.store.write() as session, pytest.raises(ExampleNotFound):
        find_example(session, session.get_one(Task, campaign.task.id), uuid4())


@pytest.mark.any_database
def test_in_a_closed_round_flags_can_no_longer_be_decided(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, flag=FLAG)
    campaign.mark_closed()
    for decision in (keep, withdraw):
        with campaign.store.write() as session, pytest.raises(DecisionRefused):
            decision(session, held(campaign, session, example), actor=OWNER, reason=WHY, now=campaign.now)
