"""Rows read as columns: the database gathers them, beside other work, and no object is made for any of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import json as arrow_json
from sqlalchemy import ColumnElement, Select, Text, cast, func, select
from sqlalchemy.orm import Session

from round_manager.plain_rows import PlainRows


@dataclass(frozen=True)
class Gathered:
    """Some rows: their plain values, and their JSON objects, one to a line, `{}` where there is none."""

    values: pa.RecordBatch
    objects: dict[str, str]

    def __len__(self) -> int:
        return int(self.values.num_rows)

    def __getitem__(self, name: str) -> pa.Array:
        return self.values[name]


class Columnwise:
    """Reads many rows at a time; what it hands out is Arrow's, and was made without holding other threads up."""

    def __init__(self, session: Session) -> None:
        self.plain = PlainRows(session)
        self._sqlite = session.get_bind().dialect.name == "sqlite"

    def fetch(self, rows: Select[*tuple[Any, ...]], schema: pa.Schema, objects: Sequence[str] = ()) -> Gathered:
        """The rows; the schema names their plain columns, `objects` those of JSON texts.

        Rows with an order keep it if they have a limit too; without one, a database may forget the order of what it
        only gathers. No fraction may be among the plain columns: SQLite would round it on its way.
        """
        inner = rows.subquery()
        lists = [self._list(inner.c[name]) for name in schema.names]
        lines = [self._lines(inner.c[name]) for name in objects]
        (row,) = self.plain.fetch(select(*lists, *lines))
        members = (f'"{name}":{text or "[]"}' for name, text in zip(schema.names, row, strict=False))
        whole = parsed(f"{{{','.join(members)}}}", pa.schema([(one.name, pa.list_(one.type)) for one in schema]))
        columns = [whole[one.name].combine_chunks().flatten() for one in schema]
        texts = [text or "" for text in row[len(lists) :]]
        return Gathered(pa.RecordBatch.from_arrays(columns, schema=schema), dict(zip(objects, texts, strict=True)))

    def _list(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.json_group_array(column) if self._sqlite else cast(func.json_agg(column), Text)

    def _lines(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        each = func.coalesce(column, "{}")
        return func.group_concat(each, "\n") if self._sqlite else func.string_agg(each, "\n")


def parsed(lines: str, schema: pa.Schema) -> pa.Table:
    """JSON objects, one to a line, as columns, with null for what an object lacks; their spacing and order are gone."""
    if not lines:
        return schema.empty_table()
    content = lines.encode()
    return arrow_json.read_json(
        pa.BufferReader(content),
        # One block: an object on the border of two would be refused where it is longer than a block.
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
