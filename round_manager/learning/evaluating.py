"""Evaluations: each model version measured once on each set of held-out rows, and kept."""

from datetime import datetime
from importlib.metadata import version as installed_version

from sqlalchemy import select
from sqlalchemy.orm import Session

from ml_backend.evaluation import EvaluationResult
from round_manager.errors import DuplicateError
from round_manager.learning.rows import HeldOut
from round_manager.learning.versions import LONGEST_CODE_VERSION
from round_manager.models import Evaluation, ModelVersion


def kept_evaluation(session: Session, version: ModelVersion, held_out: HeldOut, metric: str) -> Evaluation | None:
    """What was measured before of the version on exactly these rows."""
    return session.scalar(
        select(Evaluation).where(
            Evaluation.model_version_id == version.id,
            Evaluation.dataset_sha256 == held_out.sha256,
            Evaluation.metric == metric,
        )
    )


def keep_evaluation(
    session: Session,
    version: ModelVersion,
    held_out: HeldOut,
    examined: EvaluationResult,
    *,
    memory_bytes: int | None,
    now: datetime,
) -> Evaluation:
    """The measurement, kept; where another process kept one at the same moment, that one.

    Fairness and robustness stay empty: nothing here measures them.
    """
    row = Evaluation(
        model_version_id=version.id,
        round_id=held_out.round_id,
        dataset=held_out.name,
        dataset_sha256=held_out.sha256,
        row_count=examined.rows,
        metric=examined.metric,
        performance=examined.points / 100,
        rows_per_second=round(examined.rows_per_second, 3),
        memory_bytes=memory_bytes,
        details=dict(examined.metrics),
        code_version=installed_version("outfox")[:LONGEST_CODE_VERSION],
        measured_at=now,
    )
    try:
        with session.begin_nested():
            session.add(row)
    except DuplicateError:
        kept = kept_evaluation(session, version, held_out, examined.metric)
        if kept is None:
            raise
        return kept
    return row
