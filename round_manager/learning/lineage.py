"""Lineage: a model version traced back to the seed and the rounds that it was trained on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.errors import Hint
from ml_backend.manifest import Manifest
from round_manager.errors import ModelVersionNotFound
from round_manager.models import Evaluation, ModelVersion, Round, RoundModel, Task
from round_manager.tasks.rounds import list_rounds, pinned_versions


@dataclass(frozen=True)
class Learned:
    """The training rows of a version from one source; for a round also its opponents and its archive."""

    source: str
    rows: int
    sha256: str
    left_out: int
    against: tuple[str, ...] = ()
    closed_at: datetime | None = None
    archive: str | None = None
    archive_sha256: str | None = None


@dataclass(frozen=True)
class Score:
    """An evaluation of a version on held-out rows, in points."""

    dataset: str
    rows: int
    metric: str
    points: float
    rows_per_second: float | None
    memory_bytes: int | None


@dataclass(frozen=True)
class Ancestor:
    """One version of a lineage: its base model, its training rows, its evaluations, and the rounds against it."""

    version: str
    base: str
    base_sha256: str
    mode: str
    rows: int
    sha256: str
    learned: tuple[Learned, ...]
    parent: str | None
    figures: tuple[Score, ...] = ()
    played_in: tuple[int, ...] = ()
    registered_at: datetime | None = None

    @property
    def rounds(self) -> list[int]:
        """The numbers of the rounds that it was trained on."""
        return [int(one.source.removeprefix("round ")) for one in self.learned if one.source != "seed"]


ReadManifest = Callable[[str], Manifest | None]


def lineage(session: Session, task: Task, name: str, read: ReadManifest) -> list[Ancestor]:
    """Return the version and its ancestors, newest first, as far back as they are known.

    A version that no round was played against is not registered: `read` returns its manifest, None if there is none.
    """
    rounds = {one.number: one for one in list_rounds(session, task)}
    line: list[Ancestor] = []
    wanted: str | None = name
    while wanted is not None and wanted not in {one.version for one in line}:
        mine = (ModelVersion.task_id == task.id, ModelVersion.name == wanted)
        version = session.scalar(select(ModelVersion).where(*mine))
        manifest = None if version else read(wanted)
        if version is not None:
            line.append(_registered(session, version, rounds))
        elif manifest is not None:
            line.append(_ancestor(session, manifest.version, manifest.data, manifest.settings, rounds))
        else:
            break
        wanted = line[-1].parent
    if not line:
        raise ModelVersionNotFound(f"{task.name} has no version {name}", hint=Hint("list_models", task=task.name))
    return line


def _registered(session: Session, version: ModelVersion, rounds: dict[int, Round]) -> Ancestor:
    played = select(Round.number).join(RoundModel, RoundModel.round_id == Round.id)
    return replace(
        _ancestor(session, version.name, version.data, version.settings, rounds),
        figures=_figures(session, version),
        played_in=tuple(
            session.scalars(played.where(RoundModel.model_version_id == version.id).order_by(Round.number))
        ),
        registered_at=version.created_at,
    )


def _ancestor(
    session: Session, name: str, data: dict[str, Any], settings: dict[str, Any], rounds: dict[int, Round]
) -> Ancestor:
    """Return what a version's own record says about its origin."""
    train = data.get("train", {})
    return Ancestor(
        name,
        str(data.get("base", "")),
        str(data.get("base_sha256", "")),
        str(settings.get("mode", "")),
        int(train.get("rows", 0)),
        str(train.get("sha256", "")),
        tuple(_learned(session, source, rounds) for source in data.get("sources", [])),
        settings.get("parent"),
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


def _figures(session: Session, version: ModelVersion) -> tuple[Score, ...]:
    measured = select(Evaluation).where(Evaluation.model_version_id == version.id).order_by(Evaluation.id)
    return tuple(
        Score(
            one.dataset,
            one.row_count,
            one.metric,
            round(100 * one.performance, 4),
            one.rows_per_second,
            one.memory_bytes,
        )
        for one in session.scalars(measured)
    )
