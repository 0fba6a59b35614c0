"""Budgets: what a task and a round may spend, and where that money is now."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.money import dollars
from round_manager import audit
from round_manager.errors import BudgetError
from round_manager.models import Round, RoundStatus, Task


@dataclass(frozen=True)
class BudgetFigures:
    """A budget and where it is; what is neither reserved, owed nor sent was released or never bound."""

    budget_cents: int
    reserved_cents: int
    owed_cents: int
    sent_cents: int

    @property
    def released_cents(self) -> int:
        """What can still be reserved."""
        return self.budget_cents - self.reserved_cents - self.owed_cents - self.sent_cents

    def __str__(self) -> str:
        told = (("reserved", self.reserved_cents), ("owed", self.owed_cents), ("sent", self.sent_cents))
        return f"budget {dollars(self.budget_cents)}: " + ", ".join(f"{dollars(cents)} {word}" for word, cents in told)


def figures(session: Session, owner: Task | Round, *, lock: bool = False) -> BudgetFigures:
    """Where the budget of a task or a round is at this moment; with `lock`, nobody moves it until we are done."""
    table = type(owner)
    wanted = select(table.budget_cents, table.reserved_cents, table.owed_cents, table.sent_cents)
    wanted = wanted.where(table.id == owner.id)
    return BudgetFigures(*session.execute(wanted.with_for_update(key_share=True) if lock else wanted).one())


def set_round_budget(
    session: Session, task: Task, round: Round, cents: int, *, who: str, why: str, now: datetime
) -> BudgetFigures:
    """Another budget for a round that is not closed: no less than what is bound, no more than the task's."""
    before = figures(session, round, lock=True)
    bound = before.budget_cents - before.released_cents
    if round.status is RoundStatus.CLOSED:
        raise BudgetError(f"round {round.number} of {task.name} is closed; what it cost is fixed")
    if cents < bound:
        raise BudgetError(
            f"round {round.number} of {task.name} has {dollars(bound)} bound ({before}); give at least that"
        )
    if cents > task.budget_cents:
        cure = "raise budget.task_cents in task.yaml and run `outfox task create` again first"
        raise BudgetError(f"task {task.name} may cost {dollars(task.budget_cents)} in all; {cure}")
    round.budget_cents = cents
    note = {"before": {"budget_cents": before.budget_cents}, "after": {"budget_cents": cents}}
    audit.note(session, "changed the budget", round, who=who, why=why, now=now, of=round, **note)
    session.flush()
    return figures(session, round)


def _cure(owner: Task | Round) -> str:
    if isinstance(owner, Round):
        return "`outfox round budget`"
    return "budget.task_cents in task.yaml, then `outfox task create` again"


def check_budget(session: Session, task: Task, round: Round | None, cents: int) -> None:
    """Nothing, or a BudgetError with the figures.

    The database itself refuses what goes past a budget; this says it in words, and waits for others who are at it.
    """
    owners: list[Task | Round] = [task] if round is None else [round, task]
    for owner in owners:
        now = figures(session, owner, lock=True)
        if cents > now.released_cents:
            called = f"task {task.name}" if isinstance(owner, Task) else f"round {owner.number} of {task.name}"
            left = f"{called} has {dollars(now.released_cents)} left ({now})"
            raise BudgetError(
                f"{left} and this needs {dollars(cents)}; ask for less, or raise the budget: {_cure(owner)}"
            )
