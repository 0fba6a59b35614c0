"""Examples as files in the form of a known data set; a folder gets all files of an export, or none."""

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from outfox.arguments import checked_folder, missing, quoted, reason
from outfox.errors import ExportNotWritten, InvalidArgument, NotExportable
from outfox.exports.forms import FORMS
from outfox.frames import ATTRS, VALUE_ERRORS

# A split becomes a file name, and an archive can come from anywhere.
SPLIT = re.compile(r"[A-Za-z0-9_-]{1,64}")


def checked_target(form: Any, to: Any) -> tuple[str, Path]:
    """Return the form and the folder of an export."""
    if not isinstance(form, str) or form not in FORMS:
        raise InvalidArgument(f"`form` must be one of {', '.join(sorted(FORMS))}, not {quoted(form)}")
    return form, checked_folder("to", to, "data")


def export_frame(frame: pd.DataFrame, form: str, folder: Path) -> list[Path]:
    """Write all rows that have a split into the folder, and return the files."""
    about = frame.attrs.get(ATTRS)
    if not isinstance(about, dict):
        raise NotExportable("this DataFrame does not know its task; export one that `outfox.load` returned")
    try:
        rows = _rows_with_split(frame, about)
        with all_or_nothing(folder) as draft:
            files = FORMS[form](rows, about, draft)
    except KeyError as error:
        raise NotExportable(f"this DataFrame {missing(error, 'column')}; export one with all columns") from error
    except OSError as error:
        remedy = "choose another folder, or free some disk space"
        raise ExportNotWritten(f"cannot write {folder}{reason(error)}; {remedy}") from error
    except VALUE_ERRORS as error:
        raise NotExportable(
            f"this DataFrame has values that do not fit the form {form}; export one as `outfox.load` returned it"
        ) from error
    return [folder / file.name for file in files]


def _rows_with_split(frame: pd.DataFrame, about: dict[str, Any]) -> pd.DataFrame:
    rows = frame[frame["split"].notna()]
    if rows.empty:
        raise NotExportable(f"no example of {about['task']} here has a split; only verified examples have one")
    for split in rows["split"].unique():
        if not SPLIT.fullmatch(str(split)):
            raise NotExportable(f"{quoted(split)} is not a valid split; use letters, digits, - and _")
    return rows


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
