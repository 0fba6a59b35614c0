"""A running round's budget can be changed, within the committed money and the task's budget."""

import pytest
from sqlalchemy import select

from round_manager.errors import BudgetError, RoundAlreadyClosed
from round_manager.models import AuditEntry, Round, RoundStatus, Task
from round_manager.money.budget import set_round_budget
from tests.integration.round_manager.crowd.counter import OWNER, Counter


def set_to(counter: Counter, cents: int) -> None:
    with counter.store.write() as session:
        task, round = session.get_one(Task, counter.task.id), session.get_one(Round, counter.round.id)
        set_round_budget(session, task, round, cents, actor=OWNER, reason="more money", now=counter.clock.now())


def test_a_raised_budget_can_be_spent_and_the_change_is_audited(counter: Counter) -> None:
    counter.plan(1)
    bound = counter.figures().reserved_cents
    set_to(counter, bound)
    with pytest.raises(BudgetError):
        counter.plan(1)
    set_to(counter, 2 * bound)
    counter.plan(1)
    with counter.store.read() as session:
        last = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc())).first()
    assert last is not None
    assert (last.action, last.round_id, last.after) == (
        "changed the budget",
        counter.round.id,
        {"budget_cents": 2 * bound},
    )
    counter.check()


def test_a_budget_is_limited_by_committed_money_and_the_tasks_budget(counter: Counter) -> None:
    counter.plan(1)
    bound = counter.figures().reserved_cents
    with pytest.raises(BudgetError):
        set_to(counter, bound - 1)
    with pytest.raises(BudgetError):
        set_to(counter, counter.task.budget_cents + 1)


def test_a_closed_round_is_fixed(counter: Counter) -> None:
    now = counter.clock.now()
    with counter.store.write() as session:
        round = session.get_one(Round, counter.round.id)
        round.status, round.validating_at = RoundStatus.VALIDATING, now
        session.flush()
        round.status, round.closed_at = RoundStatus.CLOSED, now
    with pytest.raises(RoundAlreadyClosed):
        set_to(counter, 100_00)
