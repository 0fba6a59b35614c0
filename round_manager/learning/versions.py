"""Model versions in the database: registered once, never changed; measured once on each set of held-out rows.

The guard compares their evaluations before a rotation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import version as installed_version
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import count
from ml_backend.evaluation import EvaluationResult
from ml_backend.hashing import json_sha256
from ml_backend.manifest import CARD, Manifest
from round_manager.database.engine import find_or_add
from round_manager.errors import DuplicateError, ModelVersionChanged, ModelVersionMismatch, ModelVersionNotFound
from round_manager.learning.training_data import HeldOut
from round_manager.models import Evaluation, ModelVersion, Task
from templates import TaskSpec

MAX_CODE_VERSION = 80


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


# Metrics have four decimals; smaller differences are rounding.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class VersionComparison:
    """The new model and the best of those that serve now, on one set of held-out rows, in points."""

    dataset: str
    rows: int
    before: float | None
    after: float

    @property
    def loss(self) -> float:
        """How many points the new model loses; negative where it gains."""
        return 0.0 if self.before is None else self.before - self.after

    def summary(self) -> str:
        """Return the comparison as text."""
        before = "nothing" if self.before is None else f"{self.before:.1f}"
        return f"{self.dataset}: from {before} to {self.after:.1f} points on {count(self.rows, 'row')}"


@dataclass(frozen=True)
class GuardDecision:
    """Whether a new model may serve: all comparisons, and how many points it may lose on any of them.

    `not_compared` maps earlier versions that can no longer be evaluated to the reason.
    """

    comparisons: Sequence[VersionComparison]
    guard_points: float
    not_compared: Mapping[str, str] = field(default_factory=dict)

    @property
    def regressions(self) -> list[VersionComparison]:
        """The comparisons in which the new model loses more than allowed."""
        return [one for one in self.comparisons if one.loss > self.guard_points + TOLERANCE]

    @property
    def accepted(self) -> bool:
        """Whether the new model has no regression."""
        return not self.regressions

    def reason(self) -> str:
        """Return the reason for the decision, with the figures."""
        lines = [one.summary() for one in (self.comparisons if self.accepted else self.regressions)]
        if not self.accepted:
            lines.append(f"a loss of {self.guard_points:g} points is allowed (rounds.guard_points)")
        lines += [f"not compared with {version}: {why}" for version, why in self.not_compared.items()]
        return "; ".join(lines)

    def record(self) -> dict[str, Any]:
        """Return the figures as they are stored."""
        return {"accepted": self.accepted, **asdict(self)}


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
    session: Session,
    version: ModelVersion,
    held_out: HeldOut,
    result: EvaluationResult,
    *,
    memory_bytes: int | None,
    now: datetime,
) -> Evaluation:
    """Store an evaluation; return the existing one if another process stored it at the same moment.

    Fairness and robustness stay empty: nothing measures them yet.
    """
    row = Evaluation(
        model_version_id=version.id,
        round_id=held_out.round_id,
        dataset=held_out.name,
        dataset_sha256=held_out.sha256,
        row_count=result.rows,
        metric=result.metric,
        performance=result.points / 100,
        rows_per_second=round(result.rows_per_second, 3),
        memory_bytes=memory_bytes,
        details=dict(result.metrics),
        code_version=installed_version("outfox")[:MAX_CODE_VERSION],
        measured_at=now,
    )
    try:
        with session.begin_nested():
            session.add(row)
    except DuplicateError:
        stored = find_evaluation(session, version, held_out, result.metric)
        if stored is None:
            raise
        return stored
    return row
