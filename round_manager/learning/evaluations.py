"""Evaluations: versions are measured once on each set of held-out rows, and the guard compares them before rotation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version as installed_version
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.text import count
from ml_backend.evaluation import EvaluationResult
from round_manager.errors import DuplicateError
from round_manager.learning.rows import HeldOut
from round_manager.learning.versions import MAX_CODE_VERSION
from round_manager.models import Evaluation, ModelVersion

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
        comparisons = [
            {"dataset": one.dataset, "rows": one.rows, "before": one.before, "after": one.after}
            for one in self.comparisons
        ]
        return {
            "accepted": self.accepted,
            "guard_points": self.guard_points,
            "comparisons": comparisons,
            "not_compared": dict(self.not_compared),
        }


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
