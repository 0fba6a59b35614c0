"""Rounds: drafts, opening against pinned model versions, and counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, bindparam, delete, exists, func, or_, select
from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import dollars
from round_manager import audit
from round_manager.errors import BudgetError, NoContexts, RoundAlreadyOpen, RoundError, RoundNotFound, RoundNotOpen
from round_manager.models import (
    Attempt,
    Context,
    Example,
    ExampleStatus,
    ModelVersion,
    Round,
    RoundGroup,
    RoundModel,
    RoundStatus,
    RoundTally,
    SessionStatus,
    Task,
    WorkSession,
    spec_of,
)
from round_manager.money.budget import figures
from round_manager.money.prices import least_cents, planning_fees

LIVE = (RoundStatus.OPEN, RoundStatus.VALIDATING)
# Page parameters can be forged: examples that the marketplace has not confirmed do not count.
NOT_COUNTED = (ExampleStatus.UNCONFIRMED, ExampleStatus.WITHDRAWN)


@dataclass(frozen=True)
class Collected:
    """What a round has so far: examples by status, how many of them fooled the model, and attempts.

    Examples in `not_counted` are unconfirmed or withdrawn.
    """

    by_status: dict[str, int]
    not_counted: dict[str, int]
    fooled: int
    attempts: int

    @property
    def examples(self) -> int:
        """The number of examples that count, whatever their status."""
        return sum(self.by_status.values())

    @property
    def stored(self) -> dict[str, int]:
        """The number of all examples by status."""
        return {**self.by_status, **self.not_counted}


def live_round(session: Session, task_id: int) -> Round | None:
    """Return the task's open or validating round, if there is one."""
    return session.scalar(select(Round).where(Round.task_id == task_id, Round.status.in_(LIVE)))


def find_round(session: Session, task: Task, number: int) -> Round:
    """Return the task's round of that number; raise RoundNotFound if there is none."""
    found = session.scalar(select(Round).where(Round.task_id == task.id, Round.number == number))
    if found is None:
        raise RoundNotFound(f"{task.name} has no round {number}", hint=Hint("list_rounds", task=task.name))
    return found


def choose_round(session: Session, task: Task, number: int | None = None) -> Round:
    """Return the round of that number; without a number the live round, else the newest."""
    if number is not None:
        return find_round(session, task, number)
    return live_round(session, task.id) or list_rounds(session, task)[-1]


def opened_rounds(session: Session, task: Task, number: int | None = None) -> list[Round]:
    """Return the task's rounds that have been opened, or the one of that number; raise RoundNotOpen for drafts."""
    found = [find_round(session, task, number)] if number else list_rounds(session, task)
    opened = [one for one in found if one.status is not RoundStatus.DRAFT]
    if not opened:
        which = f"round {number} of {task.name} is a draft" if number else f"{task.name} has no opened round yet"
        raise RoundNotOpen(which, hint=Hint("open_round", task=task.name))
    return opened


def list_rounds(session: Session, task: Task) -> list[Round]:
    """Return the task's rounds, oldest first."""
    return list(session.scalars(select(Round).where(Round.task_id == task.id).order_by(Round.number)))


def draft_round(session: Session, task: Task, *, now: datetime) -> Round:
    """Return the task's draft; create it with the task's current terms if there is none."""
    lock_rounds(session, task)
    rounds = list_rounds(session, task)
    for one in rounds:
        if one.status is RoundStatus.DRAFT:
            return one
    # Nobody worked on imported rounds here.
    here = [one for one in rounds if not one.is_imported]
    draft = Round(
        task_id=task.id,
        number=max((one.number for one in rounds), default=0) + 1,
        spec=task.spec,
        spec_sha256=task.spec_sha256,
        target_fooling=task.spec["rounds"]["target_fooling"],
        budget_cents=task.spec["budget"]["round_cents"],
        created_at=now,
        # A crowd is paid only if the owner says so.
        in_house=bool(here) and here[-1].in_house,
    )
    session.add(draft)
    session.flush()
    if here:
        # The next round is for the same people.
        last = max(here, key=lambda one: one.number)
        groups = session.scalars(select(RoundGroup.group_id).where(RoundGroup.round_id == last.id)).all()
        session.add_all(RoundGroup(round_id=draft.id, group_id=one, assigned_at=now) for one in groups)
        session.flush()
    return draft


def check_can_open(session: Session, task: Task, draft: Round) -> None:
    """Raise an error if the draft has no contexts, or a budget that does not pay for any work on a crowd."""
    living = exists().where(Context.task_id == task.id, Context.retired_at.is_(None))
    if not session.scalar(select(living)):
        raise NoContexts(
            f"{task.name} has no contexts to show to workers", hint=Hint("upload_contexts", task=task.name)
        )
    if draft.in_house:
        return
    called = f"round {draft.number} of {task.name}"
    least, left = least_cents(spec_of(draft), planning_fees(session)), figures(session, task)
    set_budget = Hint("set_round_budget", task=task.name)
    if draft.budget_cents < least:
        text = f"{called} may cost {dollars(draft.budget_cents)}, and one creation HIT with its validation costs"
        advice = "raise the round's budget, or open it in-house"
        raise BudgetError(f"{text} {dollars(least)}; {advice}", hint=set_budget)
    if draft.budget_cents > left.released_cents:
        text = f"{called} may cost {dollars(draft.budget_cents)}, and task {task.name} has"
        advice = "lower the round's budget, or raise budget.task_cents in task.yaml"
        raise BudgetError(f"{text} {dollars(left.released_cents)} left ({left}); {advice}", hint=set_budget)


def open_round(
    session: Session,
    task: Task,
    versions: Sequence[ModelVersion],
    *,
    now: datetime,
    actor: str,
    reason: str,
    in_house: bool | None = None,
) -> Round:
    """Open the task's draft with these versions pinned by rank; return a round that is already open with them.

    Without `in_house`, the round is in-house if the round before it was.
    """
    names = tuple(version.name for version in versions)
    lock_rounds(session, task)
    live = live_round(session, task.id)
    if live is not None:
        pinned = pinned_versions(session, live)
        if live.status is RoundStatus.OPEN and pinned == names:
            return live
        text = f"round {live.number} of {task.name} is {live.status.value} with {', '.join(pinned)}"
        hint = Hint("close_round", task=task.name)
        raise RoundAlreadyOpen(f"{text}; close it before opening the next one", hint=hint)
    if not names or len(set(names)) != len(names) or any(version.task_id != task.id for version in versions):
        raise RoundError(f"a round needs one or more different model versions of {task.name}")
    draft = draft_round(session, task, now=now)
    if in_house is not None:
        draft.in_house = in_house
    check_can_open(session, task, draft)
    session.execute(delete(RoundModel).where(RoundModel.round_id == draft.id))
    for rank, version in enumerate(versions):
        session.add(RoundModel(round_id=draft.id, model_version_id=version.id, task_id=task.id, rank=rank))
    session.flush()
    draft.status, draft.opened_at = RoundStatus.OPEN, now
    draft.closes_at = now + timedelta(days=draft.spec["rounds"]["days"])
    before = {"status": RoundStatus.DRAFT.value}
    after: dict[str, Any] = {"status": RoundStatus.OPEN.value, "versions": list(names)}
    if draft.in_house:
        after["in_house"] = True
    audit.note(session, "opened", draft, actor=actor, reason=reason, now=now, of=draft, before=before, after=after)
    session.flush()
    return draft


def lock_rounds(session: Session, task: Task) -> None:
    """Lock the task: one process at a time drafts, opens and imports its rounds."""
    session.execute(select(Task.id).where(Task.id == task.id).with_for_update(key_share=True))


# Built once: each attempt on a page runs it.
_PINNED = (
    select(ModelVersion.name, ModelVersion.id)
    .join(RoundModel, RoundModel.model_version_id == ModelVersion.id)
    .where(RoundModel.round_id == bindparam("round_id"))
    .order_by(RoundModel.rank)
)


def pinned_models(session: Session, round: Round) -> dict[str, int]:
    """Return the ids of the round's pinned versions by their names, in the order of their ranks."""
    return dict(session.execute(_PINNED, {"round_id": round.id}).all())


def pinned_versions(session: Session, round: Round) -> tuple[str, ...]:
    """Return the names of the round's pinned versions by rank."""
    return tuple(pinned_models(session, round))


def tallies_of(session: Session, round: Round) -> dict[tuple[ExampleStatus, bool], int]:
    """Return how many of the round's examples are in each status, by whether they fooled the model."""
    rows = session.scalars(select(RoundTally).where(RoundTally.round_id == round.id, RoundTally.examples > 0))
    return {(row.status, row.fooled): row.examples for row in rows}


def repeated_fooling(session: Session, round: Round) -> dict[ExampleStatus, int]:
    """Return how many fooling examples in each status repeat a known text; they do not count towards the target."""
    repeated = (Example.round_id == round.id, Example.duplicate.is_not(None), Example.fooled)
    return dict(session.execute(select(Example.status, func.count()).where(*repeated).group_by(Example.status)).all())


def collected(session: Session, round: Round) -> Collected:
    """Return what the round has so far."""
    counted: dict[str, int] = {}
    others: dict[str, int] = {}
    fooled = 0
    for (status, is_fooled), number in tallies_of(session, round).items():
        part = others if status in NOT_COUNTED else counted
        part[status.value] = part.get(status.value, 0) + number
        fooled += number if is_fooled and status not in NOT_COUNTED else 0
    attempts = session.scalar(attempts_of(round).with_only_columns(func.count()))
    return Collected(counted, others, fooled, attempts or 0)


def attempts_of(round: Round) -> Select[int]:
    """Select the attempts of people; attempts on pages that were never confirmed do not count."""
    made = select(Attempt.id).outerjoin(WorkSession, WorkSession.id == Attempt.session_id)
    confirmed = or_(Attempt.session_id.is_(None), WorkSession.status == SessionStatus.CONFIRMED)
    return made.where(Attempt.round_id == round.id, confirmed)
