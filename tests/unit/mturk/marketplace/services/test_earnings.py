"""Earnings of workers, and payouts: each cent is paid out once."""

import csv
import io

import pytest
from sqlalchemy import func, select

from mturk.marketplace import money
from mturk.marketplace.errors import PayoutNotFound
from mturk.marketplace.services import earnings
from mturk.marketplace.services.earnings import Earnings, PayoutBatch, PayoutShare
from mturk.marketplace.tables.people import Movement, Worker
from mturk.marketplace.tables.work import AssignmentStatus
from tests.fakes.clock import NOON
from tests.fakes.market import StillWorld


def submit_work(world: StillWorld, worker: Worker, cents: int) -> str:
    return world.work(worker, world.post(cents=cents).type_id).id


def earned(world: StillWorld, worker: Worker) -> Earnings:
    return earnings.worker_earnings(world.market, worker.id)


def test_earnings_are_pending_until_they_are_approved(world: StillWorld) -> None:
    worker = world.make_worker()
    submit_work(world, worker, 25)
    before = earned(world, worker)
    world.advance(days=7)
    after = earned(world, worker)
    assert (before.pending_cents, before.total_cents) == (25, 0)
    assert (after.pending_cents, after.total_cents, after.balance_cents) == (0, 25, 25)
    assert [one.status for one in after.assignments] == [AssignmentStatus.APPROVED]


def test_a_payout_takes_each_balance_once(world: StillWorld) -> None:
    ada, bob = world.make_worker("Ada"), world.make_worker("Bob")
    for worker, cents in ((ada, 100), (ada, 25), (bob, 40)):
        world.approve(submit_work(world, worker, cents))
    submit_work(world, bob, 99)
    first, second = earnings.make_payout(world.market), earnings.make_payout(world.market)
    assert [(share.name, share.cents) for share in first.shares] == [("Ada", 125), ("Bob", 40)]
    assert (second.shares, second.id) == ((), "")
    assert (earned(world, ada).paid_out_cents, earned(world, ada).balance_cents) == (125, 0)
    with world.market.read() as session:
        assert money.balance(session, money.PAYOUTS) == 165
        assert money.summary(session).is_balanced


def test_a_payout_can_be_read_again_and_the_next_starts_where_it_ended(world: StillWorld) -> None:
    ada = world.make_worker("Ada")
    world.approve(submit_work(world, ada, 100))
    first = earnings.make_payout(world.market)
    world.advance(days=7)
    world.approve(submit_work(world, ada, 50))
    second = earnings.make_payout(world.market)
    assert earnings.find_payout(world.market, first.id) == first
    assert earnings.find_payout(world.market, second.id) == second
    assert (first.since, first.until, second.since) == (None, NOON, NOON)
    assert earnings.payout_csv(second).splitlines()[1] == (
        f"{ada.id},Ada,50,0.50,{second.id},2027-03-01T12:00:00Z,2027-03-08T12:00:00Z"
    )


def test_a_preview_changes_nothing(world: StillWorld) -> None:
    world.approve(submit_work(world, world.make_worker(), 100))
    movements = select(func.count()).select_from(Movement)
    with world.market.read() as session:
        before = session.scalar(movements)
    assert earnings.preview_payout(world.market).cents == 100
    with world.market.read() as session:
        assert session.scalar(movements) == before


def test_an_unknown_payout_is_refused(world: StillWorld) -> None:
    with pytest.raises(PayoutNotFound):
        earnings.find_payout(world.market, "X")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("http://x")', "a,b", 'a"b'])
def test_a_name_becomes_neither_a_formula_nor_another_cell(name: str) -> None:
    text = earnings.payout_csv(PayoutBatch("B", None, NOON, (PayoutShare("A1", name, 5),)))
    _, row = csv.reader(io.StringIO(text))
    assert row[1] == (f"'{name}" if name[0] in "=+-@" else name)
    assert row[2:4] == ["5", "0.05"]
