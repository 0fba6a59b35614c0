"""Work is collected once, whatever the marketplace decided, at a cost that depends on unfinished HITs only."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from crowd.errors import NotOnCrowd
from round_manager.crowd.reconciliation import resolve_hit
from round_manager.models import Assignment, AssignmentStatus, EntryKind, Hit, Round, Worker
from tests.integration.round_manager.crowd.counter import DAY, OWNER, Counter


def test_work_is_mirrored_with_its_worker_and_its_times(counter: Counter) -> None:
    (done,) = counter.collected()
    with counter.store.read() as session:
        work = session.scalars(select(Assignment)).one()
        worker = session.get_one(Worker, work.worker_id)
    assert (work.external_id, worker.external_id, work.status) == (done, "W1", AssignmentStatus.SUBMITTED)
    assert work.submitted_at is not None
    assert work.submitted_at - work.accepted_at == timedelta(minutes=10)
    assert counter.collector.run().works == 0


def test_a_hint_reads_only_the_hit_that_it_names_and_can_be_repeated(counter: Counter) -> None:
    counter.post(3)
    done = counter.work()
    first = counter.posted()[0]
    before = counter.calls()
    assert counter.collector.hinted([first, first, "no such hit"]).works == 1
    assert counter.collector.hinted([first]).works == 0
    cost = counter.calls() - before
    assert cost["assignments"] == 1
    assert cost["hits"] == 0
    assert counter.collector.run().works == len(done) - 1


def test_automatically_approved_work_is_recorded_as_paid(counter: Counter) -> None:
    counter.collected(2)
    counter.clock.advance(4 * DAY)
    counter.collector.run()
    assert counter.states() == {"confirmed": 2}
    assert counter.payments.run().rewards == 0
    counter.check()


def test_work_rejected_on_the_marketplace_releases_its_money(counter: Counter) -> None:
    (done,) = counter.collected()
    counter.crowd.reject(done, "It is empty.")
    counter.collector.run()
    assert counter.states() == {"released": 1}
    assert counter.states(EntryKind.BONUS) == {"released": 1}
    with counter.store.read() as session:
        assert session.scalars(select(Assignment.reason)).one() == "It is empty."
    counter.check()


def test_an_expired_hit_without_work_releases_its_money(counter: Counter) -> None:
    counter.post(2, assignments=2)
    counter.crowd.submit(counter.posted()[0], "W1")
    counter.clock.advance(8 * DAY)
    counter.collector.run()
    assert counter.states() == {"confirmed": 1, "released": 3}
    assert counter.states(EntryKind.BONUS) == {"reserved": 1, "released": 3}
    with counter.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Hit).where(Hit.finished_at.is_(None))) == 0
    counter.check()


@pytest.mark.parametrize("finished", [0, 250])
def test_reading_when_nothing_changed_costs_the_same_however_many_hits_are_finished(
    counter: Counter, finished: int
) -> None:
    with counter.store.write() as session:
        session.get_one(type(counter.task), counter.task.id).budget_cents = 10_000_000
        session.get_one(type(counter.round), counter.round.id).budget_cents = 10_000_000
    if finished:
        counter.post(finished)
        counter.approve_all()
    counter.post(30)
    counter.collector.run()
    before = counter.calls()
    assert counter.collector.run().works == 0
    assert counter.calls() - before == {"hits": 1}


def test_one_old_open_hit_does_not_cause_a_full_listing(counter: Counter) -> None:
    with counter.store.write() as session:
        session.get_one(type(counter.task), counter.task.id).budget_cents = 10_000_000
        session.get_one(type(counter.round), counter.round.id).budget_cents = 10_000_000
    counter.post(1)
    straggler = counter.posted()[0]
    counter.post(320)
    counter.approve_all(but=straggler)
    before = counter.calls()
    counter.collector.run()
    assert counter.calls() - before == {"hits": 1, "hit": 1}


def test_a_hit_deleted_on_the_marketplace_is_finished_here(counter: Counter) -> None:
    counter.post(1)
    counter.crowd.expire(counter.posted()[0])
    counter.crowd.delete(counter.posted()[0])
    assert counter.collector.run().finished == 1
    assert counter.figures().reserved_cents == 0


def test_work_beyond_the_budget_waits_and_blocks_nothing_else(counter: Counter) -> None:
    counter.post(2)
    grown, other = counter.posted()
    counter.crowd.grow(grown, 1)
    for hit, worker in ((grown, "W1"), (grown, "W2"), (other, "W1")):
        counter.crowd.submit(hit, worker)
    with counter.store.write() as session:
        round = session.get_one(Round, counter.round.id, populate_existing=True)
        round.budget_cents = round.reserved_cents
    counter.collector.run()
    counter.clock.advance(4 * DAY)
    counter.collector.run()
    assert counter.states() == {"confirmed": 2}
    with counter.store.write() as session:
        told = session.scalars(select(Hit.last_error).where(Hit.last_error.is_not(None))).one()
        session.get_one(Round, counter.round.id).budget_cents += 1_000
    assert "was approved on the marketplace" in str(told)
    counter.collector.run()
    assert counter.states() == {"confirmed": 3}
    counter.check()


def test_a_hit_unknown_to_the_marketplace_keeps_its_money(counter: Counter) -> None:
    counter.post(2)
    counter.crowd.forget(counter.posted()[0])
    reserved = counter.figures().reserved_cents
    assert counter.collector.run().unknown == 1
    assert counter.figures().reserved_cents == reserved
    with counter.store.read() as session:
        key = session.scalars(select(Hit.key).where(Hit.last_error.is_not(None))).one()
    resolve_hit(counter.store, key, actor=OWNER, reason="it was deleted there", now=counter.clock.now())
    assert counter.collector.run().unknown == 0
    assert counter.figures().reserved_cents == reserved // 2
    counter.check()


def test_a_hit_that_reappears_is_no_longer_reported(counter: Counter) -> None:
    counter.post(2)
    counter.collector.run()
    counter.crowd.fail(NotOnCrowd("no such HIT"), call=2)
    first = counter.posted()[0]
    assert counter.collector.hinted([first]).unknown == 0
    counter.crowd.forgive()
    counter.crowd.fail(NotOnCrowd("no such HIT"))
    assert counter.collector.hinted([first]).unknown == 1
    counter.collector.run()
    with counter.store.read() as session:
        assert session.scalars(select(Hit.id).where(Hit.last_error.is_not(None))).all() == []
