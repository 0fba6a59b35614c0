"""Model versions on disk, in <models>/<task>/<version>/. A version becomes visible only when it is complete."""

import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from common.errors import Hint
from ml_backend.errors import ModelError, ModelFileCorrupt, ModelFileNotWritable, ModelNotFound
from ml_backend.hashing import file_sha256
from ml_backend.manifest import (
    CARD,
    FILE,
    FileRecord,
    Manifest,
    TrainedManifest,
    card_of,
    read_manifest,
    trained_only,
    version_of,
)

__all__ = ["list_versions", "read_manifest", "verify", "version_folder", "write_version"]

UNFINISHED = ".writing-"
DRAFT_LIFETIME_SECONDS = 24 * 60 * 60

log = logging.getLogger(__name__)


def write_version(
    models_root: Path, content: dict[str, Any], save: Callable[[Path], None]
) -> tuple[Path, TrainedManifest]:
    """Store a trained version: `content` is its manifest without version and files, `save` writes the model's files.

    Nothing is visible until everything is on disk. An existing version is left unchanged.
    """

    def fill(draft: Path) -> str:
        save(draft)
        return _complete(draft, content)

    try:
        target = install(models_root / str(content["task"]), fill)
    except OSError as error:
        raise ModelFileNotWritable(
            f"cannot write a model below {models_root}: {error.strerror or error}; check disk space and permissions"
        ) from error
    return target, trained_only(read_manifest(target))


def install(parent: Path, fill: Callable[[Path], str]) -> Path:
    """Fill a draft folder, flush it to disk and rename it to the name that `fill` returns.

    If the folder exists already, or another process installs it first, that copy is verified and kept.
    """
    draft = parent / f"{UNFINISHED}{uuid.uuid4().hex}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        draft.mkdir()
        target = parent / fill(draft)
        for path in (*draft.iterdir(), draft):
            flush(path)
        try:
            draft.rename(target)
        except OSError:
            if not target.is_dir():
                raise
            verify(target)
        else:
            flush(parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def verify(directory: Path) -> Manifest:
    """Return the manifest of a version, after a check that every file is present, safe and unchanged."""
    manifest = read_manifest(directory)
    manifest.check_folder(directory)
    present = {path.name: path for path in directory.iterdir() if path.name != FILE}
    if odd := sorted(present.keys() ^ manifest.files.keys()):
        raise ModelFileCorrupt(f"{directory / odd[0]} is missing or not in {FILE}; restore the folder or train again")
    for name, record in manifest.files.items():
        path = present[name]
        if path.is_symlink() or not path.is_file() or path.stat().st_size != record.size:
            raise ModelFileCorrupt(f"{path} is not the file that {FILE} describes; restore the folder or train again")
        if file_sha256(path) != record.sha256:
            raise ModelFileCorrupt(f"{path} was changed (its SHA-256 differs); restore the folder or train again")
    return manifest


def list_versions(models_root: Path, task: str | None = None) -> list[TrainedManifest]:
    """Return the manifests of the versions that were trained here, newest first; invalid folders are logged."""
    found = []
    for path in models_root.glob(f"*/*/{FILE}"):
        of_task, version = path.parent.parent.name, path.parent.name
        if of_task.startswith(".") or version.startswith(".") or (task is not None and of_task != task):
            continue
        try:
            manifest = read_manifest(path.parent)
        except ModelError as error:
            log.warning("ignoring an invalid model folder: %s", error)
            continue
        if (manifest.task, manifest.version) != (of_task, version):
            log.warning("ignoring %s: its name does not match its manifest", path.parent)
        elif isinstance(manifest, TrainedManifest):
            found.append(manifest)
    return sorted(found, key=lambda manifest: (manifest.created_at, manifest.version), reverse=True)


def version_folder(models_root: Path, task: str, version: str | None = None) -> Path:
    """Return the folder of a task's version, by default of its newest."""
    known = [manifest.version for manifest in list_versions(models_root, task)]
    if not known:
        raise ModelNotFound(f"task {task} has no model yet", hint=Hint("train_model", task=task))
    if version is not None and version not in known:
        raise ModelNotFound(f"task {task} has no model version {version}", hint=Hint("list_models", task=task))
    return models_root / task / (version or known[0])


def _complete(draft: Path, content: dict[str, Any]) -> str:
    """Write the card and the manifest; return the version's id."""
    files = {path.name: _record(path) for path in sorted(draft.iterdir())}
    described = {"format": 1, **content, "files": {name: record.model_dump() for name, record in files.items()}}
    version = version_of(described)
    manifest = TrainedManifest.model_validate({**described, "version": version})
    (draft / CARD).write_text(card_of(manifest), encoding="utf-8")
    manifest = manifest.model_copy(update={"files": {**files, CARD: _record(draft / CARD)}})
    (draft / FILE).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    for path in draft.iterdir():
        # Some writers make files private to their owner; a server may run as another user.
        path.chmod(0o644)
    return version


def _record(path: Path) -> FileRecord:
    return FileRecord(sha256=file_sha256(path), size=path.stat().st_size)


def flush(path: Path) -> None:
    """Flush a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(parent: Path) -> None:
    """Remove drafts that killed writers left behind, once no writer can still be using them."""
    for path in parent.glob(f"{UNFINISHED}*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > DRAFT_LIFETIME_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
