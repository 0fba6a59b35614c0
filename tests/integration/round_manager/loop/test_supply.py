"""The number of quiz places, and the totals of paid work."""

from round_manager.loop.supply import plan_recruits
from round_manager.models import Hit, HitKind, Round, Task
from round_manager.validation.costs import PaidWork, paid_work
from tests.integration.round_manager.crowd.counter import OWNER, Counter


def plan(counter: Counter, people: int) -> list[Hit]:
    counter.access.qualification(counter.task)
    with counter.store.write() as session:
        return plan_recruits(
            session, session.get_one(Task, counter.task.id), counter.crowd, people, now=counter.clock.now()
        )


def paid(counter: Counter) -> list[PaidWork]:
    with counter.store.read() as session:
        return paid_work(session, session.get_one(Round, counter.round.id))


def test_quiz_places_are_split_into_hits_with_the_low_fee(counter: Counter) -> None:
    hits = plan(counter, 20)
    assert [(one.kind, one.max_assignments) for one in hits] == [
        (HitKind.QUIZ, 9),
        (HitKind.QUIZ, 9),
        (HitKind.QUIZ, 2),
    ]


def test_existing_places_and_qualified_workers_count(counter: Counter) -> None:
    plan(counter, 5)
    assert plan(counter, 5) == []
    counter.access.grant(counter.task, "W1", actor=OWNER, reason="passed")
    assert [one.max_assignments for one in plan(counter, 8)] == [2]


def test_paid_work_is_what_workers_got_with_bonuses_and_without_fees(counter: Counter) -> None:
    first, second = counter.collected(2)
    counter.approve([first])
    counter.bonus(first, 50)
    counter.payments.run()
    reward = counter.round.spec["pay"]["create_cents"]
    assert paid(counter) == [PaidWork(first, HitKind.CREATE, reward + 50)]
    counter.approve([second])
    assert paid(counter)[1:] == [PaidWork(second, HitKind.CREATE, reward)]
