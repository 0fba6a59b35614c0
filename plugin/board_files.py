"""Tables of a leaderboard as files: CSV that is safe to open in a spreadsheet, and Parquet."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv, parquet

from round_manager.archive.csv_cache import csv_cells

# pandas takes a while to import, and a web app that shows no leaderboard does not need it.
if TYPE_CHECKING:
    import pandas as pd

FORMS = ("csv", "parquet")


def write_frame(frame: pd.DataFrame, form: str) -> bytes:
    """Return the content of a file with a frame."""
    # The names of columns include those of data sets; attributes can hold what is no text or number.
    named = frame.set_axis([str(name) for name in frame], axis=1)
    named.attrs = {}
    found = pa.Table.from_pandas(named, preserve_index=False)
    out = BytesIO()
    if form == "parquet":
        parquet.write_table(found, out)
    else:
        names = csv_cells(pa.table({"name": pa.array(found.column_names, pa.string())}))["name"].to_pylist()
        cells = [csv_cells(pa.table({"cell": _text(column)}))["cell"] for column in found.columns]
        csv.write_csv(pa.Table.from_arrays(cells, names=names), out)
    return out.getvalue()


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of any type of text as plain strings, which are checked for formulas."""
    kind = column.type
    is_text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return column.cast(pa.string()) if is_text else column
