"""The tables of an imported round, written in batches while its rows are read."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from outfox.imports.rows import ImportedRow
from outfox.schemas import TEXT, TableSchemas
from outfox.table_files import ArchiveFiles, FileEntry

BATCH = 5_000
SOURCE = "import"
NUMBER = pa.int64()


class RoundTables:
    """Writes the rows of one round to a folder. Use it as a context manager, which closes its files."""

    def __init__(self, folder: Path, number: int, schemas: TableSchemas) -> None:
        folder.mkdir(parents=True)
        self._number = number
        self._schemas = schemas
        self._files = ArchiveFiles(folder)
        self._examples = self._files.table("examples", schemas.examples)
        self._votes = self._files.table("votes", schemas.votes)
        self._rows: list[ImportedRow] = []
        self._models: dict[str, int] = {}
        # The numbers of examples by status and by whether they fooled the model, and of votes that are alike.
        self.tallies: Counter[tuple[str, bool | None]] = Counter()
        self.cast: Counter[tuple[str, ...]] = Counter()
        self.parts: Counter[str | None] = Counter()
        self.splits: Counter[str | None] = Counter()
        self.votes_differ = 0

    def add(self, row: ImportedRow) -> None:
        """Add a row; complete batches are written in the background."""
        self._rows.append(row)
        if len(self._rows) >= BATCH:
            self._write()

    def finish(self) -> tuple[dict[str, FileEntry], list[dict[str, Any]]]:
        """Write the rest; return the entries of all files, and the models for the manifest."""
        self._write()
        self._files.add(self._examples, self._votes)
        for name in ("attempts", "contexts"):
            self._files.write(name, getattr(self._schemas, name), [])
        models = [
            {"version": name, "round": self._number, "rank": rank, "files": "{}", "data": "{}", "settings": "{}",
             "metrics": "{}"}
            for name, rank in self._models.items()
        ]  # fmt: skip
        self._files.write("models", self._schemas.models, [pa.RecordBatch.from_pylist(models, self._schemas.models)])
        named = [{"version": name, "rank": rank, "sha256": None} for name, rank in self._models.items()]
        return self._files.entries, named

    def close(self) -> None:
        """Close all files."""
        self._files.__exit__()

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._count(rows)
            votes = _votes(rows, self._schemas, self._number)
            self._examples.write(_examples(rows, votes, self._schemas, self._number))
            self._votes.write(votes)

    def _count(self, rows: Sequence[ImportedRow]) -> None:
        self.tallies.update([(row.status, row.fooled) for row in rows])
        self.parts.update([row.published_split for row in rows])
        self.splits.update([row.split for row in rows])
        for name in dict.fromkeys([row.model for row in rows if row.model is not None]):
            self._models.setdefault(name, len(self._models))
        cast: Counter[tuple[str | None, tuple[str, ...]]] = Counter()
        for row in rows:
            if row.votes:
                said = [one.value for one in row.votes if one.value is not None]
                if self._schemas.is_qa:
                    cast["gold", tuple(sorted(["gold" if one == row.gold else "other" for one in said]))] += 1
                else:
                    cast[row.gold, tuple(sorted(said))] += 1
        # There are few different votes, so that each is looked at once.
        for (gold, votes), number in cast.items():
            self.cast[votes] += number
            self.votes_differ += number * differs(votes, gold)


class PredictionFiles:
    """Writes what published models predicted on held-out rows: a Parquet file per model, with `id` and `prediction`.

    `outfox evaluate` reads such files. `round` is the round of the row.
    """

    SCHEMA = pa.schema([("id", TEXT), ("round", pa.int32()), ("prediction", TEXT)])

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, parquet.ParquetWriter] = {}
        self._rows: dict[str, list[tuple[str, int, str]]] = {}
        self._paths: dict[str, Path] = {}
        self.counts: Counter[str] = Counter()

    def add(self, row: ImportedRow, number: int) -> None:
        """Add the predictions of a row."""
        for model, prediction in row.predictions.items():
            rows = self._rows.setdefault(model, [])
            rows.append((row.id, number, prediction))
            self.counts[model] += 1
            if len(rows) >= BATCH:
                self._write(model)

    def finish(self) -> dict[str, Path]:
        """Write the rest; return the file of each model."""
        for model in sorted(self._rows):
            self._write(model)
        self.close()
        return dict(sorted(self._paths.items()))

    def close(self) -> None:
        """Close all files."""
        for writer in self._writers.values():
            writer.close()

    def _write(self, model: str) -> None:
        rows, self._rows[model] = self._rows[model], []
        if model not in self._writers:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writers[model] = parquet.ParquetWriter(self._path(model), self.SCHEMA)
        if rows:
            columns = zip(zip(*rows, strict=True), self.SCHEMA, strict=True)
            arrays = [pa.array(list(values), column.type) for values, column in columns]
            self._writers[model].write_batch(pa.RecordBatch.from_arrays(arrays, schema=self.SCHEMA))

    def _path(self, model: str) -> Path:
        """Return the model's file; two names that become the same file name get a number."""
        if model not in self._paths:
            safe = "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "_" for one in model[:80])
            name, taken = safe.lstrip(".") or "model", {path.stem for path in self._paths.values()}
            same = sum(other == name or other.startswith(f"{name}~") for other in taken)
            self._paths[model] = self._folder / f"{name}{f'~{same + 1}' if same else ''}.parquet"
        return self._paths[model]


def _examples(rows: Sequence[ImportedRow], votes: pa.RecordBatch, schemas: TableSchemas, number: int) -> pa.RecordBatch:
    values: dict[str, Any] = {
        **_texts(rows, "id", "context", "model", "prediction", "status", "split", "author"),
        **_texts(rows, "published_split", "original"),
        "confidence": pa.array([row.confidence for row in rows], pa.float64()),
        "fooled": pa.array([row.fooled for row in rows], pa.bool_()),
        "verdicts": _verdicts(rows, schemas),
        **_target(rows, schemas, "author_label", "author_start", ""),
        **_target(rows, schemas, "gold", "gold_start", "gold_"),
        "votes": _inside(rows, votes, schemas),
        "source": pa.repeat(pa.scalar(SOURCE), len(rows)),
    }
    for name, column in (*schemas.written, *schemas.reasons):
        values[column] = pa.array([row.fields.get(name) for row in rows], TEXT)
    for place, column in enumerate(schemas.imported or ()):
        values[column] = pa.array([row.kept[place] for row in rows], TEXT)
    return _table(schemas.examples, len(rows), number, values)


def _votes(rows: Sequence[ImportedRow], schemas: TableSchemas, number: int) -> pa.RecordBatch:
    cast = [(row.id, one) for row in rows for one in row.votes]
    votes = [one for _, one in cast]
    values: dict[str, Any] = {
        "example": pa.array([own for own, _ in cast], TEXT),
        "worker": pa.array([one.worker for one in votes], TEXT),
        "flag": pa.array([one.flag for one in votes], TEXT),
        "source": pa.repeat(pa.scalar(SOURCE), len(votes)),
    }
    if schemas.is_qa:
        values["answer"] = pa.array([one.value for one in votes], TEXT)
        values["answer_start"] = pa.array([one.start for one in votes], NUMBER)
    else:
        values["label"] = pa.array([one.value for one in votes], TEXT)
    return _table(schemas.votes, len(votes), number, values)


def _inside(rows: Sequence[ImportedRow], votes: pa.RecordBatch, schemas: TableSchemas) -> pa.Array:
    """Return the votes as lists, one per row."""
    arrays = [votes.column(one.name) for one in schemas.vote]
    ends = np.concatenate([[0], np.cumsum([len(row.votes) for row in rows])])
    items = pa.StructArray.from_arrays(arrays, fields=list(schemas.vote))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, type=pa.list_(schemas.vote))


def _verdicts(rows: Sequence[ImportedRow], schemas: TableSchemas) -> pa.Array:
    """Return what the model said as lists of one verdict, or of none."""
    told = [row for row in rows if row.prediction is not None]
    columns: dict[str, pa.Array] = {
        "version": pa.array([row.model for row in told], TEXT),
        "prediction": pa.array([row.prediction for row in told], TEXT),
        "confidence": pa.array([row.confidence for row in told], pa.float64()),
        "fooled": pa.array([row.fooled for row in told], pa.bool_()),
    }
    if not schemas.is_qa:
        kind = schemas.said.field("probabilities").type
        shares = [[(row.probabilities or {}).get(name) for row in told] for name in schemas.labels]
        columns["probabilities"] = pa.StructArray.from_arrays(
            [pa.array(one, pa.float64()) for one in shares],
            fields=list(kind),
            mask=pa.array([row.probabilities is None for row in told], pa.bool_()),
        )
    items = pa.StructArray.from_arrays([columns[one.name] for one in schemas.said], fields=list(schemas.said))
    ends = np.concatenate([[0], np.cumsum([row.prediction is not None for row in rows])])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, type=pa.list_(schemas.said))


def _target(
    rows: Sequence[ImportedRow], schemas: TableSchemas, name: str, start: str, prefix: str
) -> dict[str, pa.Array]:
    texts = pa.array([getattr(row, name) for row in rows], TEXT)
    if not schemas.is_qa:
        return {f"{prefix}label": texts}
    starts = pa.array([getattr(row, start) for row in rows], NUMBER)
    return {f"{prefix}answer": texts, f"{prefix}answer_start": starts}


def _texts(rows: Sequence[ImportedRow], *names: str) -> dict[str, pa.Array]:
    return {name: pa.array([getattr(row, name) for row in rows], TEXT) for name in names}


def _table(schema: pa.Schema, rows: int, number: int, values: dict[str, Any]) -> pa.RecordBatch:
    values["round"] = pa.repeat(pa.scalar(number, pa.int32()), rows)
    return pa.RecordBatch.from_arrays(
        [values[one.name] if one.name in values else pa.nulls(rows, one.type) for one in schema], schema=schema
    )


def differs(said: Iterable[str], gold: str | None) -> bool:
    """Return whether more than half of the votes are for another label than the published one."""
    counts = Counter(said)
    if not counts:
        return False
    label, most = counts.most_common(1)[0]
    return most * 2 > counts.total() and label != gold
