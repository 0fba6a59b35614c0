"""Files of predictions: the answers of a model that is not here, as CSV or Parquet with the ids of the rows.

They may have answers to perturbed copies of the rows as well, whose ids are `<row>#<perturbation>`.
"""

import csv
import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from common.errors import Hint
from common.text import count
from ml_backend.errors import PredictionsInvalid
from ml_backend.evaluation.answers import Answer
from ml_backend.evaluation.consistency import JOINT, edit_of
from templates.rows import SeedRow
from templates.spec import TaskSpec

ENDINGS = (".csv", ".parquet")
ID, PREDICTION, CONFIDENCE, PROBABILITIES = "id", "prediction", "confidence", "probabilities"
ROWS_PER_READ = 65_536
MAX_CELL_CHARS = 1_000_000
# How many ids a message quotes.
QUOTED = 3
HINT = Hint("describe_evaluate")


@dataclass(frozen=True)
class Predictions:
    """The answers of a file by the ids of their rows, and the hash of its content."""

    path: Path
    answers: Mapping[str, Answer]
    sha256: str

    @property
    def predicted_edits(self) -> set[str]:
        """The perturbations to whose copies the file has answers, and what else stands behind a # in its ids."""
        return {edit_of(row_id) for row_id in self.answers} - {""}

    def check_rows(self, name: str, rows: Iterable[SeedRow]) -> set[str]:
        """Return the ids of these rows; raise PredictionsInvalid if one of them has no answer."""
        ids = {row.id for row in rows}
        missing = sorted(ids - self.answers.keys())
        if missing:
            text = f"has no prediction for {count(len(missing), 'row')} of {name} ({_quoted(missing)})"
            raise PredictionsInvalid(f"{self.path.name} {text}; predict every row", hint=HINT)
        return ids

    def check_unknown(self, known: set[str], names: str, edits: Collection[str] = ()) -> None:
        """Raise PredictionsInvalid if the file has ids that no row has, and no copy of a row by one of these edits."""
        others = self.answers.keys() - known
        unknown = sorted(one for one in others if edit_of(one) not in edits or one.rpartition(JOINT)[0] not in known)
        if unknown:
            text = f"has {count(len(unknown), 'prediction')} for rows that are not in {names} ({_quoted(unknown)})"
            raise PredictionsInvalid(f"{self.path.name} {text}; remove them, or name their data set too", hint=HINT)


@dataclass(frozen=True)
class FileAnswerer:
    """Answers rows from a file."""

    path: Path
    spec: TaskSpec

    def answers(self, rows: Sequence[SeedRow]) -> list[Answer]:
        """Return the predictions for these rows."""
        found = read_predictions(self.path, self.spec)
        found.check_rows("the data set", rows)
        return [found.answers[row.id] for row in rows]


def read_predictions(path: Path, spec: TaskSpec) -> Predictions:
    """Return the predictions of a file; raise PredictionsInvalid for duplicate ids and labels of another task."""
    try:
        status = path.stat()
    except OSError as error:
        raise PredictionsInvalid(f"cannot read {path}: {error.strerror}", hint=HINT) from error
    # Size and time are part of the cache's key: a changed file is read again.
    return _read(path, spec.kind, spec.label_names, status.st_size, status.st_mtime_ns)


def raw_predictions(path: Path) -> Iterator[tuple[Any, Any, float | None]]:
    """Yield the id, the prediction and the confidence of each row; only the confidence is checked."""
    for number, row in _rows(path):
        text = row.get(PREDICTION)
        yield row.get(ID), text, _confidence(path, number, row, str(text))


@lru_cache(maxsize=2)
def _read(path: Path, kind: str, labels: tuple[str, ...], size: int, changed_ns: int) -> Predictions:
    answers: dict[str, Answer] = {}
    known = frozenset(labels)
    for number, row in _rows(path):
        row_id, text = row.get(ID), row.get(PREDICTION)
        if row_id is None or row_id == "" or not isinstance(text, str):
            raise PredictionsInvalid(f"{path.name}, row {number}, has no id or no prediction", hint=HINT)
        if kind != "qa" and text not in known:
            text = f"`{text[:60]}`, which is not a label of the task ({', '.join(labels)})"
            raise PredictionsInvalid(f"{path.name}, row {number}, predicts {text}", hint=HINT)
        if str(row_id) in answers:
            raise PredictionsInvalid(f"{path.name} has several predictions for id {str(row_id)[:60]}", hint=HINT)
        answers[str(row_id)] = Answer(text, _confidence(path, number, row, text))
    if not answers:
        raise PredictionsInvalid(f"{path.name} has no predictions", hint=HINT)
    return Predictions(path, answers, _sha256(answers))


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    read = _parquet_rows if path.suffix.lower() == ".parquet" else _csv_rows
    yield from enumerate(read(path), 1)


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with parquet.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow.names)
            wanted = [one for one in (ID, PREDICTION, CONFIDENCE, PROBABILITIES) if one in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=ROWS_PER_READ, columns=wanted):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise PredictionsInvalid(f"{path.name} is not a complete Parquet file; write it again", hint=HINT) from error


def _csv_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    before = csv.field_size_limit(MAX_CELL_CHARS)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            _check_columns(path, reader.fieldnames or ())
            yield from reader
    except UnicodeDecodeError as error:
        raise PredictionsInvalid(f"{path.name} is not UTF-8; save it as UTF-8", hint=HINT) from error
    except csv.Error as error:
        raise PredictionsInvalid(f"{path.name} is not valid CSV ({error})", hint=HINT) from error
    finally:
        csv.field_size_limit(before)


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    missing = [name for name in (ID, PREDICTION) if name not in columns]
    if missing:
        raise PredictionsInvalid(f"{path.name} has no column `{missing[0]}`", hint=HINT)


def _confidence(path: Path, number: int, row: Mapping[str, Any], text: str) -> float | None:
    given = row.get(CONFIDENCE)
    probabilities = row.get(PROBABILITIES)
    if given in (None, "") and isinstance(probabilities, Mapping):
        given = probabilities.get(text)
    if given in (None, ""):
        return None
    try:
        found = float(str(given))
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1:
        raise PredictionsInvalid(
            f"{path.name}, row {number}, has the confidence {str(given)[:40]}; write a number from 0 to 1", hint=HINT
        )
    return found


def _sha256(answers: Mapping[str, Answer]) -> str:
    digest = hashlib.sha256()
    for row_id in sorted(answers):
        text, confidence = answers[row_id]
        digest.update(f"{row_id!r} {text!r} {confidence!r}\n".encode())
    return digest.hexdigest()


def _quoted(ids: Sequence[str]) -> str:
    more = ", …" if len(ids) > QUOTED else ""
    return ", ".join(one[:40] for one in ids[:QUOTED]) + more
