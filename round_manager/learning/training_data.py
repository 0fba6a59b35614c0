"""What a next model learns from: the seed and the splits of every closed round; and the port that trains it.

No training row has the content of a held-out row of the seed, of any round or of a test suite: copies are left out, and
so are duplicates of training rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from common.errors import Hint
from common.progress import Progress
from common.text import count
from ml_backend.hashing import rows_sha256
from ml_backend.manifest import DataSource
from round_manager.archive.example_rows import example_rows
from round_manager.archive.imported_rounds import ImportedFigures, list_suites
from round_manager.audit import note
from round_manager.errors import NothingToLearn, RoundNotClosed, RoundNotReady
from round_manager.examples.rows import row_of_example
from round_manager.examples.submissions import content_sha256
from round_manager.models import (
    AuditEntry,
    Example,
    ExampleStatus,
    Round,
    RoundStatus,
    Split,
    Task,
    TrainingJob,
    TrainingState,
)
from templates import Pack, SeedRow, TaskSpec

ROWS_AT_A_TIME = 1_000
SEED = "seed"
# The audit log's actions for a round that was split completely, and for one that teaches nothing.
SPLIT, PASSED_OVER = "split", "passed over"
# After these a round needs no further training; after a failure or a stop it does.
SETTLED = (TrainingState.ROTATED, TrainingState.REFUSED, TrainingState.CANCELLED)


@dataclass(frozen=True)
class HeldOut:
    """Rows that no model of the task is trained on, from the seed or from a round."""

    name: str
    round_id: int | None
    rows: tuple[SeedRow, ...]
    sha256: str


@dataclass(frozen=True)
class TrainingRows:
    """The training rows with the seed's held-out ones, their sources, and every held-out set for evaluation.

    The seed's held-out rows may choose an epoch; those of rounds choose nothing, so that they stay unbiased.
    """

    rows: tuple[SeedRow, ...]
    sources: tuple[DataSource, ...]
    held_out: tuple[HeldOut, ...]
    last: Round


def training_rows(
    session: Session, task: Task, spec: TaskSpec, seed: Sequence[SeedRow], *, up_to: int | None = None
) -> TrainingRows:
    """Return the rows of all closed rounds, or of those up to a number.

    Raises:
        NothingToLearn: The last of the rounds adds no training row.
    """
    rounds = [one for one in closed_rounds(session, task) if up_to is None or one.number <= up_to]
    if not rounds:
        raise RoundNotClosed(f"{task.name} has no closed round to learn from", hint=Hint("close_round", task=task.name))
    for one in rounds:
        _check_split(session, task, one)
    held_out = [_held_out(SEED, None, [row for row in seed if row.split == "held_out"], spec)]
    for one in rounds:
        rows = [row for row in _examples(session, one, Split.HELD_OUT, spec) if row is not None]
        held_out.append(_held_out(f"round {one.number}", one.id, rows, spec))
    measured_on = {_content(row, spec) for part in held_out for row in part.rows}
    for suite in list_suites(session, task):
        measured_on |= {_content(row, spec) for row in example_rows(suite.archive_uri, spec)}
    deduplicator = _Deduplicator(spec, measured_on)
    deduplicator.take(None, (row for row in seed if row.split == "train"))
    for one in rounds:
        deduplicator.take(one.number, _examples(session, one, Split.TRAIN, spec))
    newest = deduplicator.sources[-_newest(rounds) :]
    if not any(one.rows for one in newest):
        message = _nothing_new(task, rounds[-1], newest[-1].left_out)
        raise NothingToLearn(message, hint=Hint("open_round", task=task.name))
    all_rows = (*deduplicator.rows, *held_out[0].rows)
    evaluation_sets = tuple(part for part in held_out if part.rows)
    return TrainingRows(all_rows, tuple(deduplicator.sources), evaluation_sets, rounds[-1])


def _newest(rounds: Sequence[Round]) -> int:
    """Return how many of the rounds are new: the last one, and if it was imported, all since the last collected one."""
    trailing = next((place for place, one in enumerate(reversed(rounds)) if not one.is_imported), len(rounds))
    return max(1, trailing)


def closed_rounds(session: Session, task: Task) -> list[Round]:
    """Return the task's closed rounds in order."""
    closed = select(Round).where(Round.task_id == task.id, Round.status == RoundStatus.CLOSED)
    return list(session.scalars(closed.order_by(Round.number)))


class _Deduplicator:
    """Takes rows from one source after another, each content once, and none that is held out."""

    def __init__(self, spec: TaskSpec, held_out: set[str]) -> None:
        self._spec = spec
        self._seen = held_out
        self.rows: list[SeedRow] = []
        self.sources: list[DataSource] = []

    def take(self, round_number: int | None, rows: Iterator[SeedRow | None]) -> None:
        taken, left_out = [], 0
        for row in rows:
            content = _content(row, self._spec) if row else None
            if row is None or content is None or content in self._seen:
                left_out += 1
                continue
            self._seen.add(content)
            taken.append(row)
        sha256 = rows_sha256(taken, self._spec)
        self.rows += taken
        self.sources.append(DataSource(round=round_number, sha256=sha256, rows=len(taken), left_out=left_out))


def _content(row: SeedRow, spec: TaskSpec) -> str:
    return content_sha256(spec, row.fields)


def _held_out(name: str, round_id: int | None, rows: Sequence[SeedRow], spec: TaskSpec) -> HeldOut:
    return HeldOut(name, round_id, tuple(rows), rows_sha256(rows, spec))


def rows_to_learn(session: Session, round: Round) -> int | None:
    """Return the number of training examples of a closed round, recorded when it was split; None before."""
    if round.is_imported:
        return ImportedFigures.of(round).train
    written = select(AuditEntry.after).where(AuditEntry.round_id == round.id, AuditEntry.action == SPLIT)
    report = session.scalar(written.order_by(AuditEntry.id).limit(1))
    return None if report is None else int(report.get("train", 0))


def _check_split(session: Session, task: Task, round: Round) -> None:
    verified = exists().where(Example.round_id == round.id, Example.status == ExampleStatus.VERIFIED)
    if session.scalar(select(verified)) and rows_to_learn(session, round) is None:
        raise RoundNotReady(
            f"round {round.number} of {task.name} is closed but not split yet; freeze it first",
            hint=Hint("freeze_round", task=task.name, round=round.number),
        )


def _nothing_new(task: Task, last: Round, left_out: int) -> str:
    if left_out:
        return (
            f"every training row of round {last.number} of {task.name} is a duplicate or no longer fits the task"
            f" ({count(left_out, 'row')}); there is nothing to learn, and the model stays as it is"
        )
    return f"round {last.number} of {task.name} has no verified example to train on; the model stays as it is"


def _examples(session: Session, round: Round, split: Split, spec: TaskSpec) -> Iterator[SeedRow | None]:
    """Yield the examples of one split as rows; None for one that no longer fits the task.

    In a collected round, only verified examples have a split.
    """
    if round.is_imported:
        yield from example_rows(str(round.archive_uri), spec, split)
        return
    columns = select(Example.public_id, Example.fields, Example.gold_label, Example.gold_answer)
    mine = (Example.round_id == round.id, Example.split == split, Example.status == ExampleStatus.VERIFIED)
    found = session.execute(columns.where(*mine).order_by(Example.id).execution_options(yield_per=ROWS_AT_A_TIME))
    for own_id, fields, label, answer in found:
        yield row_of_example(str(own_id), split, fields, label, answer, spec)


@dataclass(frozen=True)
class PendingTraining:
    """A closed round that no model has learned from yet, and how often that failed, with the last reason.

    Failures that a retry may resolve, such as an unreachable registry, are not counted.
    """

    round: int
    failures: int
    reason: str | None


def pending_training(session: Session, task: Task) -> PendingTraining | None:
    """Return the last closed round where it has rows to learn from and no training up to it has settled.

    After an import, the owner decides when to train. A running training does not count: see running_job.
    """
    rounds = closed_rounds(session, task)
    if not rounds:
        return None
    last = rounds[-1]
    if last.is_imported or not rows_to_learn(session, last):
        return None
    mine = (TrainingJob.task_id == task.id, TrainingJob.round_id == last.id)
    jobs = session.scalars(select(TrainingJob).where(*mine).order_by(TrainingJob.id)).all()
    if any(job.state in SETTLED for job in jobs) or skipped_round(session, task):
        return None
    failed = [job for job in jobs if job.state is TrainingState.FAILED and not job.retry]
    return PendingTraining(last.number, len(failed), failed[-1].reason if failed else None)


def skip_round(session: Session, task: Task, reason: str, *, actor: str, now: datetime) -> None:
    """Record that the last closed round teaches nothing, so that the next round need not wait for a training."""
    if pending_training(session, task) is not None:
        last = closed_rounds(session, task)[-1]
        note(session, PASSED_OVER, last, actor=actor, reason=reason, now=now, of=last)


def skipped_round(session: Session, task: Task) -> str | None:
    """Return why the last closed round needs no training; None if it was not skipped."""
    rounds = closed_rounds(session, task)
    if not rounds:
        return None
    written = select(AuditEntry.reason).where(AuditEntry.round_id == rounds[-1].id, AuditEntry.action == PASSED_OVER)
    return session.scalar(written.limit(1))


@dataclass(frozen=True)
class TrainingOrder:
    """What to train: the pack's model on these rows, from these sources, in this mode (the pack's own if None)."""

    pack: Pack
    rows: Sequence[SeedRow]
    sources: Sequence[DataSource]
    mode: str | None


@dataclass(frozen=True)
class TrainingPlan:
    """How an order will be carried out: the mode, and the folder of an existing version of exactly this order."""

    mode: str
    existing: Path | None


class ModelTrainer(Protocol):
    """Trains model versions. The same order gives the same version."""

    def plan(self, order: TrainingOrder) -> TrainingPlan:
        """Return how the order will be carried out; raise where it cannot be."""

    def train(self, order: TrainingOrder, progress: Progress, cancel: Callable[[], bool]) -> Path:
        """Return the folder of the new version; raise TrainingCancelled as soon as `cancel` returns True."""


@dataclass(frozen=True)
class LocalTrainer:
    """Trains in this process, into the models' folder; `cache` keeps the features of a frozen encoder.

    `newest` returns the folder of the task's newest published version: another machine may have trained it.
    """

    models: Path
    cache: Path
    newest: Callable[[str], Path | None] = lambda task: None

    def plan(self, order: TrainingOrder) -> TrainingPlan:
        """Check the rows, and look for a version with the same recipe."""
        from ml_backend.artefact import list_versions, read_manifest
        from ml_backend.training.data import Recipe

        recipe, name = Recipe.of(order.pack, order.rows, order.mode), order.pack.spec.name
        matching = (one.version for one in list_versions(self.models, name) if recipe.made(one))
        existing = next((self.models / name / version for version in matching), None)
        if existing is None:
            published = self.newest(name)
            existing = published if published and recipe.made(read_manifest(published)) else None
        return TrainingPlan(recipe.settings.mode, existing)

    def train(self, order: TrainingOrder, progress: Progress, cancel: Callable[[], bool]) -> Path:
        """Train from the base model on all rows, so that a version depends on its rows and on no earlier version."""
        from ml_backend.training import train

        trained = train(
            order.pack,
            self.models,
            mode=order.mode,
            rows=order.rows,
            sources=order.sources,
            cache=self.cache,
            progress=progress,
            cancel=cancel,
        )
        return trained.directory
