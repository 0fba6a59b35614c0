"""The number of quiz places, and the totals of paid work."""

import pytest

from round_manager.loop.supply import plan_recruits
from round_manager.models import Hit, HitKind, Round, Task
from round_manager.validation.costs import PaidWork, paid_work
from tests.campaign import OWNER, Campaign


def plan(campaign: Campaign, people: int) -> list[Hit]:
    campaign.marketplace.access.qualification(campaign.task)
    with campaign.store.write() as session:
        return plan_recruits(session, session.get_one(Task, campaign.task.id), campaign.crowd, people, now=campaign.now)


def paid(campaign: Campaign) -> list[PaidWork]:
    with campaign.store.read() as session:
        return paid_work(session, session.get_one(Round, campaign.round_id))


def test_quiz_places_are_split_into_hits_with_the_low_fee(campaign: Campaign) -> None:
    hits = plan(campaign, 20)
    assert [(one.kind, one.max_assignments) for one in hits] == [
        (HitKind.QUIZ, 9),
        (HitKind.QUIZ, 9),
        (HitKind.QUIZ, 2),
    ]


@pytest.mark.any_database
def test_existing_places_and_qualified_workers_count(campaign: Campaign) -> None:
    plan(campaign, 5)
    assert plan(campaign, 5) == []
    campaign.marketplace.access.grant(campaign.task, "W1", actor=OWNER, reason="passed")
    assert [one.max_assignments for one in plan(campaign, 8)] == [2]


def test_paid_work_is_what_workers_got_with_bonuses_and_without_fees(campaign: Campaign) -> None:
    first, second = campaign.collected(2)
    campaign.approve([first])
    campaign.give_bonus(first, 50)
    campaign.marketplace.payments.run()
    reward = campaign.round.spec["pay"]["create_cents"]
    assert paid(campaign) == [PaidWork(first, HitKind.CREATE, reward + 50)]
    campaign.approve([second])
    assert paid(campaign)[1:] == [PaidWork(second, HitKind.CREATE, reward)]
