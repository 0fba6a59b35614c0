"""How a version comes into a folder: hashes checked, on the disk, and then visible in one step."""

import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from ml_backend.artefact import UNFINISHED, flush, sweep, verify
from ml_backend.registry.errors import RegistryError


def arrive(target: Path, fill: Callable[[Path], None]) -> Path:
    """The folder `target`, filled, checked and made visible; another process may have been faster."""
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
        why = error.strerror or str(error)
        raise RegistryError(f"cannot write {target}: {why}; free the disk or its rights") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def discard(directory: Path) -> None:
    """The folder is there no more, gone in one step."""
    aside = directory.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
    try:
        directory.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise RegistryError(f"cannot remove {directory}, which is spoiled: {error.strerror}; remove it") from error


def replace_file(path: Path, content: bytes, *, durable: bool) -> None:
    """The file holds the content, or what it held before; whoever reads it sees one of the two, whole."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            # The kernel's own clock is coarse: two quick changes could have the same time.
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
