"""A folder that gets all files of an export, or none."""

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def all_or_nothing(folder: Path) -> Iterator[Path]:
    """Provide a draft folder, whose files are moved into `folder` at the end; after an error nothing has changed."""
    exists = folder.is_dir()
    if folder.exists() and not exists:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    new_parents = [parent for parent in (folder.parent, *folder.parent.parents) if not parent.exists()]
    # Inside an existing folder: it may be a separate disk, or the only writable place.
    draft = (folder if exists else folder.parent) / f".{uuid.uuid4().hex}"
    try:
        for parent in reversed(new_parents):
            parent.mkdir(exist_ok=True)
        draft.mkdir()
        yield draft
        if exists:
            _move_files(draft, folder)
            draft.rmdir()
        else:
            draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        for parent in new_parents:
            with suppress(OSError):  # Another process may have put something there.
                parent.rmdir()
        raise


def _move_files(draft: Path, folder: Path) -> None:
    """Move the draft's files into the folder; if one cannot be moved, restore those that were replaced."""
    files, placed = sorted(draft.iterdir()), []
    # Not in the draft, which is deleted after an error: the replaced files must survive.
    replaced = draft.with_name(f"{draft.name}-before")
    replaced.mkdir()
    try:
        for file in files:
            target = folder / file.name
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with suppress(FileNotFoundError):
                target.rename(replaced / file.name)
        for file in files:
            file.rename(folder / file.name)
            placed.append(folder / file.name)
    except BaseException:
        for target in placed:
            target.unlink()
        for old in replaced.iterdir():
            old.rename(folder / old.name)
        replaced.rmdir()
        raise
    shutil.rmtree(replaced, ignore_errors=True)
