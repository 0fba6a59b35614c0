"""Means: what a round needs before anybody can work in it, and what one more piece of its work costs."""

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from common.money import dollars
from mturk.fees import bonus_fee, reward_fee
from round_manager.errors import BudgetError, RoundError
from round_manager.models import Context, Round, Task
from round_manager.money.budget import figures
from round_manager.policies import first_votes
from round_manager.specs import spec_of
from templates import TaskSpec


def vote_cents(spec: TaskSpec) -> int:
    """What one HIT to validate costs, for one worker, fee included."""
    return _with_fee(spec.pay.validate_cents)


def least_cents(spec: TaskSpec) -> int:
    """What one HIT to create costs with its bonuses and the first votes on its examples, fees included."""
    bonus = spec.pay.fooled_bonus_cents + bonus_fee(spec.pay.fooled_bonus_cents)
    # Nobody votes twice on an example, so each of the first votes is another worker's HIT.
    pages = -(-spec.work.examples_per_hit // spec.work.validations_per_hit)
    votes = first_votes(spec.validation) * pages * vote_cents(spec)
    return _with_fee(spec.pay.create_cents) + spec.work.examples_per_hit * bonus + votes


def free_cents(session: Session, round: Round) -> int:
    """What can still be reserved for the round: the least of what it has left and what its task has left."""
    task = session.get_one(Task, round.task_id)
    return min(figures(session, round).released_cents, figures(session, task).released_cents)


def check_means(session: Session, task: Task, draft: Round) -> None:
    """Nothing, or an error that tells what the draft lacks to be opened: contexts, or money for anything at all."""
    living = exists().where(Context.task_id == task.id, Context.retired_at.is_(None))
    if not session.scalar(select(living)):
        cure = f"`outfox context upload {task.name} FILE` adds some"
        raise RoundError(f"{task.name} has no contexts to show to workers; {cure}")
    called = f"round {draft.number} of {task.name}"
    least, left = least_cents(spec_of(draft)), figures(session, task)
    if draft.budget_cents < least:
        text = f"{called} may cost {dollars(draft.budget_cents)}, and one HIT to create with its validation costs"
        raise BudgetError(f"{text} {dollars(least)}; `outfox round budget {task.name} DOLLARS` raises it")
    if draft.budget_cents > left.released_cents:
        text = f"{called} may cost {dollars(draft.budget_cents)}, and task {task.name} has"
        cure = f"lower it with `outfox round budget {task.name} DOLLARS`, or raise budget.task_cents in task.yaml"
        raise BudgetError(f"{text} {dollars(left.released_cents)} left ({left}); {cure}")


def _with_fee(cents: int) -> int:
    return cents + reward_fee(cents) if cents else 0
