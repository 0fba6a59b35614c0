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
from tests.integration.plugin.cli.crowd.shop import BONUS, BONUS_FEE, EACH, REWARD, REWARD_FEE, SENTIMENT
from tests.integration.round_manager.crowd.counter import OWNER, Counter


def test_the_overview_counts_every_place_and_every_piece_of_work(counter: Counter) -> None:
    first, second = counter.collected(2)
    counter.approve([first])
    counter.payments.run()
    counter.rejections.reject(second, "Empty.", actor="owner")
    counter.post(1, assignments=3)
    counter.crowd.submit(counter.posted()[-1], "W2")
    counter.crowd.accept(counter.posted()[-1], "W3")
    counter.collector.run()
    counter.plan(2, kind=HitKind.VALIDATE)
    found = find_overview(counter.store, counter.crowd.name, SENTIMENT, counter.crowd)
    (group,) = found.groups
    told = group.figures
    assert (told.hits, told.unfinished, told.unfilled) == (3, 1, 2)
    assert (told.undecided, told.approved, told.rejected, group.places) == (1, 1, 1, OpenPlaces(1, 1))
    assert (group.median_minutes, group.median_hourly_cents) == (10.0, 270)
    assert group.is_low
    assert [(one.kind, one.unsent, one.in_doubt, one.cents) for one in found.planned] == [(HitKind.VALIDATE, 2, 0, 120)]
    assert (found.in_doubt, found.held, found.refused, found.without_round) == ([], [], [], [])


def test_seats_of_many_hits_are_read_from_the_listing(counter: Counter) -> None:
    counter.post(51)
    counter.crowd.accept(counter.posted()[0], "W1")
    before = counter.calls()
    with counter.store.read() as session:
        standing = live_hits(session, counter.crowd.name)
    (places,) = find_places(counter.crowd, standing).values()
    assert places == OpenPlaces(50, 1)
    assert (counter.calls() - before)["hit"] == 0


def test_money_is_summed_by_task_and_by_what_is_owed(counter: Counter) -> None:
    first, second, _third = counter.collected(3)
    counter.approve([first])
    counter.payments.run()
    counter.approve([second])
    key = counter.bonus(first, 50)
    with counter.store.read() as session:
        (money,) = money_by_task(session, counter.crowd.name)
        owed = owed_by_kind(session, counter.crowd.name)
    assert (money.paid_cents, money.owed_rewards_cents, money.owed_bonuses_cents) == (54, 54, 60)
    assert money.reserved_cents == EACH + 2 * (BONUS + BONUS_FEE)
    assert [(one.kind, one.count, one.cents, one.fee_cents) for one in owed] == [
        (EntryKind.REWARD, 1, REWARD, REWARD_FEE),
        (EntryKind.EXTRA, 1, 50, 10),
    ]
    with counter.store.write() as session:
        send(session, [session.get_one(LedgerEntry, counter.entry(key).id)], now=counter.clock.now())
    with counter.store.read() as session:
        (money,) = money_by_task(session, counter.crowd.name)
    assert (money.in_doubt_cents, money.owed_cents) == (60, 54)


def test_worker_figures_show_work_earnings_and_access(counter: Counter) -> None:
    counter.post(1)
    (work,) = counter.work("W1", minutes=6)
    counter.collector.run()
    counter.access.grant(counter.task, "W2", actor="owner", reason="")
    counter.access.block("W3", actor="owner", reason="Spam.")
    counter.approve([work])
    counter.payments.run()
    counter.bonus(work, 50)
    with counter.store.read() as session:
        one, *others = worker_figures(session, counter.crowd.name, [session.get_one(Task, counter.task.id)])
    assert (one.worker_id, one.approved, one.earned_cents, one.owed_cents) == ("W1", 1, REWARD, 50)
    assert one.median_hourly_cents == (REWARD + 50) * 10
    assert {(one.worker_id, one.qualified_for, one.blocked) for one in others} == {
        ("W2", (SENTIMENT,), ""),
        ("W3", (), "Spam."),
    }


def test_a_top_up_that_was_given_is_not_counted_again(counter: Counter) -> None:
    counter.approve(counter.collected(1))
    counter.payments.run()
    with counter.store.read() as session:
        wages = group_wages(session, session.get_one(Task, counter.task.id))
        assert list(new_top_ups(session, wages).values()) == [[250 - REWARD]]
    with counter.store.write() as session:
        owe_top_ups(session, counter.crowd, wages, now=counter.clock.now())
    with counter.store.read() as session:
        assert list(new_top_ups(session, wages).values()) == [[]]


def test_a_dry_run_refuses_what_a_real_run_would_and_leaves_nothing_behind(counter: Counter) -> None:
    (work,) = counter.collected(1)
    before = counter.figures()

    def give(cents: int) -> None:
        with counter.store.dry_run() as session:
            found = find_assignment(session, counter.crowd.name, work)
            give_bonus(session, counter.crowd, found, cents, "Thanks.", actor="owner", now=counter.clock.now())

    give(100)
    with pytest.raises(BudgetError):
        give(70_000)
    assert counter.figures() == before
    counter.check()


def test_the_same_bonus_given_concurrently_is_owed_once(counter: Counter) -> None:
    (done,) = counter.collected()
    refusals: list[str] = []

    def give(reason: str, start: threading.Barrier) -> None:
        start.wait(10)
        try:
            with counter.store.write() as session:
                work = find_assignment(session, counter.crowd.name, done)
                give_bonus_once(session, counter.crowd, work, 20, reason, actor=OWNER, now=counter.clock.now())
        except BonusAlreadyGiven as error:
            refusals.append(str(error))

    for reason in ("Fast.", "Funny.", "Fair.", "Fine."):
        start = threading.Barrier(3)
        givers = [threading.Thread(target=give, args=(reason, start)) for _ in range(3)]
        for giver in givers:
            giver.start()
        for giver in givers:
            giver.join()
    assert counter.states(EntryKind.EXTRA) == {"owed": 4}
    assert [done in one for one in refusals] == [True] * 8
