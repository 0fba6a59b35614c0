"""Hourly pay is measured, and topped up to the minimum through the ledger."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from round_manager.crowd.fair_pay import GroupWage, due_top_ups, group_wages, owe_top_ups
from round_manager.models import Assignment, EntryKind, Hit, HitKind, LedgerEntry, ModelVersion, Round, Task
from round_manager.services.payments import owe_top_ups as owe_plan
from round_manager.services.payments import plan_top_ups
from round_manager.tasks.rounds import open_round
from tests.campaign import Campaign, NewCampaign


def wages(campaign: Campaign) -> list[GroupWage]:
    with campaign.store.read() as session:
        return group_wages(
            session, session.get_one(Task, campaign.task.id), round=session.get_one(Round, campaign.round_id)
        )


def paid_group(campaign: Campaign, minutes: list[int]) -> None:
    campaign.post_hits(1, assignments=len(minutes))
    hit = campaign.hit_ids()[-1]
    done = []
    for place, each in enumerate(minutes):
        campaign.crowd.accept(hit, f"W{place}")
        campaign.clock.advance(timedelta(minutes=each))
        done.append(campaign.crowd.submit(hit, f"W{place}"))
    campaign.marketplace.collector.run()
    campaign.approve(done)
    campaign.marketplace.payments.run()


def test_the_wage_of_a_group_is_the_median_of_its_people(campaign: Campaign) -> None:
    paid_group(campaign, [1, 1, 15])
    (wage,) = wages(campaign)
    reward = campaign.round.spec["pay"]["create_cents"]
    assert wage.assignments == 3
    assert wage.median_seconds == 60
    assert wage.median_hourly_cents == reward * 60
    assert not wage.is_low
    assert wage.lacking == ()


def test_a_low_group_is_topped_up_to_the_minimum_and_only_once(campaign: Campaign) -> None:
    paid_group(campaign, [8, 12, 19])
    (wage,) = wages(campaign)
    minimum = campaign.round.spec["pay"]["minimum_hourly_cents"]
    assert wage.is_low
    reward = campaign.round.spec["pay"]["create_cents"]
    # The worker with eight minutes gets what they are worth; the others, what the median of twelve is worth.
    assert [one.cents for one in wage.lacking] == [-(-minimum * time // 60) - reward for time in (8, 12, 12)]
    for _ in range(2):
        with campaign.store.write() as session:
            owe_top_ups(session, campaign.crowd, wages(campaign), actor="owner", reason="", now=campaign.now)
    assert campaign.marketplace.payments.run().bonuses == 3
    assert campaign.ledger_states(EntryKind.TOP_UP) == {"confirmed": 3}
    (after,) = wages(campaign)
    assert after.median_hourly_cents >= minimum
    assert not after.is_low
    campaign.check_ledger()


def test_active_time_on_the_page_counts_where_it_is_known(campaign: Campaign) -> None:
    paid_group(campaign, [19, 19, 19])
    with campaign.store.write() as session:
        for work in session.scalars(select(Assignment)):
            work.active_ms = 60_000
    (wage,) = wages(campaign)
    assert wage.median_seconds == 60
    assert not wage.is_low


def test_wages_of_interleaved_groups_are_separate(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("round_manager.crowd.fair_pay.ROWS_AT_A_TIME", 2)
    campaign.plan_hits(1, assignments=2)
    campaign.plan_hits(1, assignments=3, kind=HitKind.VALIDATE)
    campaign.marketplace.poster.run()
    create, validate = campaign.hit_ids()
    done = []
    for place, (hit, minutes) in enumerate([(validate, 1), (create, 3), (validate, 1), (create, 5), (validate, 9)]):
        campaign.crowd.accept(hit, f"W{place}")
        campaign.clock.advance(timedelta(minutes=minutes))
        done.append(campaign.crowd.submit(hit, f"W{place}"))
    campaign.marketplace.collector.run()
    campaign.approve(done)
    campaign.marketplace.payments.run()
    found = {wage.kind: wage for wage in wages(campaign)}
    told = {kind: (wage.assignments, wage.median_seconds) for kind, wage in found.items()}
    assert told == {HitKind.CREATE: (2, 240), HitKind.VALIDATE: (3, 60)}


def test_one_outlier_does_not_decide_the_median(campaign: Campaign) -> None:
    paid_group(campaign, [1, 1, 1, 1, 19])
    (wage,) = wages(campaign)
    assert not wage.is_low
    assert wage.lacking == ()


@pytest.mark.parametrize("minutes", [[7, 7], [6, 9, 9], [10, 11, 12, 13]])
def test_the_median_reaches_the_minimum_after_the_top_up(campaign: Campaign, minutes: list[int]) -> None:
    paid_group(campaign, minutes)
    with campaign.store.write() as session:
        owe_top_ups(session, campaign.crowd, wages(campaign), actor="owner", reason="", now=campaign.now)
    campaign.marketplace.payments.run()
    (wage,) = wages(campaign)
    assert not wage.is_low


def test_a_worker_with_many_assignments_counts_once_in_the_median(campaign: Campaign) -> None:
    campaign.post_hits(7)
    *many, first, second = campaign.hit_ids()
    done = []
    for hit, worker, minutes in (*((hit, "FAST", 1) for hit in many), (first, "W1", 12), (second, "W2", 12)):
        campaign.crowd.accept(hit, worker)
        campaign.clock.advance(timedelta(minutes=minutes))
        done.append(campaign.crowd.submit(hit, worker))
    campaign.marketplace.collector.run()
    campaign.approve(done)
    campaign.marketplace.payments.run()
    (wage,) = wages(campaign)
    assert (wage.median_seconds, wage.is_low) == (720, True)
    # The fast worker lacks nothing for their own time.
    assert [one.cents for one in wage.lacking] == [300 - 45, 300 - 45]


def test_top_ups_of_one_worker_in_a_round_are_capped(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(pay={"top_up_cap_cents": 300})
    campaign.post_hits(3)
    done = campaign.submit_all("W1", minutes=12)
    campaign.marketplace.collector.run()
    campaign.approve(done)
    campaign.marketplace.payments.run()
    for _ in range(2):
        with campaign.store.write() as session:
            owe_top_ups(session, campaign.crowd, wages(campaign), actor="owner", reason="", now=campaign.now)
    entries = campaign.rows(LedgerEntry, LedgerEntry.kind == EntryKind.TOP_UP)
    # Each lacks 255 cents.
    assert [one.cents for one in entries] == [255, 45]
    with campaign.store.read() as session:
        assert due_top_ups(session, session.get_one(Round, campaign.round_id)).cents == 0


@pytest.mark.parametrize(("limit", "waits"), [(764, True), (765, False)])
def test_top_ups_above_the_limit_need_the_owners_approval(
    new_campaign: NewCampaign, limit: int, *, waits: bool
) -> None:
    campaign = new_campaign(pay={"top_up_review_cents": limit})
    paid_group(campaign, [12, 12, 12])
    with campaign.store.read() as session:
        due = due_top_ups(session, session.get_one(Round, campaign.round_id))
    assert (due.cents, due.limit_cents, due.need_approval) == (765, limit, waits)


def test_the_limit_holds_for_all_top_ups_of_the_round_together(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(pay={"top_up_review_cents": 300})
    paid_group(campaign, [12])
    with campaign.store.write() as session:
        owe_top_ups(session, campaign.crowd, wages(campaign), actor="owner", reason="", now=campaign.now)
    paid_group(campaign, [12])
    with campaign.store.read() as session:
        due = due_top_ups(session, session.get_one(Round, campaign.round_id))
    assert (due.cents, due.owed_before_cents, due.need_approval) == (255, 255, True)


def test_the_owner_approves_what_each_round_lacks_although_rounds_share_a_group(new_campaign: NewCampaign) -> None:
    first = new_campaign(pay={"top_up_review_cents": 100})
    paid_group(first, [1, 1, 1, 1, 1])
    first.mark_closed()
    with first.store.write() as session:
        versions = session.scalars(select(ModelVersion)).all()
        task = session.get_one(Task, first.task.id)
        opened = open_round(session, task, versions, now=first.now, actor="owner", reason="a test")
    second = replace(first, round_id=opened.id)
    paid_group(second, [12, 12])
    assert len({hit.group_id for hit in second.rows(Hit)}) == 1
    with second.store.read() as session:
        due = due_top_ups(session, session.get_one(Round, opened.id))
    assert due.need_approval
    plan = plan_top_ups(second.services, second.marketplace, second.task.name)
    assert [(one.top_ups, one.cents) for one in plan.groups if one.top_ups] == [(2, due.cents)]
    assert owe_plan(second.services, second.owner, second.marketplace, plan) == due.cents
    with second.store.read() as session:
        assert due_top_ups(session, session.get_one(Round, opened.id)).cents == 0


def test_limits_that_are_not_set_follow_from_the_other_terms(campaign: Campaign) -> None:
    assert campaign.spec.top_up_cap_cents == 4 * campaign.spec.pay.minimum_hourly_cents
    assert campaign.spec.top_up_review_cents == campaign.spec.budget.round_cents // 10
