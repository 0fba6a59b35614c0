"""Model versions as the database knows them: registered once, never changed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from ml_backend.manifest import CARD, Manifest
from round_manager.errors import DuplicateError, ModelVersionError
from round_manager.models import ModelVersion, Task
from templates import TaskSpec

__all__ = ["ModelVersionError", "check_fits", "data_of", "find_versions", "names_of", "register_version"]

LONGEST_CODE_VERSION = 80


def register_version(session: Session, task: Task, manifest: Manifest, uri: str, *, now: datetime) -> ModelVersion:
    """The version in the database; registered now if it was not, and refused where its files are others than then.

    Its parent is linked where that is registered already: register parents first.
    """
    if manifest.task != task.name:
        raise ModelVersionError(f"version {manifest.version} is of task {manifest.task}, not of {task.name}")
    found = _named(session, manifest.version)
    if found is None:
        try:
            with session.begin_nested():
                found = _row(session, task, manifest, uri, now)
                session.add(found)
        except DuplicateError:  # Another process registered it at this moment.
            found = _named(session, manifest.version)
    if found is None or found.sha256 != _sha256(manifest):
        raise ModelVersionError(f"version {manifest.version} was registered with other files; restore its folder")
    return found


def find_versions(session: Session, task: Task, names: Sequence[str]) -> list[ModelVersion]:
    """The task's registered versions of these names, in their order."""
    rows = session.scalars(select(ModelVersion).where(ModelVersion.task_id == task.id, ModelVersion.name.in_(names)))
    known = {row.name: row for row in rows}
    missing = [name for name in names if name not in known]
    if missing:
        raise ModelVersionError(f"version {missing[0]} of {task.name} is not registered; open a round against it first")
    return [known[name] for name in names]


def names_of(session: Session, ids: Sequence[int]) -> dict[int, str]:
    """The versions' names by their numbers."""
    rows = session.scalars(select(ModelVersion).where(ModelVersion.id.in_(ids)))
    return {row.id: row.name for row in rows}


def check_fits(spec: TaskSpec, manifest: Manifest) -> None:
    """A ModelVersionError where the model reads or answers something else than the task does."""
    cure = f"train it again with `outfox model train {spec.name}`"
    if manifest.kind != spec.kind or tuple(manifest.model_input) != spec.model_input:
        raise ModelVersionError(f"version {manifest.version} reads other fields than {spec.name} has now; {cure}")
    if set(manifest.labels) != set(spec.label_names):
        raise ModelVersionError(f"version {manifest.version} knows other labels than {spec.name} has now; {cure}")


def data_of(manifest: Manifest) -> dict[str, Any]:
    """What the version learned from, and where that came from where its manifest tells."""
    content = manifest.model_dump(mode="json")
    told = ("train", "held_out", "base", "base_sha256", *(["sources"] if manifest.sources else []))
    return {name: content[name] for name in told}


def _named(session: Session, name: str) -> ModelVersion | None:
    return session.scalar(select(ModelVersion).where(ModelVersion.name == name))


def _row(session: Session, task: Task, manifest: Manifest, uri: str, now: datetime) -> ModelVersion:
    content = manifest.model_dump(mode="json")
    data = data_of(manifest)
    parent = _named(session, manifest.parent) if manifest.parent else None
    return ModelVersion(
        task_id=task.id,
        name=manifest.version,
        parent_id=parent.id if parent else None,
        uri=uri,
        sha256=_sha256(manifest),
        files={name: record.sha256 for name, record in manifest.files.items()},
        data=data,
        data_sha256=json_sha256(data),
        settings={"mode": manifest.mode, "parent": manifest.parent, **content["training"]},
        metrics=dict(manifest.metrics),
        code_version=manifest.code_version[:LONGEST_CODE_VERSION],
        created_at=now,
    )


def _sha256(manifest: Manifest) -> str:
    # The card tells when it was written, so two equal trainings differ in it.
    files = {name: record.sha256 for name, record in manifest.files.items() if name != CARD}
    return json_sha256({"version": manifest.version, "files": files})
