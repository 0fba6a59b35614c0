"""Atomic changes of files and folders: another process sees the old content or the new one, never a part."""

import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from ml_backend.artefact import UNFINISHED, flush, sweep, verify
from ml_backend.registry.errors import RegistryNotWritable


def install_folder(target: Path, fill: Callable[[Path], None]) -> Path:
    """Fill a draft folder, verify its hashes, flush it to disk and rename it to `target`.

    If another process installs the same folder first, its copy is verified and kept.
    """
    parent = target.parent
    draft = parent / f"{UNFINISHED}{uuid.uuid4().hex}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        draft.mkdir()
        fill(draft)
        verify(draft)
        for path in (*draft.iterdir(), draft):
            flush(path)
        _move(draft, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RegistryNotWritable(f"cannot write {target}: {reason}; check free space and permissions") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def remove_folder(directory: Path) -> None:
    """Remove a folder; it disappears in one step."""
    aside = directory.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
    try:
        directory.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise RegistryNotWritable(
            f"cannot remove the corrupt folder {directory}: {error.strerror}; remove it"
        ) from error


def replace_file(path: Path, content: bytes, *, durable: bool) -> None:
    """Replace a file's content; with `durable`, flush it to disk first."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            # The kernel's clock is coarse: two quick changes could get the same modification time.
            now = time.time_ns()
            os.utime(file.fileno(), ns=(now, now))
            if durable:
                os.fsync(file.fileno())
        draft.replace(path)
        if durable:
            flush(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _move(draft: Path, target: Path) -> None:
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        verify(target)
    else:
        flush(target.parent)
