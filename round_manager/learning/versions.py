"""Model versions in the database: registered once, never changed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.errors import Hint
from ml_backend.hashing import json_sha256
from ml_backend.manifest import CARD, Manifest
from round_manager.errors import DuplicateError, ModelVersionChanged, ModelVersionMismatch, ModelVersionNotFound
from round_manager.models import ModelVersion, Task
from templates import TaskSpec

MAX_CODE_VERSION = 80


def register_version(session: Session, task: Task, manifest: Manifest, uri: str, *, now: datetime) -> ModelVersion:
    """Return the version's row, registered now if it was not; raise ModelVersionChanged if its files differ.

    Its parent is linked where it is registered already: register parents first.
    """
    if manifest.task != task.name:
        raise ModelVersionMismatch(f"version {manifest.version} belongs to task {manifest.task}, not to {task.name}")
    found = _named(session, manifest.version)
    if found is None:
        try:
            with session.begin_nested():
                found = _row(session, task, manifest, uri, now)
                session.add(found)
        except DuplicateError:  # Another process registered it at the same moment.
            found = _named(session, manifest.version)
    if found is None or found.sha256 != _sha256(manifest):
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
    rows = session.scalars(select(ModelVersion).where(ModelVersion.id.in_(ids)))
    return {row.id: row.name for row in rows}


def check_fits(spec: TaskSpec, manifest: Manifest) -> None:
    """Raise ModelVersionMismatch where the model reads other fields or predicts other labels than the task has."""
    hint = Hint("train_model", task=spec.name)
    if manifest.kind != spec.kind or tuple(manifest.model_input) != spec.model_input:
        raise ModelVersionMismatch(f"version {manifest.version} reads other fields than {spec.name} has now", hint=hint)
    if set(manifest.labels) != set(spec.label_names):
        raise ModelVersionMismatch(f"version {manifest.version} has other labels than {spec.name} has now", hint=hint)


def data_of(manifest: Manifest) -> dict[str, Any]:
    """Return the record of the rows that the version was trained on, with their sources where known."""
    content = manifest.model_dump(mode="json")
    names = ("train", "held_out", "base", "base_sha256", *(["sources"] if manifest.sources else []))
    return {name: content[name] for name in names}


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
        code_version=manifest.code_version[:MAX_CODE_VERSION],
        created_at=now,
    )


def _sha256(manifest: Manifest) -> str:
    # The card contains the time of writing, so two equal trainings differ in it.
    files = {name: record.sha256 for name, record in manifest.files.items() if name != CARD}
    return json_sha256({"version": manifest.version, "files": files})
