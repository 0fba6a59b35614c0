"""Rounds: drafted, opened against pinned model versions, and counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from round_manager.errors import RoundError
from round_manager.models import (
    Attempt,
    AuditEntry,
    ExampleStatus,
    ModelVersion,
    Round,
    RoundModel,
    RoundStatus,
    RoundTally,
    Task,
)
from round_manager.tasks.affordability import check_can_open

__all__ = [
    "Collected",
    "RoundError",
    "choose_round",
    "collected",
    "draft_round",
    "find_round",
    "list_rounds",
    "live_round",
    "open_round",
    "pinned_versions",
]

LIVE = (RoundStatus.OPEN, RoundStatus.VALIDATING)
# Anybody can write under a forged name: what nobody confirmed is no part of what a round has.
NOT_COUNTED = (ExampleStatus.UNCONFIRMED, ExampleStatus.WITHDRAWN)


@dataclass(frozen=True)
class Collected:
    """What a round has so far: examples by status, those of them that fooled, and questions put to the model.

    What is `not_counted` stands apart: nobody has confirmed who wrote it, or it was withdrawn.
    """

    by_status: dict[str, int]
    not_counted: dict[str, int]
    fooled: int
    attempts: int

    @property
    def examples(self) -> int:
        """All that count, whatever their status."""
        return sum(self.by_status.values())

    @property
    def stored(self) -> dict[str, int]:
        """All that there are, by status."""
        return {**self.by_status, **self.not_counted}


def live_round(session: Session, task_id: int) -> Round | None:
    """The task's round that is open or validating."""
    return session.scalar(select(Round).where(Round.task_id == task_id, Round.status.in_(LIVE)))


def find_round(session: Session, task: Task, number: int) -> Round:
    """The task's round of that number, or a RoundError."""
    found = session.scalar(select(Round).where(Round.task_id == task.id, Round.number == number))
    if found is None:
        raise RoundError(f"{task.name} has no round {number}; `outfox round list {task.name}` shows its rounds")
    return found


def choose_round(session: Session, task: Task, number: int | None = None) -> Round:
    """The task's round of that number, or without one the round that is live, else the newest."""
    if number is not None:
        return find_round(session, task, number)
    return live_round(session, task.id) or list_rounds(session, task)[-1]


def list_rounds(session: Session, task: Task) -> list[Round]:
    """The task's rounds, the first one first."""
    return list(session.scalars(select(Round).where(Round.task_id == task.id).order_by(Round.number)))


def draft_round(session: Session, task: Task, *, now: datetime) -> Round:
    """The task's draft; made, with the task's terms of today, where there is none."""
    _wait_for_turn(session, task)
    rounds = list_rounds(session, task)
    for one in rounds:
        if one.status is RoundStatus.DRAFT:
            return one
    draft = Round(
        task_id=task.id,
        number=max((one.number for one in rounds), default=0) + 1,
        spec=task.spec,
        spec_sha256=task.spec_sha256,
        target_fooling=task.spec["rounds"]["target_fooling"],
        budget_cents=task.spec["budget"]["round_cents"],
        created_at=now,
    )
    session.add(draft)
    session.flush()
    return draft


def open_round(
    session: Session, task: Task, versions: Sequence[ModelVersion], *, now: datetime, who: str, why: str
) -> Round:
    """The task's draft, open and with these versions pinned by rank; a round that is open with them stays as it is."""
    names = tuple(version.name for version in versions)
    _wait_for_turn(session, task)
    live = live_round(session, task.id)
    if live is not None:
        pinned = pinned_versions(session, live)
        if live.status is RoundStatus.OPEN and pinned == names:
            return live
        text = f"round {live.number} of {task.name} is {live.status.value} with {', '.join(pinned)}"
        raise RoundError(f"{text}; close it before the next one is opened")
    if not names or len(set(names)) != len(names) or any(version.task_id != task.id for version in versions):
        raise RoundError(f"a round opens against one or several different model versions of {task.name}; name them")
    draft = draft_round(session, task, now=now)
    check_can_open(session, task, draft)
    session.execute(delete(RoundModel).where(RoundModel.round_id == draft.id))
    for rank, version in enumerate(versions):
        session.add(RoundModel(round_id=draft.id, model_version_id=version.id, task_id=task.id, rank=rank))
    session.flush()
    draft.status, draft.opened_at = RoundStatus.OPEN, now
    draft.closes_at = now + timedelta(days=draft.spec["rounds"]["days"])
    session.add(
        AuditEntry(
            at=now,
            actor=who,
            action="opened",
            reason=why.strip() or "no reason was given",
            task_id=task.id,
            round_id=draft.id,
            subject="round",
            subject_id=draft.id,
            before={"status": RoundStatus.DRAFT.value},
            after={"status": RoundStatus.OPEN.value, "versions": list(names)},
        )
    )
    session.flush()
    return draft


def _wait_for_turn(session: Session, task: Task) -> None:
    """One process at a time drafts and opens the rounds of a task; the next one sees what it did."""
    session.execute(select(Task.id).where(Task.id == task.id).with_for_update(key_share=True))


def pinned_versions(session: Session, round: Round) -> tuple[str, ...]:
    """The names of the versions that the round pins, by rank."""
    names = select(ModelVersion.name).join(RoundModel, RoundModel.model_version_id == ModelVersion.id)
    return tuple(session.scalars(names.where(RoundModel.round_id == round.id).order_by(RoundModel.rank)))


def collected(session: Session, round: Round) -> Collected:
    """What the round has so far."""
    tallies = session.scalars(select(RoundTally).where(RoundTally.round_id == round.id, RoundTally.examples > 0)).all()
    counted: dict[str, int] = {}
    others: dict[str, int] = {}
    for tally in tallies:
        part = others if tally.status in NOT_COUNTED else counted
        part[tally.status.value] = part.get(tally.status.value, 0) + tally.examples
    fooled = sum(tally.examples for tally in tallies if tally.fooled and tally.status not in NOT_COUNTED)
    attempts = session.scalar(select(func.count()).select_from(Attempt).where(Attempt.round_id == round.id))
    return Collected(counted, others, fooled, attempts or 0)
