"""Rows read as columns: the database gathers them, beside other work, and no object is made for any of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import json as arrow_json
from sqlalchemy import ColumnElement, LargeBinary, Select, Text, cast, func, select
from sqlalchemy.orm import Session

from round_manager.plain_rows import PlainRows


@dataclass(frozen=True)
class Gathered:
    """Some rows: their plain values, and their JSON objects, one to a line, `{}` where there is none."""

    values: pa.RecordBatch
    objects: dict[str, bytes]

    def __len__(self) -> int:
        return int(self.values.num_rows)

    def __getitem__(self, name: str) -> pa.Array:
        return self.values[name]


@dataclass(frozen=True)
class Answered:
    """Some rows as the database told them, in UTF-8; what is left to do needs no database, so it is done beside it."""

    schema: pa.Schema
    objects: Sequence[str]
    told: Sequence[bytes]

    def __bool__(self) -> bool:
        return self.told[0] not in (b"", b"[]")

    def last(self, name: str) -> Any:
        """A plain value of the last row; no comma may be in it."""
        text = self.told[self.schema.get_field_index(name)]
        return json.loads(b"[" + text[max(0, text.rfind(b",")) + 1 :])[0]

    def gathered(self) -> Gathered:
        """The rows."""
        names = self.schema.names
        members = [b'"%b":%b' % (name.encode(), text or b"[]") for name, text in zip(names, self.told, strict=False)]
        schema = pa.schema([(one.name, pa.list_(one.type)) for one in self.schema])
        whole = parsed(b"{%b}" % b",".join(members), schema)
        columns = [whole[name].combine_chunks().flatten() for name in names]
        return Gathered(
            pa.RecordBatch.from_arrays(columns, schema=self.schema),
            dict(zip(self.objects, self.told[len(names) :], strict=True)),
        )


class Columnwise:
    """Reads many rows at a time; what it hands out is Arrow's, and was made without holding other threads up."""

    def __init__(self, session: Session) -> None:
        self.plain = PlainRows(session)
        self._sqlite = session.get_bind().dialect.name == "sqlite"

    def ask(self, rows: Select[*tuple[Any, ...]], schema: pa.Schema, objects: Sequence[str] = ()) -> Answered:
        """The rows; the schema names their plain columns, `objects` those of JSON texts.

        Rows with an order keep it if they have a limit too; without one, a database may forget the order of what it
        only gathers. No fraction may be among the plain columns: SQLite would round it on its way.
        """
        inner = rows.subquery()
        lists = [self._list(inner.c[name]) for name in schema.names]
        lines = [self._lines(inner.c[name]) for name in objects]
        (told,) = self.plain.fetch(select(*map(self._utf8, [*lists, *lines])))
        return Answered(schema, objects, [text.encode() if isinstance(text, str) else text or b"" for text in told])

    def fetch(self, rows: Select[*tuple[Any, ...]], schema: pa.Schema, objects: Sequence[str] = ()) -> Gathered:
        """The same, at once."""
        return self.ask(rows, schema, objects).gathered()

    def _list(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.json_group_array(column) if self._sqlite else cast(func.json_agg(column), Text)

    def _lines(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        each = func.coalesce(column, "{}")
        return func.group_concat(each, "\n") if self._sqlite else func.string_agg(each, "\n")

    def _utf8(self, text: ColumnElement[Any]) -> ColumnElement[Any]:
        # As SQLite has it: a text would be made from it, and made into this again.
        return cast(text, LargeBinary) if self._sqlite else text


def parsed(lines: bytes, schema: pa.Schema) -> pa.Table:
    """JSON objects, one to a line, as columns, with null for what an object lacks; their spacing and order are gone."""
    if not lines:
        return schema.empty_table()
    return arrow_json.read_json(
        pa.BufferReader(lines),
        # One block: an object on the border of two would be refused where it is longer than a block.
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
