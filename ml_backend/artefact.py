"""Model versions on disk: <models>/<task>/<version>/, there whole or not at all."""

import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ml_backend.card import card_of
from ml_backend.errors import ModelError
from ml_backend.hashing import file_sha256
from ml_backend.manifest import CARD, FILE, FileRecord, Manifest, read_manifest, version_of
from ml_backend.model_files import check_model_folder

__all__ = ["list_versions", "read_manifest", "verify", "version_folder", "write_version"]

UNFINISHED = ".writing-"
SECONDS_UNTIL_SWEPT = 24 * 60 * 60

log = logging.getLogger(__name__)


def write_version(models_root: Path, content: dict[str, Any], save: Callable[[Path], None]) -> tuple[Path, Manifest]:
    """Store a version: `content` is its manifest but for version and files, `save` writes the model into a folder.

    Nothing is visible before all of it is on the disk. A version that is there already stays as it is.
    """
    parent = models_root / str(content["task"])
    draft = parent / f"{UNFINISHED}{uuid.uuid4().hex}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        draft.mkdir()
        save(draft)
        manifest = _complete(draft, content)
        target = parent / manifest.version
        if not _moved(draft, target):
            return target, verify(target)
    except OSError as error:
        why = error.strerror or str(error)
        raise ModelError(f"cannot write a model below {models_root}: {why}; free the disk or its rights") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target, manifest


def verify(directory: Path) -> Manifest:
    """The manifest of a version whose every file is there, safe and to the byte what it says."""
    manifest = read_manifest(directory)
    check_model_folder(directory)
    there = {path.name: path for path in directory.iterdir() if path.name != FILE}
    if odd := sorted(there.keys() ^ manifest.files.keys()):
        raise ModelError(f"{directory / odd[0]} is missing or not in {FILE}; restore the folder or train again")
    for name, record in manifest.files.items():
        path = there[name]
        if path.is_symlink() or not path.is_file() or path.stat().st_size != record.size:
            raise ModelError(f"{path} is not the file that {FILE} describes; restore the folder or train again")
        if file_sha256(path) != record.sha256:
            raise ModelError(f"{path} was changed (its SHA-256 differs); restore the folder or train again")
    return manifest


def list_versions(models_root: Path, task: str | None = None) -> list[Manifest]:
    """The manifests of the versions, newest first; folders that are no version are told to the log and left out."""
    found = []
    for path in models_root.glob(f"*/*/{FILE}"):
        of_task, version = path.parent.parent.name, path.parent.name
        if of_task.startswith(".") or version.startswith(".") or (task is not None and of_task != task):
            continue
        try:
            manifest = read_manifest(path.parent)
        except ModelError as error:
            log.warning("left out of the models: %s", error)
            continue
        if (manifest.task, manifest.version) == (of_task, version):
            found.append(manifest)
        else:
            log.warning("left out of the models: %s is not where its name says", path.parent)
    return sorted(found, key=lambda manifest: (manifest.created_at, manifest.version), reverse=True)


def version_folder(models_root: Path, task: str, version: str | None = None) -> Path:
    """The folder of a task's version, by default of its newest."""
    known = [manifest.version for manifest in list_versions(models_root, task)]
    if not known:
        raise ModelError(f"task {task} has no model yet; `outfox model train {task}` makes one")
    if version is not None and version not in known:
        raise ModelError(f"task {task} has no model version {version}; `outfox model list {task}` shows them")
    return models_root / task / (version or known[0])


def _complete(draft: Path, content: dict[str, Any]) -> Manifest:
    files = {path.name: _record(path) for path in sorted(draft.iterdir())}
    described = {**content, "files": {name: record.model_dump() for name, record in files.items()}}
    manifest = Manifest.model_validate({**described, "version": version_of({"format": 1, **described})})
    (draft / CARD).write_text(card_of(manifest), encoding="utf-8")
    manifest = manifest.model_copy(update={"files": {**files, CARD: _record(draft / CARD)}})
    (draft / FILE).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    for path in draft.iterdir():
        # Some writers make files for their owner alone; a server may run as somebody else.
        path.chmod(0o644)
        flush(path)
    flush(draft)
    return manifest


def _record(path: Path) -> FileRecord:
    return FileRecord(sha256=file_sha256(path), size=path.stat().st_size)


def _moved(draft: Path, target: Path) -> bool:
    """Whether the draft became the target; False when the version was there before."""
    try:
        draft.rename(target)
    except OSError:
        if target.is_dir():
            return False
        raise
    flush(target.parent)
    return True


def flush(path: Path) -> None:
    """What was written to the file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(parent: Path) -> None:
    """Remove what a writer that was killed left behind, long after any writer could still be at it."""
    for path in parent.glob(f"{UNFINISHED}*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > SECONDS_UNTIL_SWEPT:
                shutil.rmtree(path, ignore_errors=True)
