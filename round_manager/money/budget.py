"""Budgets: what a task and a round may spend, and how much of it is reserved, owed and sent."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import dollars
from round_manager import audit
from round_manager.errors import BudgetError, RoundAlreadyClosed
from round_manager.models import Round, RoundStatus, Task


@dataclass(frozen=True)
class BudgetFigures:
    """A budget and its parts; what is neither reserved, owed nor sent is released."""

    budget_cents: int
    reserved_cents: int
    owed_cents: int
    sent_cents: int

    @property
    def released_cents(self) -> int:
        """What can still be reserved."""
        return self.budget_cents - self.reserved_cents - self.owed_cents - self.sent_cents

    def __str__(self) -> str:
        parts = (("reserved", self.reserved_cents), ("owed", self.owed_cents), ("sent", self.sent_cents))
        return f"budget {dollars(self.budget_cents)}: " + ", ".join(f"{dollars(cents)} {word}" for word, cents in parts)


def figures(session: Session, owner: Task | Round, *, lock: bool = False) -> BudgetFigures:
    """Return the budget of a task or a round; with `lock`, other processes cannot change it in this transaction."""
    table = type(owner)
    wanted = select(table.budget_cents, table.reserved_cents, table.owed_cents, table.sent_cents)
    wanted = wanted.where(table.id == owner.id)
    return BudgetFigures(*session.execute(wanted.with_for_update(key_share=True) if lock else wanted).one())


def set_round_budget(
    session: Session, task: Task, round: Round, cents: int, *, actor: str, reason: str, now: datetime
) -> BudgetFigures:
    """Set the budget of a round that is not closed: at least what is bound, at most the task's budget."""
    before = figures(session, round, lock=True)
    bound = before.budget_cents - before.released_cents
    if round.status is RoundStatus.CLOSED:
        raise RoundAlreadyClosed(f"round {round.number} of {task.name} is closed; its budget cannot change")
    if cents < bound:
        raise BudgetError(f"round {round.number} of {task.name} has already bound {dollars(bound)} ({before})")
    if cents > task.budget_cents:
        problem = f"task {task.name} may cost {dollars(task.budget_cents)}; raise budget.task_cents in task.yaml first"
        raise BudgetError(problem, hint=Hint("apply_task_yaml", task=task.name))
    round.budget_cents = cents
    note = {"before": {"budget_cents": before.budget_cents}, "after": {"budget_cents": cents}}
    audit.note(session, "changed the budget", round, actor=actor, reason=reason, now=now, of=round, **note)
    session.flush()
    return figures(session, round)


def check_budget(session: Session, task: Task, round: Round | None, cents: int) -> None:
    """Raise BudgetError if a budget does not cover an amount.

    The database also refuses it; this check gives a clear message, and waits for concurrent transactions.
    """
    owners: list[Task | Round] = [task] if round is None else [round, task]
    for owner in owners:
        now = figures(session, owner, lock=True)
        if cents > now.released_cents:
            called = f"task {task.name}" if isinstance(owner, Task) else f"round {owner.number} of {task.name}"
            problem = f"{called} has {dollars(now.released_cents)} left ({now}), and this needs {dollars(cents)}"
            if isinstance(owner, Round):
                raise BudgetError(f"{problem}; raise its budget", hint=Hint("set_round_budget", task=task.name))
            raise BudgetError(
                f"{problem}; raise budget.task_cents in task.yaml", hint=Hint("apply_task_yaml", task=task.name)
            )
