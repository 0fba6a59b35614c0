"""Model versions in the database: registered once, never changed; measured once on each set of held-out rows."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version as installed_version

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from common.errors import Hint
from ml_backend.evaluation import Metrics
from ml_backend.hashing import json_sha256
from ml_backend.manifest import CARD, Manifest
from round_manager.database.engine import find_or_add
from round_manager.errors import DuplicateError, ModelVersionChanged, ModelVersionMismatch, ModelVersionNotFound
from round_manager.learning.guard import Scores
from round_manager.learning.training_data import HeldOut
from round_manager.models import Evaluation, ModelVersion, Round, RoundModel, Task, TrainingJob, TrainingState
from templates import TaskSpec

MAX_CODE_VERSION = 80
# The key of an evaluation's details with the score of each row.
SCORES = "scores"
SETTLED_BY_GUARD = (TrainingState.ROTATED, TrainingState.REFUSED)


@dataclass(frozen=True)
class Measured:
    """What was measured of a version on held-out rows: metrics, the score of each row, and of the process.

    The scores are in the order of the rows' content. `rows_per_second` has each repeat.
    """

    metrics: Metrics
    scores: Scores
    rows_per_second: Sequence[float]
    memory_bytes: int | None


def register_version(session: Session, task: Task, manifest: Manifest, uri: str, *, now: datetime) -> ModelVersion:
    """Return the version's row, registered now if it was not; raise ModelVersionChanged if its files differ.

    Its parent is linked where it is registered already: register parents first.
    """
    if manifest.task != task.name:
        raise ModelVersionMismatch(f"version {manifest.version} belongs to task {manifest.task}, not to {task.name}")
    found = find_or_add(session, _named(manifest.version), lambda: _row(session, task, manifest, uri, now))
    if found.sha256 != _sha256(manifest):
        raise ModelVersionChanged(f"version {manifest.version} was registered with other files; restore its folder")
    return found


def find_versions(session: Session, task: Task, names: Sequence[str]) -> list[ModelVersion]:
    """Return the task's registered versions of these names, in their order."""
    rows = session.scalars(select(ModelVersion).where(ModelVersion.task_id == task.id, ModelVersion.name.in_(names)))
    known = {row.name: row for row in rows}
    missing = [name for name in names if name not in known]
    if missing:
        raise ModelVersionNotFound(
            f"version {missing[0]} of {task.name} is not registered; open a round against it first"
        )
    return [known[name] for name in names]


def names_of(session: Session, ids: Sequence[int]) -> dict[int, str]:
    """Return the names of versions by their ids."""
    return dict(session.execute(select(ModelVersion.id, ModelVersion.name).where(ModelVersion.id.in_(ids))).all())


def check_fits(spec: TaskSpec, manifest: Manifest) -> None:
    """Raise ModelVersionMismatch where the model reads other fields or predicts other labels than the task has."""
    hint = Hint("train_model", task=spec.name)
    if manifest.kind != spec.kind or tuple(manifest.model_input) != spec.model_input:
        raise ModelVersionMismatch(f"version {manifest.version} reads other fields than {spec.name} has now", hint=hint)
    if set(manifest.labels) != set(spec.label_names):
        raise ModelVersionMismatch(f"version {manifest.version} has other labels than {spec.name} has now", hint=hint)


def _named(name: str) -> Select[ModelVersion]:
    return select(ModelVersion).where(ModelVersion.name == name)


def _row(session: Session, task: Task, manifest: Manifest, uri: str, now: datetime) -> ModelVersion:
    parent = session.scalar(_named(manifest.parent)) if manifest.parent else None
    return ModelVersion(
        task_id=task.id,
        name=manifest.version,
        parent_id=parent.id if parent else None,
        uri=uri,
        sha256=_sha256(manifest),
        files={name: record.sha256 for name, record in manifest.files.items()},
        data=manifest.data,
        data_sha256=json_sha256(manifest.data),
        settings=manifest.settings,
        metrics=dict(manifest.metrics),
        code_version=manifest.code_version[:MAX_CODE_VERSION],
        created_at=now,
    )


def _sha256(manifest: Manifest) -> str:
    # The card contains the time of writing, so two equal trainings differ in it.
    files = {name: record.sha256 for name, record in manifest.files.items() if name != CARD}
    return json_sha256({"version": manifest.version, "files": files})


def find_evaluation(session: Session, version: ModelVersion, held_out: HeldOut, metric: str) -> Evaluation | None:
    """Return the stored evaluation of the version on exactly these rows."""
    return session.scalar(
        select(Evaluation).where(
            Evaluation.model_version_id == version.id,
            Evaluation.dataset_sha256 == held_out.sha256,
            Evaluation.metric == metric,
        )
    )


def store_evaluation(
    session: Session, version: ModelVersion, held_out: HeldOut, metric: str, measured: Measured, *, now: datetime
) -> None:
    """Store an evaluation, unless there is one already, for example by another process at the same moment.

    Fairness and robustness stay empty: `outfox evaluate` measures them.
    """
    speeds = [round(one, 3) for one in measured.rows_per_second]
    row = Evaluation(
        model_version_id=version.id,
        round_id=held_out.round_id,
        dataset=held_out.name,
        dataset_sha256=held_out.sha256,
        row_count=len(held_out.rows),
        metric=metric,
        performance=measured.metrics[metric] / 100,
        rows_per_second=statistics.median(speeds) if speeds else None,
        memory_bytes=measured.memory_bytes,
        details={**measured.metrics, "rows_per_second": speeds, SCORES: [round(one, 4) for one in measured.scores]},
        code_version=installed_version("outfox")[:MAX_CODE_VERSION],
        measured_at=now,
    )
    try:
        with session.begin_nested():
            session.add(row)
    except DuplicateError:
        if find_evaluation(session, version, held_out, metric) is None:
            raise


def stored_scores(evaluation: Evaluation) -> Scores | None:
    """Return the score of each row, in the order of the rows' content; older evaluations have none."""
    scores = evaluation.details.get(SCORES)
    return tuple(map(float, scores)) if scores else None


def served_versions(session: Session, task: Task) -> list[ModelVersion]:
    """Return the versions that rounds were played against or that a training rotated in, oldest first.

    A version that the guard refused and that the owner made serve anyway begins the list anew: its loss was accepted.
    """
    played = select(RoundModel.model_version_id).join(Round, Round.id == RoundModel.round_id)
    jobs = select(TrainingJob.model_version_id).where(TrainingJob.task_id == task.id)
    ends = {state: set(session.scalars(jobs.where(TrainingJob.state == state))) for state in SETTLED_BY_GUARD}
    served = {*session.scalars(played.where(Round.task_id == task.id)), *ends[TrainingState.ROTATED]}
    rows = session.scalars(
        select(ModelVersion).where(ModelVersion.id.in_(served - {None})).order_by(ModelVersion.id)
    ).all()
    accepted = [place for place, row in enumerate(rows) if row.id in ends[TrainingState.REFUSED]]
    return list(rows[accepted[-1] if accepted else 0 :])


def earlier_scores(
    session: Session, versions: Sequence[ModelVersion], held_out: Sequence[HeldOut], metric: str
) -> dict[str, dict[str, Scores]]:
    """Return the stored scores of versions by name, then by the hash of the held-out rows."""
    names = {row.id: row.name for row in versions}
    found: dict[str, dict[str, Scores]] = {}
    wanted = select(Evaluation).where(
        Evaluation.model_version_id.in_(names),
        Evaluation.dataset_sha256.in_([part.sha256 for part in held_out]),
        Evaluation.metric == metric,
    )
    for row in session.scalars(wanted):
        scores = stored_scores(row)
        if scores:
            found.setdefault(names[row.model_version_id], {})[row.dataset_sha256] = scores
    return found
