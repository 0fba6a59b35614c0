"""Examples as files in the form of a known data set."""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from outfox.arguments import checked_folder, missing, quoted, reason
from outfox.errors import ExportNotWritten, InvalidArgument, NotExportable
from outfox.exports.folder import all_or_nothing
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
