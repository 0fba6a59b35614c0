"""Tables of frozen rounds as DataFrames."""

import base64
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from outfox.archives import RoundFiles, round_facts
from outfox.arguments import quoted
from outfox.errors import DataCorrupt, DataNotFound
from outfox.evaluation_records import headlines

# The key of DataFrame.attrs under which a frame keeps what an export needs to know.
ATTRS = "outfox"
# What Python, pandas and Arrow raise for values of an unexpected type.
VALUE_ERRORS = (
    TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, pa.ArrowException,
)  # fmt: skip
# A column's type follows from the archive and not from the rows: these types can have missing values.
TYPES = {pa.int32(): pd.Int64Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
# How many texts are checked at a time, and how many of their first bytes are looked at first.
PIECE_ROWS, PAGE_BYTES = 1 << 16, 1 << 12


def read_table(table: str, rounds: Sequence[RoundFiles], columns: list[str] | None, *, verify: bool) -> pd.DataFrame:
    """Return one table of all these rounds."""
    frames, schemas = [], []
    for one in rounds:
        with _open_table(table, one, columns, verify=verify) as (path, file, names):
            # `file` itself would read on one core; `partitioning=None` keeps folder names from becoming columns.
            frames.append(_to_frame(parquet.read_table(path, columns=names, partitioning=None), names))
            schemas.append(file.schema_arrow)
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    frame.attrs[ATTRS] = rounds[-1].about | _schema_as_text(schemas) | _rounds_as_text(rounds)
    return frame


def read_chunks(
    table: str, rounds: Sequence[RoundFiles], columns: list[str] | None, chunk: int, *, verify: bool
) -> Iterator[pd.DataFrame]:
    """Return the same rows in frames of at most `chunk` rows."""
    facts = _rounds_as_text(rounds)
    for one in rounds:
        with _open_table(table, one, columns, verify=verify) as (_, file, names):
            # Arrow limits the batch size; there are never more rows than those of the file.
            size = max(1, min(chunk, file.metadata.num_rows))
            for batch in file.iter_batches(batch_size=size, columns=names):
                frame = _to_frame(pa.Table.from_batches([batch]), names)
                frame.attrs[ATTRS] = one.about | _schema_as_text([file.schema_arrow]) | facts
                yield frame


@contextmanager
def values_of(table: str, source: RoundFiles, *, verify: bool) -> Iterator[None]:
    """Report values that no archive contains as corrupt data: an archive can come from anywhere."""
    try:
        yield
    except VALUE_ERRORS as error:
        raise DataCorrupt(f"{table}.parquet has invalid values; {source.remedy(verify=verify)}") from error


@contextmanager
def _open_table(
    table: str, source: RoundFiles, columns: list[str] | None, *, verify: bool
) -> Iterator[tuple[Path, parquet.ParquetFile, list[str]]]:
    """Open a table's file, and choose the columns to read."""
    path = source.file(table, verify=verify)
    try:
        with parquet.ParquetFile(path, pre_buffer=True) as file:
            available = file.schema_arrow.names
            for name in columns or ():
                if name not in available:
                    task = source.about["task"]
                    raise DataNotFound(f"{task} has no column {quoted(name)}, only {', '.join(available)}")
            yield path, file, available if columns is None else columns
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise DataCorrupt(f"{path} is corrupt and cannot be read; {source.remedy(verify=verify)}") from error


def _to_frame(table: pa.Table, names: list[str]) -> pd.DataFrame:
    # pandas does not check texts; invalid UTF-8 would raise wherever it is first used.
    pieces = [piece for column in table.columns for piece in _text_pieces(column)]
    with ThreadPoolExecutor(pa.cpu_count()) as threads:
        checks = (threads.map if table.num_rows > PIECE_ROWS else map)(_check_texts, pieces)
        # A file's own metadata could define an index, which would change the columns.
        frame = table.select(names).replace_schema_metadata().to_pandas(types_mapper=TYPES.get)
        for _ in checks:
            pass
    return frame


def _text_pieces(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Return a column's texts in pieces. Texts in lists are left out: pandas decodes those itself."""
    is_dictionary = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if is_dictionary else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        for chunk in column.chunks:
            texts = chunk.dictionary if is_dictionary else chunk
            yield from (texts.slice(start, PIECE_ROWS) for start in range(0, len(texts), PIECE_ROWS))


def _check_texts(texts: pa.Array) -> None:
    """Raise ArrowInvalid for invalid UTF-8. Most texts are ASCII, which is found much faster than Arrow validates."""
    _, offsets, content = texts.buffers()
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    first, last = np.frombuffer(offsets, width)[[texts.offset, texts.offset + len(texts)]]
    signed_bytes = np.frombuffer(b"" if content is None else content, np.int8)[first:last]
    # Text that is not ASCII mostly shows it on the first page.
    if signed_bytes[:PAGE_BYTES].min(initial=0) < 0 or signed_bytes.min(initial=0) < 0:
        texts.validate(full=True)


def _schema_as_text(schemas: Sequence[pa.Schema]) -> dict[str, str]:
    """Return the archives' schema as text, because pandas writes a frame's attributes as JSON."""
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):  # A column had another meaning in an earlier round.
        schema = schemas[-1]
    return {"schema": base64.b64encode(schema.remove_metadata().serialize()).decode()}


def _rounds_as_text(rounds: Sequence[RoundFiles]) -> dict[str, str]:
    """Return what data cards say about the rounds as text, which pandas copies at no cost with every new frame."""
    return {"rounds": json.dumps([{**round_facts(one.manifest), "evaluations": _headlines(one)} for one in rounds])}


def _headlines(one: RoundFiles) -> list[dict[str, Any]]:
    """Return the figures of models for a data card; examples can be read without them."""
    with suppress(DataCorrupt):
        record = one.record()
        return headlines(record) if record else []
    return []


def schema_from_text(text: str) -> pa.Schema:
    """Return the schema that a frame keeps in its attributes."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
