"""Reading many rows fast: plain values from the driver, or Arrow columns; the same on both databases."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import json as arrow_json
from sqlalchemy import BigInteger, ColumnElement, LargeBinary, Select, Text, cast, func, select, type_coerce
from sqlalchemy.orm import InstrumentedAttribute, Session

Column = ColumnElement[Any] | InstrumentedAttribute[Any]


class PlainRows:
    """Reads columns as they are stored: creating objects for a million rows would take longer than everything else."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sqlite = session.get_bind().dialect.name == "sqlite"

    def fetch(self, statement: Select[*tuple[Any, ...]]) -> list[Any]:
        """Return the rows as the driver has them; every column must be plain."""
        result = self._session.connection().execute(statement)
        rows = list(result.cursor.fetchall()) if result.cursor else []
        result.close()
        return rows

    def word(self, column: Column) -> Column:
        """Select a text or an enum value."""
        return type_coerce(column, Text)

    def hex(self, column: Column) -> Column:
        """Select an id as 32 hexadecimal digits."""
        return self.word(column) if self._sqlite else func.replace(cast(column, Text), "-", "")

    def json(self, column: Column) -> Column:
        """Select a JSON value as text; its spacing and key order depend on the database."""
        return self.word(column) if self._sqlite else cast(column, Text)

    def micros(self, column: Column) -> Column:
        """Select a time in microseconds since 1970."""
        if self._sqlite:
            return type_coerce(column, BigInteger)
        return cast(func.extract("epoch", column) * 1_000_000, BigInteger)


@dataclass(frozen=True)
class ColumnBatch:
    """Some rows: their plain values, and their JSON objects, one per line, `{}` for null."""

    values: pa.RecordBatch
    objects: dict[str, bytes]

    def __len__(self) -> int:
        return int(self.values.num_rows)

    def __getitem__(self, name: str) -> pa.Array:
        return self.values[name]


@dataclass(frozen=True)
class RawColumns:
    """Some rows as the database returned them, in UTF-8; parsing them can run in another thread."""

    schema: pa.Schema
    objects: Sequence[str]
    texts: Sequence[bytes]

    def __bool__(self) -> bool:
        return self.texts[0] not in (b"", b"[]")

    def last(self, name: str) -> Any:
        """Return a plain value of the last row; it must not contain a comma."""
        text = self.texts[self.schema.get_field_index(name)]
        return json.loads(b"[" + text[max(0, text.rfind(b",")) + 1 :])[0]

    def gathered(self) -> ColumnBatch:
        """Parse the rows."""
        names = self.schema.names
        members = [b'"%b":%b' % (name.encode(), text or b"[]") for name, text in zip(names, self.texts, strict=False)]
        schema = pa.schema([(one.name, pa.list_(one.type)) for one in self.schema])
        whole = parse_json_lines(b"{%b}" % b",".join(members), schema)
        columns = [whole[name].combine_chunks().flatten() for name in names]
        return ColumnBatch(
            pa.RecordBatch.from_arrays(columns, schema=self.schema),
            dict(zip(self.objects, self.texts[len(names) :], strict=True)),
        )


class ColumnReader:
    """Reads many rows at a time as Arrow columns, without blocking other threads."""

    def __init__(self, session: Session) -> None:
        self.plain = PlainRows(session)
        self._sqlite = session.get_bind().dialect.name == "sqlite"

    def ask(self, rows: Select[*tuple[Any, ...]], schema: pa.Schema, objects: Sequence[str] = ()) -> RawColumns:
        """Return the rows; the schema names their plain columns, `objects` those with JSON texts.

        Ordered rows keep their order only if they also have a limit: without one, a database may ignore the order
        when it aggregates. The plain columns must not contain fractions: SQLite would round them.
        """
        inner = rows.subquery()
        lists = [self._list(inner.c[name]) for name in schema.names]
        lines = [self._lines(inner.c[name]) for name in objects]
        (row,) = self.plain.fetch(select(*map(self._utf8, [*lists, *lines])))
        return RawColumns(schema, objects, [text.encode() if isinstance(text, str) else text or b"" for text in row])

    def fetch(self, rows: Select[*tuple[Any, ...]], schema: pa.Schema, objects: Sequence[str] = ()) -> ColumnBatch:
        """Return the parsed rows."""
        return self.ask(rows, schema, objects).gathered()

    def _list(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.json_group_array(column) if self._sqlite else cast(func.json_agg(column), Text)

    def _lines(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        each = func.coalesce(column, "{}")
        return func.group_concat(each, "\n") if self._sqlite else func.string_agg(each, "\n")

    def _utf8(self, text: ColumnElement[Any]) -> ColumnElement[Any]:
        # As bytes: SQLite stores UTF-8, and a Python string would have to be encoded again.
        return cast(text, LargeBinary) if self._sqlite else text


def parse_json_lines(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Parse JSON objects, one per line, into columns; missing keys become null."""
    if not lines:
        return schema.empty_table()
    return arrow_json.read_json(
        pa.BufferReader(lines),
        # One block: an object longer than a block would be refused at the border of two blocks.
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
