"""Hourly pay is measured, and topped up to the minimum through the ledger."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from round_manager.crowd.fair_pay import GroupWage, group_wages, owe_top_ups
from round_manager.models import Assignment, EntryKind, HitKind, Round, Task
from tests.integration.round_manager.crowd.counter import Counter


def wages(counter: Counter) -> list[GroupWage]:
    with counter.store.read() as session:
        return group_wages(
            session, session.get_one(Task, counter.task.id), round=session.get_one(Round, counter.round.id)
        )


def paid_group(counter: Counter, minutes: list[int]) -> None:
    counter.post(1, assignments=len(minutes))
    (hit,) = counter.posted()
    done = []
    for place, each in enumerate(minutes):
        counter.crowd.accept(hit, f"W{place}")
        counter.clock.advance(timedelta(minutes=each))
        done.append(counter.crowd.submit(hit, f"W{place}"))
    counter.collector.run()
    counter.approve(done)
    counter.payments.run()


def test_the_wage_of_a_group_is_the_median_of_its_people(counter: Counter) -> None:
    paid_group(counter, [1, 1, 15])
    (wage,) = wages(counter)
    reward = counter.round.spec["pay"]["create_cents"]
    assert wage.assignments == 3
    assert wage.median_seconds == 60
    assert wage.median_hourly_cents == reward * 60
    assert not wage.is_low
    assert wage.lacking == {}


def test_a_low_group_is_topped_up_to_the_minimum_and_only_once(counter: Counter) -> None:
    paid_group(counter, [8, 12, 19])
    (wage,) = wages(counter)
    minimum = counter.round.spec["pay"]["minimum_hourly_cents"]
    assert wage.is_low
    assert set(wage.lacking.values()) == {-(-minimum * 12 // 60) - counter.round.spec["pay"]["create_cents"]}
    for _ in range(2):
        with counter.store.write() as session:
            owe_top_ups(session, counter.crowd, wages(counter), now=counter.clock.now())
    assert counter.payments.run().bonuses == 3
    assert counter.states(EntryKind.TOP_UP) == {"confirmed": 3}
    (after,) = wages(counter)
    assert after.median_hourly_cents >= minimum
    assert not after.is_low
    counter.check()


def test_active_time_on_the_page_counts_where_it_is_known(counter: Counter) -> None:
    paid_group(counter, [19, 19, 19])
    with counter.store.write() as session:
        for work in session.scalars(select(Assignment)):
            work.active_ms = 60_000
    (wage,) = wages(counter)
    assert wage.median_seconds == 60
    assert not wage.is_low


def test_wages_of_interleaved_groups_are_separate(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("round_manager.crowd.fair_pay.ROWS_AT_A_TIME", 2)
    counter.plan(1, assignments=2)
    counter.plan(1, assignments=3, kind=HitKind.VALIDATE)
    counter.poster.run()
    create, validate = counter.posted()
    done = []
    for place, (hit, minutes) in enumerate([(validate, 1), (create, 3), (validate, 1), (create, 5), (validate, 9)]):
        counter.crowd.accept(hit, f"W{place}")
        counter.clock.advance(timedelta(minutes=minutes))
        done.append(counter.crowd.submit(hit, f"W{place}"))
    counter.collector.run()
    counter.approve(done)
    counter.payments.run()
    found = {wage.kind: wage for wage in wages(counter)}
    told = {kind: (wage.assignments, wage.median_seconds) for kind, wage in found.items()}
    assert told == {HitKind.CREATE: (2, 240), HitKind.VALIDATE: (3, 60)}


def test_one_outlier_does_not_decide_the_median(counter: Counter) -> None:
    paid_group(counter, [1, 1, 1, 1, 19])
    (wage,) = wages(counter)
    assert not wage.is_low
    assert wage.lacking == {}


@pytest.mark.parametrize("minutes", [[7, 7], [6, 9, 9], [10, 11, 12, 13]])
def test_the_median_reaches_the_minimum_after_the_top_up(counter: Counter, minutes: list[int]) -> None:
    paid_group(counter, minutes)
    with counter.store.write() as session:
        owe_top_ups(session, counter.crowd, wages(counter), now=counter.clock.now())
    counter.payments.run()
    (wage,) = wages(counter)
    assert not wage.is_low
