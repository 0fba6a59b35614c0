"""Lineage: the way of a model version back to the seed and the rounds that it learned from."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.learning.versions import find_versions
from round_manager.models import Evaluation, ModelVersion, Round, RoundModel, Task
from round_manager.tasks.rounds import list_rounds, pinned_versions


@dataclass(frozen=True)
class Learned:
    """Rows that a version learned from, all from one place; of a round also its opponents and its archive."""

    source: str
    rows: int
    sha256: str
    left_out: int
    against: tuple[str, ...] = ()
    closed_at: datetime | None = None
    archive: str | None = None
    archive_sha256: str | None = None


@dataclass(frozen=True)
class Figure:
    """What was measured of a version on held-out rows, in points."""

    dataset: str
    rows: int
    metric: str
    points: float
    rows_per_second: float | None
    memory_bytes: int | None


@dataclass(frozen=True)
class Ancestor:
    """One version on the way: what it started from, what it learned, how good it is, where it was played against."""

    version: str
    base: str
    base_sha256: str
    mode: str
    rows: int
    sha256: str
    learned: tuple[Learned, ...]
    figures: tuple[Figure, ...]
    played_in: tuple[int, ...]
    registered_at: datetime


def lineage(session: Session, task: Task, name: str) -> list[Ancestor]:
    """The version and all versions that it was started from, itself first."""
    (version,) = find_versions(session, task, [name])
    rounds = {one.number: one for one in list_rounds(session, task)}
    line: list[ModelVersion] = [version]
    while line[-1].parent_id is not None:
        line.append(session.get_one(ModelVersion, line[-1].parent_id))
    return [_ancestor(session, one, rounds) for one in line]


def _ancestor(session: Session, version: ModelVersion, rounds: dict[int, Round]) -> Ancestor:
    data = version.data
    train = data.get("train", {})
    played = select(Round.number).join(RoundModel, RoundModel.round_id == Round.id)
    return Ancestor(
        version.name,
        str(data.get("base", "")),
        str(data.get("base_sha256", "")),
        str(version.settings.get("mode", "")),
        int(train.get("rows", 0)),
        str(train.get("sha256", "")),
        tuple(_learned(session, source, rounds) for source in data.get("sources", [])),
        _figures(session, version),
        tuple(session.scalars(played.where(RoundModel.model_version_id == version.id).order_by(Round.number))),
        version.created_at,
    )


def _learned(session: Session, source: dict[str, Any], rounds: dict[int, Round]) -> Learned:
    number = source["round"]
    rows, left_out = int(source["rows"]), int(source["left_out"])
    found = rounds.get(number) if number is not None else None
    if found is None:
        return Learned("seed" if number is None else f"round {number}", rows, source["sha256"], left_out)
    return Learned(
        f"round {number}",
        rows,
        source["sha256"],
        left_out,
        pinned_versions(session, found),
        found.closed_at,
        found.archive_uri,
        found.archive_sha256,
    )


def _figures(session: Session, version: ModelVersion) -> tuple[Figure, ...]:
    measured = select(Evaluation).where(Evaluation.model_version_id == version.id).order_by(Evaluation.id)
    return tuple(
        Figure(
            one.dataset,
            one.row_count,
            one.metric,
            round(100 * one.performance, 4),
            one.rows_per_second,
            one.memory_bytes,
        )
        for one in session.scalars(measured)
    )
