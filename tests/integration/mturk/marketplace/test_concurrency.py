"""Concurrent calls on SQLite and PostgreSQL: one worker per assignment, one HIT per token, one payment per approval."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

import pytest
from sqlalchemy import func, select

from common.clock import SystemClock
from mturk.marketplace import worker_actions
from mturk.marketplace.errors import AssignmentAlreadySubmitted, MarketError, NoWorkLeft
from mturk.marketplace.market import open_market
from mturk.marketplace.services import earnings
from mturk.marketplace.tables.people import Account
from mturk.marketplace.tables.work import Assignment, Hit
from tests.fakes.market import MarketServer
from tests.integration.databases import Databases
from tests.integration.mturk.marketplace.conftest import Requests

Result = TypeVar("Result")


@pytest.fixture
def server(databases: Databases) -> Iterator[MarketServer]:
    """A marketplace on each kind of database."""
    url = databases.empty()
    with MarketServer(url) as running:
        yield running
    databases.drop(url)


def _concurrently(count: int, act: Callable[[int], Result]) -> list[Result | Exception]:
    """Run threads that start at the same moment; return the result or error of each."""
    barrier = threading.Barrier(count)

    def run(number: int) -> Result | Exception:
        barrier.wait(10)
        try:
            return act(number)
        except Exception as error:  # noqa: BLE001 - an error is one of the results
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_the_last_assignment_goes_to_one_worker(lab: Requests) -> None:
    lab.hit()
    workers = [lab.server.make_worker(f"W{number}") for number in range(6)]
    got = _concurrently(6, lambda number: lab.server.accept(workers[number], lab.type_id))
    assert sum(isinstance(one, Assignment) for one in got) == 1
    assert sum(isinstance(one, NoWorkLeft) for one in got) == 5


def test_one_worker_with_many_tabs_gets_one_assignment_of_a_hit(lab: Requests) -> None:
    lab.hit(MaxAssignments=6)
    worker = lab.server.make_worker()
    got = _concurrently(6, lambda _: lab.server.accept(worker, lab.type_id))
    assert sum(isinstance(one, Assignment) for one in got) == 1


def test_one_token_creates_one_hit(lab: Requests) -> None:
    lab.hit()
    clients = [Requests(lab.server, lab.server.client()) for _ in range(4)]
    for one in clients:
        assert one.type_id == lab.type_id
    got = _concurrently(4, lambda number: clients[number].hit(UniqueRequestToken="once"))
    assert sum(isinstance(one, dict) for one in got) == 1
    assert sum("already exists" in str(one) for one in got if isinstance(one, Exception)) == 3
    assert lab.client.list_hits()["NumResults"] == 2


def test_one_of_many_submissions_counts(lab: Requests) -> None:
    hit = lab.hit()
    held = lab.server.accept(lab.server.make_worker(), lab.type_id)
    got = _concurrently(4, lambda _: lab.server.submit(held))
    assert sum(isinstance(one, Assignment) for one in got) == 1
    assert sum(isinstance(one, AssignmentAlreadySubmitted) for one in got) == 3
    assert lab.counts(hit) == (0, 0, 0)


def test_one_of_many_approvals_pays(lab: Requests) -> None:
    lab.hit()
    worker = lab.server.make_worker()
    work = lab.server.work(worker, lab.type_id)
    clients = [lab.server.client() for _ in range(4)]
    got = _concurrently(4, lambda number: clients[number].approve_assignment(AssignmentId=work.id))
    assert sum(isinstance(one, dict) for one in got) == 1
    assert earnings.worker_earnings(lab.server.market, worker.id).total_cents == 25
    with lab.server.market.read() as session:
        assert session.execute(select(func.sum(Account.balance_cents))).scalar_one() == 0


def test_concurrent_calls_never_spend_more_than_the_balance(server: MarketServer) -> None:
    _, key = server.make_requester("Poor", deposit_cents=100)
    poor = [Requests(server, server.client(key)) for _ in range(6)]
    for one in poor:
        assert one.type_id
    got = _concurrently(6, lambda number: poor[number].hit())
    # Each costs 30 cents with its fee.
    assert sum(isinstance(one, dict) for one in got) == 3
    assert poor[0].balance() == ("0.10", "0.90")


def test_money_adds_up_after_a_return_a_bonus_and_an_expiry(lab: Requests) -> None:
    lab.hit(MaxAssignments=3)
    workers = [lab.server.make_worker(f"W{number}") for number in range(3)]
    market = lab.server.market
    held = lab.server.accept(workers[0], lab.type_id)
    with market.write() as session:
        worker_actions.return_assignment(session, workers[0], held.id, market.now())
    again = lab.server.accept(workers[1], lab.type_id)
    assert again.id == held.id, "the same assignment is given to another worker"
    lab.server.submit(again, {"text": "ünï ✓"})
    lab.client.send_bonus(WorkerId=workers[1].id, AssignmentId=again.id, BonusAmount="1", Reason="nice")
    lab.server.accept(workers[2], lab.type_id)
    lab.server.clock.advance(timedelta(days=2))
    earned = earnings.worker_earnings(market, workers[1].id)
    assert (earned.approved_cents, earned.bonus_cents, earned.pending_cents) == (25, 100, 0)
    with market.read() as session:
        assert [work.title for work in earned.assignments] == ["Fool the model"]
        hit = session.scalars(select(Hit)).one()
        assert (hit.pending, hit.available, hit.completed, hit.held_cents) == (0, 2, 1, 0)
        assert session.execute(select(func.sum(Account.balance_cents))).scalar_one() == 0
    assert lab.balance() == ("9998.50", "0.00")


def test_a_new_database_can_be_opened_by_several_processes_concurrently(databases: Databases) -> None:
    url = databases.empty()
    got = _concurrently(4, lambda _: open_market(url, SystemClock()))
    for one in got:
        assert not isinstance(one, (Exception, MarketError)), one
        one.close()
    databases.drop(url)
