"""A validated fooling example earns its author the bonus that was reserved for it."""

import pytest
from sqlalchemy import select

from round_manager.errors import LedgerError
from round_manager.examples.submissions import submit
from round_manager.models import Assignment, EntryKind, Example, Round
from round_manager.money.ledger import owe_bonus, release
from tests.integration.round_manager.crowd.counter import Counter

WHY = "It fooled the model."


def example_of(counter: Counter, work: Assignment, text: str) -> Example:
    stage = counter.stage
    written = stage.submission(author_id=work.worker_id, fields=stage.fields(text=text), label_studio_task_id=None)
    with counter.store.write() as session:
        round = session.get_one(Round, counter.round.id)
        return submit(session, round, written, stage.verdict(written), now=counter.clock.now())


def the_work(counter: Counter) -> Assignment:
    counter.collected()
    with counter.store.read() as session:
        return session.scalars(select(Assignment)).one()


def test_the_bonus_is_paid_once_however_often_it_is_owed(counter: Counter) -> None:
    work = the_work(counter)
    example = example_of(counter, work, "Not half bad, for a disaster.")
    for _ in range(2):
        with counter.store.write() as session:
            owe_bonus(session, work, example, WHY, now=counter.clock.now())
    assert counter.payments.run().bonuses == 1
    assert counter.payments.run().bonuses == 0
    (paid,) = counter.crowd.bonuses(assignment_id=work.external_id)
    assert paid.cents == counter.round.spec["pay"]["fooled_bonus_cents"]
    assert paid.reason.startswith(WHY)
    assert counter.states(EntryKind.BONUS) == {"confirmed": 1}
    counter.check()


def test_a_released_bonus_cannot_be_owed(counter: Counter) -> None:
    work = the_work(counter)
    example = example_of(counter, work, "Not half bad, for a disaster.")
    with counter.store.write() as session:
        assert release(session, [work.hit_id], EntryKind.BONUS, now=counter.clock.now()) == 1
    with counter.store.write() as session, pytest.raises(LedgerError):
        owe_bonus(session, work, example, WHY, now=counter.clock.now())
    counter.check()
