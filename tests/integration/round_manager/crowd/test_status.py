"""Overviews of the ledger are the same on SQLite and PostgreSQL."""

import threading

import pytest

from round_manager.crowd.fair_pay import group_wages, new_top_ups, owe_top_ups
from round_manager.crowd.reviews import find_assignment, give_bonus, give_bonus_once
from round_manager.crowd.status import OpenPlaces, find_overview, find_places, live_hits
from round_manager.crowd.workers import worker_figures
from round_manager.errors import BonusAlreadyGiven, BudgetError
from round_manager.models import EntryKind, HitKind, LedgerEntry, Task
from round_manager.money.budget import money_by_task, owed_by_kind
from round_manager.money.ledger import send
from tests.campaign import OWNER, Campaign
from tests.integration.plugin.cli.crowd.crowd_commands import BONUS, BONUS_FEE, EACH, REWARD, REWARD_FEE, SENTIMENT


def test_the_overview_counts_every_place_and_every_piece_of_work(campaign: Campaign) -> None:
    first, second = campaign.collected(2)
    campaign.approve([first])
    campaign.marketplace.payments.run()
    campaign.marketplace.rejections.reject(second, "Empty.", actor="owner")
    campaign.post_hits(1, assignments=3)
    campaign.crowd.submit(campaign.hit_ids()[-1], "W2")
    campaign.crowd.accept(campaign.hit_ids()[-1], "W3")
    campaign.marketplace.collector.run()
    campaign.plan_hits(2, kind=HitKind.VALIDATE)
    found = find_overview(campaign.store, campaign.crowd.name, SENTIMENT, campaign.crowd)
    (group,) = found.groups
    told = group.figures
    assert (told.hits, told.unfinished, told.unfilled) == (3, 1, 2)
    assert (told.undecided, told.approved, told.rejected, group.places) == (1, 1, 1, OpenPlaces(1, 1))
    assert (group.median_minutes, group.median_hourly_cents) == (10.0, 270)
    assert group.is_low
    assert [(one.kind, one.unsent, one.in_doubt, one.cents) for one in found.planned] == [(HitKind.VALIDATE, 2, 0, 120)]
    assert (found.in_doubt, found.held, found.refused, found.without_round) == ([], [], [], [])


def test_seats_of_many_hits_are_read_from_the_listing(campaign: Campaign) -> None:
    campaign.post_hits(51)
    campaign.crowd.accept(campaign.hit_ids()[0], "W1")
    before = campaign.crowd_calls()
    with campaign.store.read() as session:
        standing = live_hits(session, campaign.crowd.name)
    (places,) = find_places(campaign.crowd, standing).values()
    assert places == OpenPlaces(50, 1)
    assert (campaign.crowd_calls() - before)["hit"] == 0


def test_money_is_summed_by_task_and_by_what_is_owed(campaign: Campaign) -> None:
    first, second, _third = campaign.collected(3)
    campaign.approve([first])
    campaign.marketplace.payments.run()
    campaign.approve([second])
    key = campaign.give_bonus(first, 50)
    with campaign.store.read() as session:
        (money,) = money_by_task(session, campaign.crowd.name)
        owed = owed_by_kind(session, campaign.crowd.name)
    assert (money.paid_cents, money.owed_rewards_cents, money.owed_bonuses_cents) == (54, 54, 60)
    assert money.reserved_cents == EACH + 2 * (BONUS + BONUS_FEE)
    assert [(one.kind, one.count, one.cents, one.fee_cents) for one in owed] == [
        (EntryKind.REWARD, 1, REWARD, REWARD_FEE),
        (EntryKind.EXTRA, 1, 50, 10),
    ]
    with campaign.store.write() as session:
        send(session, [session.get_one(LedgerEntry, campaign.ledger_entry(key).id)], now=campaign.now)
    with campaign.store.read() as session:
        (money,) = money_by_task(session, campaign.crowd.name)
    assert (money.in_doubt_cents, money.owed_cents) == (60, 54)


@pytest.mark.any_database
def test_worker_figures_show_work_earnings_and_access(campaign: Campaign) -> None:
    campaign.post_hits(1)
    (work,) = campaign.submit_all("W1", minutes=6)
    campaign.marketplace.collector.run()
    campaign.marketplace.access.grant(campaign.task, "W2", actor="owner", reason="")
    campaign.marketplace.access.block("W3", actor="owner", reason="Spam.")
    campaign.approve([work])
    campaign.marketplace.payments.run()
    campaign.give_bonus(work, 50)
    with campaign.store.read() as session:
        one, *others = worker_figures(session, campaign.crowd.name, [session.get_one(Task, campaign.task.id)])
    assert (one.worker_id, one.approved, one.earned_cents, one.owed_cents) == ("W1", 1, REWARD, 50)
    assert one.median_hourly_cents == (REWARD + 50) * 10
    assert {(one.worker_id, one.qualified_for, one.blocked) for one in others} == {
        ("W2", (SENTIMENT,), ""),
        ("W3", (), "Spam."),
    }


@pytest.mark.any_database
def test_a_top_up_that_was_given_is_not_counted_again(campaign: Campaign) -> None:
    campaign.approve(campaign.collected(1))
    campaign.marketplace.payments.run()
    with campaign.store.read() as session:
        wages = group_wages(session, session.get_one(Task, campaign.task.id))
        assert [one.cents for group in new_top_ups(session, wages) for one in group] == [250 - REWARD]
    with campaign.store.write() as session:
        owe_top_ups(session, campaign.crowd, wages, actor="owner", reason="", now=campaign.now)
    with campaign.store.read() as session:
        assert new_top_ups(session, wages) == [[]]


@pytest.mark.any_database
def test_a_dry_run_refuses_what_a_real_run_would_and_leaves_nothing_behind(campaign: Campaign) -> None:
    (work,) = campaign.collected(1)
    before = campaign.figures()

    def give(cents: int) -> None:
        with campaign.store.dry_run() as session:
            found = find_assignment(session, campaign.crowd.name, work)
            give_bonus(session, campaign.crowd, found, cents, "Thanks.", actor="owner", now=campaign.now)

    give(100)
    with pytest.raises(BudgetError):
        give(70_000)
    assert campaign.figures() == before
    campaign.check_ledger()


def test_the_same_bonus_given_concurrently_is_owed_once(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    refusals: list[str] = []

    def give(reason: str, start: threading.Barrier) -> None:
        start.wait(10)
        try:
            with campaign.store.write() as session:
                work = find_assignment(session, campaign.crowd.name, done)
                give_bonus_once(session, campaign.crowd, work, 20, reason, actor=OWNER, now=campaign.now)
        except BonusAlreadyGiven as error:
            refusals.append(str(error))

    for reason in ("Fast.", "Funny.", "Fair.", "Fine."):
        start = threading.Barrier(3)
        givers = [threading.Thread(target=give, args=(reason, start)) for _ in range(3)]
        for giver in givers:
            giver.start()
        for giver in givers:
            giver.join()
    assert campaign.ledger_states(EntryKind.EXTRA) == {"owed": 4}
    assert [done in one for one in refusals] == [True] * 8
