"""An archive's tables as they are read back: some rows at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from round_manager.archive.columns import Columns
from round_manager.archive.duplicates import Written
from round_manager.archive.splitting import written
from round_manager.examples.submissions import content_sha256
from round_manager.models import ExampleStatus
from templates import TaskSpec

BATCH = 10_000


def batches(folder: Path, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """A table's rows in their order."""
    with parquet.ParquetFile(folder / f"{table}.parquet") as file:
        yield from file.iter_batches(batch_size=BATCH, columns=None if columns is None else list(columns))


class ArchivedTexts:
    """The verified examples of a round in an archive."""

    def __init__(self, folder: Path, spec: TaskSpec) -> None:
        self._folder = folder
        self._columns = Columns(spec)

    def batches(self) -> Iterator[Written]:
        """In the archive's order, which is that of their ids."""
        spec = self._columns.spec
        names = {name: column for name, column in self._columns.written if name in spec.model_input}
        for batch in batches(self._folder, "examples", ["id", "author", "status", *names.values()]):
            some = batch.filter(pa.compute.equal(batch.column("status"), ExampleStatus.VERIFIED.value))
            if some.num_rows == 0:
                continue
            texts = {name: some.column(column) for name, column in names.items()}
            rows = pa.RecordBatch.from_pydict(texts).to_pylist()
            contents = [content_sha256(spec, row) for row in rows]
            ids, authors = some.column("id").to_pylist(), some.column("author").to_pylist()
            yield written(self._columns, ids, authors, contents, texts)


class Following:
    """A table's rows, taken as many at a time as another table asks for."""

    def __init__(self, folder: Path, table: str, schema: pa.Schema) -> None:
        self._batches = batches(folder, table, schema.names)
        self._rest = pa.table(schema.empty_table())

    def take(self, count: int) -> pa.Table:
        """The next rows; fewer where the table ends."""
        while self._rest.num_rows < count and (batch := next(self._batches, None)) is not None:
            self._rest = pa.concat_tables([self._rest, pa.Table.from_batches([batch])])
        taken, self._rest = self._rest.slice(0, count), self._rest.slice(count)
        return taken
