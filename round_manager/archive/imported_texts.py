"""The texts of imported rounds in the index of known texts, so that later examples are compared with them.

They are added in batches, each in a short transaction with the number of rows that are done: other processes can write
in between, and after a kill the next call continues. A round opens only when all of them are known.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from sqlalchemy import select
from sqlalchemy.orm import Session

from common.progress import NoProgress, Progress
from outfox.columns import OWN_COLUMNS
from outfox.imports.tables import BATCH
from round_manager.archive.imported_rounds import ImportedFigures
from round_manager.archive.reader import open_source
from round_manager.database.store import Store
from round_manager.models import Round, Task, spec_of
from round_manager.novelty.known_texts import IMPORTED, lock_texts
from round_manager.novelty.known_texts_bulk import add_in_bulk
from round_manager.novelty.measure import measured_examples
from templates import TaskSpec

EXAMPLES = "examples.parquet"


def unknown_rounds(session: Session, task: Task) -> list[Round]:
    """Return the imported rounds whose texts are not all known yet."""
    wanted = select(Round).where(Round.task_id == task.id, Round.texts_known.is_not(None)).order_by(Round.number)
    return [one for one in session.scalars(wanted) if (one.texts_known or 0) < ImportedFigures.of(one).rows]


def add_imported_texts(store: Store, task_name: str, rounds: list[Round], progress: Progress | None = None) -> int:
    """Add the texts that are missing in the index; return how many rows that were. Safe to repeat and to run twice."""
    shown, added = progress or NoProgress(), 0
    for one in rounds:
        left = ImportedFigures.of(one).rows - (one.texts_known or 0)
        shown.start(left, f"comparing later texts with round {one.number} of {task_name}")
        for first, batch in _batches(one):
            added += _add(store, one, first, batch)
            shown.advance(batch.num_rows)
        shown.finish()
    return added


def _batches(round: Round) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows that are not known yet, with the place of the first one."""
    source = open_source(str(round.archive_uri))
    entry = source.manifest().files[EXAMPLES]
    with source.local(EXAMPLES, entry) as path:
        place, done = 0, round.texts_known or 0
        for batch in _written_columns(path, spec_of(round)):
            if place + batch.num_rows > done:
                skipped = max(0, done - place)
                yield place + skipped, batch.slice(skipped)
            place += batch.num_rows


def _written_columns(path: Path, spec: TaskSpec) -> Iterator[pa.RecordBatch]:
    with parquet.ParquetFile(path) as file:
        there = set(file.schema_arrow.names)
        columns = {_column(name, there): name for name in spec.model_input}
        for batch in file.iter_batches(batch_size=BATCH, columns=["id", *columns]):
            ordered = batch.select(["id", *columns])
            yield ordered.rename_columns(["id", *(f"field {name}" for name in columns.values())])


def _column(field: str, there: set[str]) -> str:
    renamed = f"field_{field}"
    return renamed if renamed in there and (field in OWN_COLUMNS or field not in there) else field


def _add(store: Store, round: Round, first: int, batch: pa.RecordBatch) -> int:
    """Add a batch, unless another process has done so."""
    fields: list[dict[str, Any]] = [
        {name.removeprefix("field "): value for name, value in row.items() if name != "id"} for row in batch.to_pylist()
    ]
    measured = measured_examples(spec_of(round), fields)
    names = [f"{IMPORTED}{round.number}:{own}" for own in batch["id"].to_pylist()]
    with store.write() as session:
        lock_texts(session, [round.task_id])
        row = session.get_one(Round, round.id, with_for_update={"key_share": True})
        if row.texts_known != first:
            return 0
        add_in_bulk(session, round.task_id, names, measured)
        row.texts_known = first + batch.num_rows
    return len(fields)
