"""Work is collected once, whatever the marketplace decided, at a cost that depends on unfinished HITs only."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from crowd.errors import NotOnCrowd
from round_manager.crowd.reconciliation import resolve_hit
from round_manager.models import Assignment, AssignmentStatus, EntryKind, Hit, Round, Worker
from tests.campaign import DAY, OWNER, Campaign


@pytest.mark.any_database
def test_work_is_mirrored_with_its_worker_and_its_times(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    with campaign.store.read() as session:
        work = session.scalars(select(Assignment)).one()
        worker = session.get_one(Worker, work.worker_id)
    assert (work.external_id, worker.external_id, work.status) == (done, "W1", AssignmentStatus.SUBMITTED)
    assert work.submitted_at is not None
    assert work.submitted_at - work.accepted_at == timedelta(minutes=10)
    assert campaign.marketplace.collector.run().works == 0


@pytest.mark.any_database
def test_a_hint_reads_only_the_hit_that_it_names_and_can_be_repeated(campaign: Campaign) -> None:
    campaign.post_hits(3)
    done = campaign.submit_all()
    first = campaign.hit_ids()[0]
    before = campaign.crowd_calls()
    assert campaign.marketplace.collector.hinted([first, first, "no such hit"]).works == 1
    assert campaign.marketplace.collector.hinted([first]).works == 0
    cost = campaign.crowd_calls() - before
    assert cost["assignments"] == 1
    assert cost["hits"] == 0
    assert campaign.marketplace.collector.run().works == len(done) - 1


@pytest.mark.any_database
def test_automatically_approved_work_is_recorded_as_paid(campaign: Campaign) -> None:
    campaign.collected(2)
    campaign.clock.advance(4 * DAY)
    campaign.marketplace.collector.run()
    assert campaign.ledger_states() == {"confirmed": 2}
    assert campaign.marketplace.payments.run().rewards == 0
    campaign.check_ledger()


def test_work_rejected_on_the_marketplace_releases_its_money(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    campaign.crowd.reject(done, "It is empty.")
    campaign.marketplace.collector.run()
    assert campaign.ledger_states() == {"released": 1}
    assert campaign.ledger_states(EntryKind.BONUS) == {"released": 1}
    with campaign.store.read() as session:
        assert session.scalars(select(Assignment.reason)).one() == "It is empty."
    campaign.check_ledger()


def test_an_expired_hit_without_work_releases_its_money(campaign: Campaign) -> None:
    campaign.post_hits(2, assignments=2)
    campaign.crowd.submit(campaign.hit_ids()[0], "W1")
    campaign.clock.advance(8 * DAY)
    campaign.marketplace.collector.run()
    assert campaign.ledger_states() == {"confirmed": 1, "released": 3}
    assert campaign.ledger_states(EntryKind.BONUS) == {"reserved": 1, "released": 3}
    with campaign.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Hit).where(Hit.finished_at.is_(None))) == 0
    campaign.check_ledger()


@pytest.mark.any_database
@pytest.mark.parametrize("finished", [0, 250])
def test_reading_when_nothing_changed_costs_the_same_however_many_hits_are_finished(
    campaign: Campaign, finished: int
) -> None:
    with campaign.store.write() as session:
        session.get_one(type(campaign.task), campaign.task.id).budget_cents = 10_000_000
        session.get_one(type(campaign.round), campaign.round_id).budget_cents = 10_000_000
    if finished:
        campaign.post_hits(finished)
        campaign.submit_and_pay()
    campaign.post_hits(30)
    campaign.marketplace.collector.run()
    before = campaign.crowd_calls()
    assert campaign.marketplace.collector.run().works == 0
    assert campaign.crowd_calls() - before == {"hits": 1}


@pytest.mark.any_database
def test_one_old_open_hit_does_not_cause_a_full_listing(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        session.get_one(type(campaign.task), campaign.task.id).budget_cents = 10_000_000
        session.get_one(type(campaign.round), campaign.round_id).budget_cents = 10_000_000
    campaign.post_hits(1)
    straggler = campaign.hit_ids()[0]
    campaign.post_hits(320)
    campaign.submit_and_pay(but=straggler)
    before = campaign.crowd_calls()
    campaign.marketplace.collector.run()
    assert campaign.crowd_calls() - before == {"hits": 1, "hit": 1}


@pytest.mark.any_database
def test_a_hit_deleted_on_the_marketplace_is_finished_here(campaign: Campaign) -> None:
    campaign.post_hits(1)
    campaign.crowd.expire(campaign.hit_ids()[0])
    campaign.crowd.delete(campaign.hit_ids()[0])
    assert campaign.marketplace.collector.run().finished == 1
    assert campaign.figures().reserved_cents == 0


def test_work_beyond_the_budget_waits_and_blocks_nothing_else(campaign: Campaign) -> None:
    campaign.post_hits(2)
    grown, other = campaign.hit_ids()
    campaign.crowd.grow(grown, 1)
    for hit, worker in ((grown, "W1"), (grown, "W2"), (other, "W1")):
        campaign.crowd.submit(hit, worker)
    with campaign.store.write() as session:
        round = session.get_one(Round, campaign.round_id, populate_existing=True)
        round.budget_cents = round.reserved_cents
    campaign.marketplace.collector.run()
    campaign.clock.advance(4 * DAY)
    campaign.marketplace.collector.run()
    assert campaign.ledger_states() == {"confirmed": 2}
    with campaign.store.write() as session:
        told = session.scalars(select(Hit.last_error).where(Hit.last_error.is_not(None))).one()
        session.get_one(Round, campaign.round_id).budget_cents += 1_000
    assert "was approved on the marketplace" in str(told)
    campaign.marketplace.collector.run()
    assert campaign.ledger_states() == {"confirmed": 3}
    campaign.check_ledger()


def test_a_hit_unknown_to_the_marketplace_keeps_its_money(campaign: Campaign) -> None:
    campaign.post_hits(2)
    campaign.crowd.forget(campaign.hit_ids()[0])
    reserved = campaign.figures().reserved_cents
    assert campaign.marketplace.collector.run().unknown == 1
    assert campaign.figures().reserved_cents == reserved
    with campaign.store.read() as session:
        key = session.scalars(select(Hit.key).where(Hit.last_error.is_not(None))).one()
    resolve_hit(campaign.store, key, actor=OWNER, reason="it was deleted there", now=campaign.now)
    assert campaign.marketplace.collector.run().unknown == 0
    assert campaign.figures().reserved_cents == reserved // 2
    campaign.check_ledger()


def test_a_hit_that_reappears_is_no_longer_reported(campaign: Campaign) -> None:
    campaign.post_hits(2)
    campaign.marketplace.collector.run()
    campaign.crowd.fail(NotOnCrowd("no such HIT"), call=2)
    first = campaign.hit_ids()[0]
    assert campaign.marketplace.collector.hinted([first]).unknown == 0
    campaign.crowd.forgive()
    campaign.crowd.fail(NotOnCrowd("no such HIT"))
    assert campaign.marketplace.collector.hinted([first]).unknown == 1
    campaign.marketplace.collector.run()
    with campaign.store.read() as session:
        assert session.scalars(select(Hit.id).where(Hit.last_error.is_not(None))).all() == []
