"""The queue of submitted models: one at a time for each task, each in the sandbox.

The process that evaluates holds the task's lock, which is released when the process dies. So the holder of the lock
knows that a submission still recorded as running belongs to a dead process, and puts it back into the queue; what it
had stored is found again. After MOST_STARTS such deaths a submission fails.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.errors import CodedError, Hint
from common.text import printable
from ml_backend.errors import ModelError, ModelInputInvalid, PredictionsInvalid, SandboxUnavailable
from ml_backend.evaluation.consistency import HEADLINE as CONSISTENCY
from ml_backend.evaluation.predictions import ENDINGS
from ml_backend.evaluation.sandboxed_predictions import decode_predictions
from ml_backend.sandbox.process import SandboxLimits, check_sandbox
from ml_backend.targets.sources import ModelSource
from outfox.figures import LEAST_HIDDEN_ROWS
from round_manager.audit import note
from round_manager.database.store import process_lock
from round_manager.errors import DataSetNotFound, SubmissionCancelled, SubmissionsBusy
from round_manager.evaluation.axes import chosen_axes
from round_manager.evaluation.data_sets import ROUNDS, SEED, SUITES, DataSet, DataSets
from round_manager.evaluation.storage import open_evaluations
from round_manager.evaluation.submitted_files import MODEL, PREDICTIONS, SubmittedFiles, check_model
from round_manager.evaluation.work import PARTS, Candidate, close_models
from round_manager.jobs import JobOwner
from round_manager.models import ModelSubmission, SubmissionState, SubmissionTerms, Task, spec_of
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.evaluations import EvaluationOrder, EvaluationRow, evaluate_models
from round_manager.services.submissions import Submitted, show_submission
from round_manager.tasks.tasks import find_task
from templates import SeedRow, TaskSpec

SUBMISSIONS = "submissions"
MOST_STARTS = 3
INTERRUPTED = "submission_interrupted"
ID_CHARS = 12
LOOK_SECONDS = 2.0
MOST_MESSAGE = 1_000
# Predictions may repeat ids and have others, which is reported by id, up to this many rows.
SPARE_ROWS = 1_000
SHOWN = ("data", "axis", "metric", "n", "value", "low", "high")


@dataclass(frozen=True)
class SubmissionPorts:
    """What an evaluation of submitted models needs: their files, the seed of a task, archives and a cache."""

    files: SubmittedFiles
    seed: Callable[[str], Sequence[SeedRow]]
    place: str
    cache: Path


@dataclass(frozen=True)
class _Claimed:
    """A submission that this process evaluates, and the token of this start."""

    row: ModelSubmission
    task: str
    name: str
    spec: TaskSpec
    limits: SandboxLimits
    axes: tuple[str, ...]
    token: str


def run_next_submission(context: ServiceContext, actor: Actor, task: str, ports: SubmissionPorts) -> Submitted | None:
    """Evaluate the next submission of the queue, and return it as it ended; None if the queue is empty.

    Raises:
        SandboxUnavailable: Models of strangers cannot be isolated on this machine; the queue stays as it is.
        SubmissionsBusy: Another process evaluates the task's submissions.
    """

    def refuse() -> None:
        raise SubmissionsBusy(f"the submissions of {task} are being evaluated by another process")

    with process_lock(context.store, f"{SUBMISSIONS}-{task}", refuse):
        _recover(context, actor, task)
        ports.files.remove_leftovers(task)
        if not _is_queued(context, task):
            return None
        check_sandbox()
        claimed = _claim(context, actor, task)
        if claimed is None:
            return None
        try:
            rows = _evaluate(context, claimed, ports)
        except KeyboardInterrupt:
            _finish(context, actor, claimed, SubmissionState.QUEUED)
            raise
        except SubmissionCancelled:
            _undo(claimed, ports)
            _finish(context, actor, claimed, SubmissionState.CANCELLED)
        except CodedError as error:
            if error.retry or isinstance(error, SandboxUnavailable):
                # What failed is this machine, not the model.
                _finish(context, actor, claimed, SubmissionState.QUEUED)
                raise
            _undo(claimed, ports)
            _finish(context, actor, claimed, SubmissionState.FAILED, error=error)
        else:
            _finish(context, actor, claimed, SubmissionState.SUCCEEDED, rows=rows)
        finally:
            close_models()
    return show_submission(context, task, claimed.row.key)


def submissions_in(session: Session, task: Task, *states: SubmissionState) -> list[ModelSubmission]:
    """Return the submissions of a task that are in one of these states, oldest first."""
    wanted = select(ModelSubmission).where(ModelSubmission.task_id == task.id, ModelSubmission.state.in_(states))
    return list(session.scalars(wanted.order_by(ModelSubmission.id)))


def _is_queued(context: ServiceContext, task: str) -> bool:
    with context.store.read() as session:
        wanted = select(ModelSubmission.id).where(
            ModelSubmission.task_id == find_task(session, task).id, ModelSubmission.state == SubmissionState.QUEUED
        )
        return session.scalar(wanted.limit(1)) is not None


def _recover(context: ServiceContext, actor: Actor, task: str) -> None:
    """Put back what dead processes were evaluating; only for the holder of the lock."""
    now = context.now()
    with context.store.write() as session:
        for row in submissions_in(session, find_task(session, task), SubmissionState.RUNNING):
            row.start_token = None
            if row.cancel_at is not None:
                row.state, row.finished_at = SubmissionState.CANCELLED, now
            elif row.starts >= MOST_STARTS:
                row.state, row.finished_at, row.code = SubmissionState.FAILED, now, INTERRUPTED
                row.message = f"its process was killed {row.starts} times; the task's owner can start it again"
            else:
                row.state = SubmissionState.QUEUED
            note(session, "interrupted", row, actor=actor.name, reason="", now=now, of=row)


def _claim(context: ServiceContext, actor: Actor, task: str) -> _Claimed | None:
    now, owner = context.now(), JobOwner.this_process(actor.name)
    with context.store.write() as session:
        found = find_task(session, task)
        rows = submissions_in(session, found, SubmissionState.QUEUED)
        if not rows:
            return None
        row = rows[0]
        terms = session.scalars(select(SubmissionTerms).where(SubmissionTerms.task_id == found.id)).one()
        row.state, row.started_at, row.start_token = SubmissionState.RUNNING, now, owner.token
        row.host, row.pid, row.starts, row.steps, row.total = owner.host, owner.pid, row.starts + 1, 0, 0
        limits = SandboxLimits(memory_bytes=terms.memory_mb << 20, seconds=terms.seconds)
        name = Submitted(row, task, "").shown_name
        axes = chosen_axes(terms.measured_axes)
        return _Claimed(row, task, name, spec_of(found), limits, axes, owner.token)


def _evaluate(context: ServiceContext, claimed: _Claimed, ports: SubmissionPorts) -> list[dict[str, Any]]:
    """Evaluate a submission; return its figures on all rows of each data set."""
    row, folder = claimed.row, ports.files.place(claimed.task, claimed.row.key)
    data = DataSets(claimed.spec, ports.place, ports.seed(claimed.task))
    own_id = _own_id(row)
    with TemporaryDirectory(prefix="outfox-submission-") as scratch:
        if row.kind == MODEL:
            model, labels = check_model(folder / MODEL, claimed.spec, row.options["labels"])
            directory, fields = str((folder / MODEL).resolve()), claimed.spec.model_input
            source = ModelSource(
                model.kind, directory, own_id, claimed.spec.kind, fields, labels, limits=claimed.limits
            )
            candidate = Candidate(own_id, claimed.name, model.kind, source, submitted=True)
            chosen = _every(data)
        else:
            chosen = _open_data(data, row.options["data"])
            file = next(path for path in folder.iterdir() if path.suffix in ENDINGS)
            decoded = Path(scratch) / f"{PREDICTIONS}.csv"
            rows = sum(one.row_count for one in chosen)
            decode_predictions(file, decoded, 2 * rows + SPARE_ROWS, claimed.limits)
            candidate = Candidate(own_id, claimed.name, PREDICTIONS, predictions=str(decoded), submitted=True)
        _record(context, claimed, model_id=own_id)
        order = EvaluationOrder(claimed.task, [candidate], chosen, claimed.axes, ports.place, ports.cache)
        report = evaluate_models(order, progress=_Watch(context, claimed))
    hidden = {one.name: one.row_count for one in chosen if one.hidden}
    shown = (asdict(one) for one in report.rows if not one.slice and not _reveals(one, hidden.get(one.data)))
    return [{name: one[name] for name in SHOWN} for one in shown]


def _reveals(figure: EvaluationRow, hidden_rows: int | None) -> bool:
    """Return whether a figure of this many hidden rows would tell the labels of a few of them.

    One that leaves some rows out would, next to that of all rows; consistency does not depend on labels.
    """
    if hidden_rows is None:
        return False
    leaves_out = figure.n != hidden_rows and figure.metric != CONSISTENCY
    return figure.n < LEAST_HIDDEN_ROWS or leaves_out


def _undo(claimed: _Claimed, ports: SubmissionPorts) -> None:
    """Remove what a submission that did not succeed has stored, unless it had succeeded before."""
    own_id = _own_id(claimed.row)
    if claimed.row.results is None:
        open_evaluations(ports.place, claimed.task).remove_model(own_id)
    for unfinished in (ports.cache / PARTS).glob(f"{own_id}-*"):
        rmtree(unfinished, ignore_errors=True)


def _own_id(row: ModelSubmission) -> str:
    return f"submitted-{row.sha256[:ID_CHARS]}"


def _every(data: DataSets) -> list[DataSet]:
    """Return every data set of the task, also those that nobody can download."""
    names = [SEED] if data.seed else []
    names += [ROUNDS] if data.rounds() else []
    names += [SUITES] if data.suites() else []
    if not names:
        text = f"{data.spec.name} has no frozen round and no test suite yet; submit again later"
        raise DataSetNotFound(text, hint=Hint("list_rounds", task=data.spec.name))
    return data.choose(names)


def _open_data(data: DataSets, names: Sequence[str]) -> list[DataSet]:
    """Return the data sets that predictions are for, which are those that can be downloaded."""
    known = [f"round {number}" for number in data.rounds()] + [f"suite {name}" for name in data.suites()]
    for name in names:
        if name not in (*known, ROUNDS, SUITES):
            text = f"there is no data set `{name}` to predict; known are {', '.join(known) or 'none'}"
            raise DataSetNotFound(text, hint=Hint("list_rounds", task=data.spec.name))
    chosen = data.choose(names or [ROUNDS])
    hidden = [one.name for one in chosen if one.hidden]
    if hidden:
        raise DataSetNotFound(f"{', '.join(hidden)} is hidden, so it cannot be predicted; submit the model")
    if not chosen:
        raise DataSetNotFound(f"{data.spec.name} has no frozen round to predict yet; submit again later")
    return chosen


def _finish(
    context: ServiceContext,
    actor: Actor,
    claimed: _Claimed,
    state: SubmissionState,
    *,
    error: CodedError | None = None,
    rows: list[dict[str, Any]] | None = None,
) -> None:
    """Record how this start ended, unless another process has recorded its end."""
    now = context.now()
    with _mine(context, claimed) as (session, row):
        if row is None:
            return
        row.state, row.start_token = state, None
        if state is SubmissionState.QUEUED:
            row.starts -= 1
        else:
            row.finished_at = now
        if error is not None:
            row.code, row.message = error.code, _message(error)
        if rows is not None:
            row.results = {"rows": rows}
        note(session, state.value, row, actor=actor.name, reason="", now=now, of=row, after={"code": row.code})


def _message(error: CodedError) -> str:
    """Return what the researcher reads: of errors that are not about the model, only what kind of error it is."""
    is_about_model = isinstance(error, ModelError | PredictionsInvalid | ModelInputInvalid | DataSetNotFound)
    return printable(str(error))[:MOST_MESSAGE] if is_about_model else error.summary


def _record(context: ServiceContext, claimed: _Claimed, *, model_id: str) -> None:
    with _mine(context, claimed) as (_, row):
        if row is not None:
            row.model_id = model_id


@contextmanager
def _mine(context: ServiceContext, claimed: _Claimed) -> Iterator[tuple[Session, ModelSubmission | None]]:
    """Open a transaction with the submission, or None if this start is over for others."""
    with context.store.write() as session:
        wanted = select(ModelSubmission).where(ModelSubmission.id == claimed.row.id).with_for_update()
        row = session.scalars(wanted).one()
        yield session, row if row.start_token == claimed.token else None


class _Watch:
    """Records the progress, and raises SubmissionCancelled when the submission was cancelled."""

    def __init__(self, context: ServiceContext, claimed: _Claimed) -> None:
        self._context = context
        self._claimed = claimed
        self._total = 0
        self._done = 0
        self._next = 0.0

    def start(self, total_steps: int, what: str) -> None:
        self._total = total_steps
        self._look()

    def advance(self, steps: int = 1, note: str = "") -> None:
        self._done += steps
        if time.monotonic() >= self._next:
            self._look()

    def finish(self) -> None:
        self._look()

    def _look(self) -> None:
        self._next = time.monotonic() + LOOK_SECONDS
        with _mine(self._context, self._claimed) as (_, row):
            if row is None or row.cancel_at is not None:
                raise SubmissionCancelled("the submission was cancelled")
            row.steps, row.total = self._done, self._total
