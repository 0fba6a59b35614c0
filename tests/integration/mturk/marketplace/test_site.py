"""The worker site on PostgreSQL, which is stricter than SQLite."""

from collections.abc import Iterator
from threading import Barrier, Thread

import pytest

from mturk.marketplace import errors, worker_actions
from mturk.marketplace.services import accounts, earnings
from mturk.marketplace.services.sign_in import sign_in
from mturk.marketplace.services.workers import invite_workers, public_address_of, remember_address
from mturk.marketplace.tables.people import Worker
from tests.fakes.market import StillWorld, open_world
from tests.fakes.market_pages import accept_task
from tests.integration.databases import Databases


@pytest.fixture
def world(postgresql_databases: Databases) -> Iterator[StillWorld]:
    url = postgresql_databases.empty()
    with open_world(url) as world:
        yield world
    postgresql_databases.drop(url)


def test_from_an_invitation_to_a_payout(world: StillWorld) -> None:
    remember_address(world.market, "http://old.example")
    remember_address(world.market, "https://crowd.example")
    (ada,) = invite_workers(world.market, ["Ada"], str(public_address_of(world.market)), country="US", adult=True)
    assert ada.link.startswith("https://crowd.example/join/")
    with world.market.read() as session:
        worker = session.get_one(Worker, ada.worker_id)
    browser = world.sign_in(worker)
    assignment = accept_task(browser, world.group_of(world.post(cents=45).type_id))
    with world.market.write() as session:
        worker_actions.submit(session, assignment, {"text": "x"}, world.clock.now())
    world.approve(assignment)
    for path in ("/", "/queue", "/earnings", "/messages", "/account"):
        assert browser.get(path).status_code == 200
    batch = earnings.make_payout(world.market)
    assert earnings.find_payout(world.market, batch.id) == batch
    status = accounts.marketplace_status(world.market)
    assert (batch.cents, status.money.is_balanced) == (45, True)
    assert [(one.name, one.approved, one.balance_cents) for one in status.workers] == [("Ada", 1, 0)]
    assert [(one.open_hits, one.to_decide) for one in status.accounts] == [(0, 0)]


def test_a_link_used_by_two_browsers_at_once_signs_in_one_of_them(world: StillWorld) -> None:
    token = world.link(world.make_worker()).removeprefix("/join/")
    barrier = Barrier(2)
    outcomes: list[str] = []

    def join() -> None:
        barrier.wait()
        try:
            sign_in(world.market, token)
            outcomes.append("joined")
        except errors.LinkUsed:
            outcomes.append("used")

    threads = [Thread(target=join) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["joined", "used"]


def test_two_payouts_at_once_pay_each_cent_once(world: StillWorld) -> None:
    world.approve(world.work(world.make_worker(), world.post(cents=45).type_id).id)
    barrier = Barrier(2)
    paid: list[int] = []

    def pay() -> None:
        barrier.wait()
        paid.append(earnings.make_payout(world.market).cents)

    threads = [Thread(target=pay) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(paid) == [0, 45]
