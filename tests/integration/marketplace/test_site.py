"""The worker's site on PostgreSQL, from end to end: what SQLite lets pass, it may not."""

from collections.abc import Iterator
from threading import Barrier, Thread

import pytest

from mturk.marketplace import payouts, sessions, site_owner, working
from mturk.marketplace.site_owner import invite_all, known_address, remember_address
from mturk.marketplace.tables import Worker
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
    with stage.market.write() as session:
        (ada,) = invite_all(session, ["Ada"], str(known_address(session)), stage.clock.now(), country="US", adult=True)
    assert ada.link.startswith("https://crowd.example/join/")
    with stage.market.read() as session:
        worker = session.get_one(Worker, ada.worker_id)
    browser = stage.signed_in(worker)
    assignment = accepted(browser, stage.group_of(stage.post(cents=45)))
    with stage.market.write() as session:
        working.submit(session, assignment, {"text": "x"}, stage.clock.now())
    stage.approve(assignment)
    for path in ("/", "/queue", "/earnings", "/messages", "/account"):
        assert browser.get(path).status_code == 200
    with stage.market.write() as session:
        batch = payouts.pay_out(session, stage.clock.now())
        assert payouts.paid_out(session, batch.id) == batch
        assert (batch.cents, site_owner.sums(session).add_up) == (45, True)
        assert [(one.name, one.approved, one.balance_cents) for one in site_owner.workers(session)] == [("Ada", 1, 0)]
        assert [(one.open_hits, one.to_decide) for one in site_owner.accounts(session)] == [(0, 0)]


def test_a_link_that_is_used_by_two_at_once_signs_in_one_of_them(stage: Stage) -> None:
    token = stage.link(stage.worker()).removeprefix("/join/")
    both = Barrier(2)
    outcomes: list[str] = []

    def join() -> None:
        both.wait()
        try:
            with stage.market.write() as session:
                sessions.join(session, token, stage.clock.now())
            outcomes.append("joined")
        except sessions.LinkUsed:
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
        working.submit(session, assignment, {}, stage.clock.now())
    stage.approve(assignment)
    both = Barrier(2)
    paid: list[int] = []

    def pay() -> None:
        both.wait()
        with stage.market.write() as session:
            paid.append(payouts.pay_out(session, stage.clock.now()).cents)

    threads = [Thread(target=pay) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(paid) == [0, 45]
