"""Attempts: every question that was put to a target, stored once however often it is delivered.

Label Studio does not name the annotator when it asks the model, so an attempt there gets its worker when the example
arrives. The times come from different machines: an attempt counts as earlier than its example if the difference can be
explained by their clocks. An attempt stays in its round, and a frozen round never changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import select, tuple_
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session, make_transient

from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.verdict import INPUTS_HASH, Verdict
from round_manager.database.columns import equals_unindexed
from round_manager.errors import DamagedStoreError, DuplicateError, RoundManagerError, StoreError
from round_manager.models import (
    Attempt,
    Example,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    ModelVersion,
    Origin,
    Round,
    RoundStatus,
    Source,
    Task,
)
from round_manager.tasks.rounds import LIVE

# The largest number and the years that both databases can store.
MOST = 2**63
LONGEST_TASK = 40
LONGEST_VERSION = 120
YEARS = range(1970, 9000)
CLOCKS_DIFFER = timedelta(seconds=5)


@dataclass(frozen=True)
class IntakeResult:
    """How many attempts were stored, and why others never can be, by the id of their verdict.

    `unknown` names the unregistered versions by task; once they are registered, their attempts can be stored.
    """

    stored: int = 0
    refused: Mapping[UUID, str] = field(default_factory=dict)
    unknown: frozenset[tuple[str, str]] = frozenset()


class _Invalid(RoundManagerError):
    """An attempt that can never be stored."""


class _Unregistered(_Invalid):
    """An attempt by a version that is not registered."""


def new_attempt(
    verdict: Verdict,
    *,
    task_id: int,
    model_version_id: int,
    source: Source,
    fields: Mapping[str, str],
    label: str | None,
    answer: Mapping[str, Any] | None,
    latency_us: int,
    now: datetime,
    **place: Any,
) -> Attempt:
    """Return the row of an attempt; `place` says where it was made: round, context, session, Label Studio task."""
    return Attempt(
        public_id=verdict.id,
        task_id=task_id,
        source=source,
        fields=dict(fields),
        label=label,
        answer=None if answer is None else dict(answer),
        verdict=verdict.to_record(),
        model_version_id=model_version_id,
        confidence=verdict.outputs[0].confidence,
        fooled=verdict.fooled,
        latency_us=latency_us,
        # The backend's clock may be fast; no attempt is stored with a time in the future.
        asked_at=min(verdict.judged_at, now),
        **place,
    )


def store_attempts(session: Session, tries: Sequence[AttemptRecord], *, now: datetime) -> IntakeResult:
    """Store each attempt once; one that cannot be stored does not affect the others.

    An error that a retry can resolve is raised, and then nothing is stored.
    """
    fresh = _fresh(session, tries)
    known = _Known(session, fresh, now)
    refused: dict[UUID, str] = {}
    unknown: set[tuple[str, str]] = set()
    attempts: list[Attempt] = []
    for tried in fresh:
        try:
            attempts.append(known.attempt(tried))
        except _Unregistered as error:
            unknown.add((tried.verdict.task, str(error)))
            refused[tried.verdict.id] = f"version {str(error)[:40]!a} of {tried.verdict.task} is not registered"
        except _Invalid as error:
            refused[tried.verdict.id] = str(error)
    stored = _added(session, attempts)
    if stored is None:
        stored = _added_one_by_one(session, attempts, refused)
    link_late_attempts(session, stored)
    session.flush()
    return IntakeResult(len(stored), refused, frozenset(unknown))


def _added(session: Session, attempts: list[Attempt]) -> list[Attempt] | None:
    """Add all of them at once, which costs a tenth; None, and nothing added, if one of them cannot be."""
    try:
        with session.begin_nested():
            session.add_all(attempts)
    except (StoreError, DataError, OverflowError) as error:
        if isinstance(error, StoreError) and _can_retry(error):
            raise
        return None
    return attempts


def _added_one_by_one(session: Session, attempts: list[Attempt], refused: dict[UUID, str]) -> list[Attempt]:
    """Add those that can be stored; `refused` gets the reasons of the others."""
    stored = []
    for attempt in attempts:
        make_transient(attempt)
        try:
            with session.begin_nested():
                session.add(attempt)
        except DuplicateError:
            continue  # Another process has just stored it.
        except StoreError as error:
            if _can_retry(error):
                raise
            refused[attempt.public_id] = str(error)
        except (DataError, OverflowError):
            refused[attempt.public_id] = "it holds a number or a time that the database cannot"
        else:
            stored.append(attempt)
    return stored


def _can_retry(error: StoreError) -> bool:
    """Whether the database failed, not the attempt: the sender keeps it and delivers it again."""
    return error.retry or isinstance(error, DamagedStoreError)


def _fresh(session: Session, tries: Sequence[AttemptRecord]) -> list[AttemptRecord]:
    """Return those that are not stored yet, each once."""
    by_id = {tried.verdict.id: tried for tried in tries}
    there = session.scalars(select(Attempt.public_id).where(Attempt.public_id.in_(by_id)))
    for one in there:
        del by_id[one]
    return list(by_id.values())


def _is_word(text: str, longest: int) -> bool:
    """Whether a query may contain the text; a database fails on texts that it cannot store."""
    return len(text) <= longest and text.isascii() and text.isprintable()


class _Known:
    """The tasks, versions, rounds and Label Studio tasks that attempts name, looked up once for all of them."""

    def __init__(self, session: Session, tries: Sequence[AttemptRecord], now: datetime) -> None:
        self._now = now
        names = {tried.verdict.task for tried in tries if _is_word(tried.verdict.task, LONGEST_TASK)}
        self._tasks = {task.name: task for task in session.scalars(select(Task).where(Task.name.in_(names)))}
        ids = [task.id for task in self._tasks.values()]
        said = {tried.verdict.outputs[0].version for tried in tries}
        versions = {version for version in said if _is_word(version, LONGEST_VERSION)}
        registered = select(ModelVersion).where(ModelVersion.task_id.in_(ids), ModelVersion.name.in_(versions))
        self._versions = {(one.task_id, one.name): one.id for one in session.scalars(registered)}
        begun = select(Round).where(Round.task_id.in_(ids), Round.status != RoundStatus.DRAFT)
        rounds = session.scalars(begun).all()
        self._rounds: dict[tuple[int, int | None], int] = {(one.task_id, one.number): one.id for one in rounds}
        self._rounds |= {(one.task_id, None): one.id for one in rounds if one.status in LIVE}
        self._places = self._label_studio_tasks(session, tries, ids)

    def attempt(self, tried: AttemptRecord) -> Attempt:
        """Return the row of an attempt, or raise _Invalid."""
        verdict, task = tried.verdict, self._tasks.get(tried.verdict.task)
        if task is None:
            raise _Invalid(f"there is no task {verdict.task[:LONGEST_TASK]!a} in the database")
        first = verdict.outputs[0]
        version = self._versions.get((task.id, first.version))
        if version is None:
            raise _Unregistered(first.version)
        if tried.source not in list(Source):
            raise _Invalid(f"{tried.source[:40]!a} is not a source of attempts; sources are {', '.join(Source)}")
        if not 0 <= tried.latency_us < MOST or verdict.judged_at.year not in YEARS:
            raise _Invalid("the time or the latency is out of range")
        place, context = self._places.get((task.id, tried.label_studio_project, tried.label_studio_task), (None, None))
        is_qa = task.spec["kind"] == "qa"
        return new_attempt(
            verdict,
            task_id=task.id,
            model_version_id=version,
            source=Source(tried.source),
            fields=tried.fields,
            label=None if is_qa else verdict.target,
            answer={"text": verdict.target} if is_qa and verdict.target is not None else None,
            latency_us=tried.latency_us,
            now=self._now,
            round_id=self._rounds.get((task.id, tried.round)),
            context_id=context,
            label_studio_task_id=place,
        )

    @staticmethod
    def _label_studio_tasks(
        session: Session, tries: Sequence[AttemptRecord], ids: Sequence[int]
    ) -> dict[tuple[int, int | None, int | None], tuple[int, int | None]]:
        """Return our rows and their contexts, by task and by Label Studio's own numbers."""
        asked = {
            (project, number)
            for project, number in ((one.label_studio_project, one.label_studio_task) for one in tries)
            if project is not None and number is not None and 0 < project < MOST and 0 < number < MOST
        }
        if not asked:
            return {}
        found = (
            select(LabelStudioLink.task_id, LabelStudioLink.project, LabelStudioTask)
            .join(LabelStudioTask, LabelStudioTask.link_id == LabelStudioLink.id)
            .where(
                LabelStudioLink.task_id.in_(ids),
                tuple_(LabelStudioLink.project, LabelStudioTask.external_id).in_(list(asked)),
            )
        )
        rows = session.execute(found).all()
        return {(task, project, row.external_id): (row.id, row.context_id) for task, project, row in rows}


def unclaimed_attempts(
    session: Session, round: Round, label_studio_task_id: int | None, submitted_at: datetime
) -> list[Attempt]:
    """Return the round's attempts on a Label Studio task that have no worker yet and precede a submission."""
    if label_studio_task_id is None:
        return []
    waiting = select(Attempt).where(
        Attempt.label_studio_task_id == label_studio_task_id,
        Attempt.label_studio_task_id.is_not(None),
        equals_unindexed(Attempt.round_id, round.id),
        Attempt.worker_id.is_(None),
        Attempt.asked_at <= submitted_at + CLOCKS_DIFFER,
    )
    return list(session.scalars(waiting.order_by(Attempt.id)))


def link_attempts(attempts: Sequence[Attempt], example: Example) -> None:
    """Give the attempts to the author; those on exactly the example's inputs also get the example."""
    for one in attempts:
        one.worker_id = example.author_id
        if one.verdict.get(INPUTS_HASH) == example.verdict.get(INPUTS_HASH):
            one.example_id = example.id


def link_late_attempts(session: Session, attempts: Sequence[Attempt]) -> None:
    """Link attempts that were stored after their example; those of a frozen round stay without a worker."""
    places = {one.label_studio_task_id for one in attempts if one.label_studio_task_id is not None}
    if not places:
        return
    written = (
        select(LabelStudioAnnotation.label_studio_task_id, Example)
        .join(Example, Example.id == LabelStudioAnnotation.example_id)
        # A person who tries the model on a task that shows crowd work is not its author.
        .where(LabelStudioAnnotation.label_studio_task_id.in_(places), LabelStudioAnnotation.origin == Origin.THEIRS)
        .join(Round, Round.id == Example.round_id)
        .where(Round.frozen_at.is_(None))
        .order_by(Example.submitted_at, Example.id)
    )
    examples = session.execute(written).all()
    for one in attempts:
        for place, example in examples:
            same = (place, example.round_id) == (one.label_studio_task_id, one.round_id)
            if same and one.asked_at <= example.submitted_at + CLOCKS_DIFFER:
                link_attempts([one], example)
                break
