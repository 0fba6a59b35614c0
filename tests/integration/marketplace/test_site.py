"""The worker's site on PostgreSQL, from end to end: what SQLite lets pass, it may not."""

from collections.abc import Iterator
from threading import Barrier, Thread

import pytest

from mturk.marketplace import credentials, errors, worker_actions
from mturk.marketplace.services import accounts, earnings
from mturk.marketplace.services.workers import invite_workers, public_address_of, remember_address
from mturk.marketplace.tables.people import Worker
from tests.integration.databases import Databases
from tests.unit.marketplace_site.stage import Stage, accepted, open_stage


@pytest.fixture
def stage(postgresql_databases: Databases) -> Iterator[Stage]:
    url = postgresql_databases.empty()
    with open_stage(url) as stage:
        yield stage
    postgresql_databases.drop(url)


def test_from_an_invitation_to_a_payout(stage: Stage) -> None:
    remember_address(stage.market, "http://old.example")
    remember_address(stage.market, "https://crowd.example")
    (ada,) = invite_workers(stage.market, ["Ada"], str(public_address_of(stage.market)), country="US", adult=True)
    assert ada.link.startswith("https://crowd.example/join/")
    with stage.market.read() as session:
        worker = session.get_one(Worker, ada.worker_id)
    browser = stage.signed_in(worker)
    assignment = accepted(browser, stage.group_of(stage.post(cents=45)))
    with stage.market.write() as session:
        worker_actions.submit(session, assignment, {"text": "x"}, stage.clock.now())
    stage.approve(assignment)
    for path in ("/", "/queue", "/earnings", "/messages", "/account"):
        assert browser.get(path).status_code == 200
    batch = earnings.make_payout(stage.market)
    assert earnings.find_payout(stage.market, batch.id) == batch
    status = accounts.marketplace_status(stage.market)
    assert (batch.cents, status.money.is_balanced) == (45, True)
    assert [(one.name, one.approved, one.balance_cents) for one in status.workers] == [("Ada", 1, 0)]
    assert [(one.open_hits, one.to_decide) for one in status.accounts] == [(0, 0)]


def test_a_link_that_is_used_by_two_at_once_signs_in_one_of_them(stage: Stage) -> None:
    token = stage.link(stage.worker()).removeprefix("/join/")
    both = Barrier(2)
    outcomes: list[str] = []

    def join() -> None:
        both.wait()
        try:
            with stage.market.write() as session:
                credentials.use_link(session, token, stage.clock.now())
            outcomes.append("joined")
        except errors.LinkUsed:
            outcomes.append("used")

    threads = [Thread(target=join) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["joined", "used"]


def test_two_payouts_at_once_pay_each_cent_once(stage: Stage) -> None:
    assignment = accepted(stage.signed_in(stage.worker()), stage.group_of(stage.post(cents=45)))
    with stage.market.write() as session:
        worker_actions.submit(session, assignment, {}, stage.clock.now())
    stage.approve(assignment)
    both = Barrier(2)
    paid: list[int] = []

    def pay() -> None:
        both.wait()
        paid.append(earnings.make_payout(stage.market).cents)

    threads = [Thread(target=pay) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(paid) == [0, 45]
