"""A file of rows with known answers, to evaluate models on: JSON lines, CSV, Parquet, or SQuAD's JSON.

Exports of frozen rounds are read too, in each of their forms. Rows whose split is train are left out, because models
may have learned them. A file without splits is evaluated as a whole.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from templates.context_file import JSON_ENDINGS, read_rows
from templates.errors import PackError, Problem
from templates.rows import SeedRow, row_answer
from templates.spec import TaskSpec
from templates.texts import id_problems, is_blank, shown_json, text_problems

MAX_PROBLEMS = 100
ROWS_PER_READ = 4_096
TRAIN = "train"
HELD_OUT = ("held_out", "test", "dev", "validation", "val", "valid", "eval")
# What exports and published data sets call an id, a label and the texts.
IDS = ("id", "uid", "text_id")
LABELS = ("gold_label", "label")
ALIASES = {1: (("sentence", "text"),), 2: (("premise", "context"), ("hypothesis",))}
NLI_LETTERS = {"e": "entailment", "n": "neutral", "c": "contradiction"}

Row = tuple[int, dict[str, Any]]


@dataclass
class RowCounts:
    """How many rows of a file are evaluated, and how many are left out because they are training rows."""

    rows: int = 0
    train: int = 0


def read_evaluation_file(
    path: Path, spec: TaskSpec, slices: Sequence[str] = (), counts: RowCounts | None = None
) -> Iterator[SeedRow]:
    """Yield the rows in the file's order; raise a PackError with all mistakes at the end, or after too many.

    `slices` are columns whose values group the rows; they are returned in `extra`.
    """
    reader = _Reader(path, spec, slices, counts or RowCounts())
    for number, row in _objects(path, spec):
        found = reader.row(number, row)
        if found is not None and not reader.problems:
            yield found
    reader.finish()


@dataclass
class _Reader:
    path: Path
    spec: TaskSpec
    slices: Sequence[str]
    counts: RowCounts
    problems: list[Problem] = field(default_factory=list)
    _ids: dict[str, int] = field(default_factory=dict)
    _has_split: bool | None = None

    def row(self, number: int, row: dict[str, Any]) -> SeedRow | None:
        """Return the row; None for a training row, and for one with a mistake."""
        split = self._split(number, row)
        if split is None:
            return None
        if split == TRAIN:
            self.counts.train += 1
            return None
        texts = self._texts(number, row)
        row_id = self._id(number, row)
        if texts is None or row_id is None:
            return None
        answer = row_answer(_answer(row, self.spec), texts, self.spec)
        if isinstance(answer, tuple):
            self._add(number, *answer)
            return None
        self.counts.rows += 1
        extra = {name: row[name] for name in self.slices if row.get(name) is not None}
        return SeedRow(row_id, "held_out", texts, answer.label, answer.text, answer.start, extra)

    def finish(self) -> None:
        """Raise the mistakes, or that there is nothing to evaluate on."""
        if not self.problems and not self.counts.rows:
            if self.counts.train:
                self._add(None, "split_empty", 'has training rows only; add rows with "split": "held_out"')
            else:
                self._add(None, "file_empty", "has no rows; add rows with known answers")
        if self.problems:
            raise PackError(self.problems)

    def _split(self, number: int, row: Mapping[str, Any]) -> str | None:
        given = row.get("split")
        if self._has_split is None:
            self._has_split = given is not None
        if (given is not None) != self._has_split:
            self._add(number, "split_invalid", "some rows have a split and others have none; give all of them one")
            return None
        if given is None:
            # An export has one file per split.
            return TRAIN if self.path.stem == TRAIN else HELD_OUT[0]
        if given not in (TRAIN, *HELD_OUT):
            self._add(number, "split_invalid", f"split is {shown_json(given)}; write train or held_out")
            return None
        return str(given)

    def _texts(self, number: int, row: Mapping[str, Any]) -> dict[str, str] | None:
        texts = {}
        for place, name in enumerate(self.spec.model_input):
            value = next((row[one] for one in _names(name, place, self.spec) if one in row), None)
            if not isinstance(value, str) or is_blank(value):
                self._add(number, "text_missing", f"has no text in `{name}`; add it")
                return None
            texts[name] = value
        for problem in text_problems(texts):
            self._add(number, *problem)
            return None
        return texts

    def _id(self, number: int, row: Mapping[str, Any]) -> str | None:
        given = next((row[name] for name in IDS if row.get(name) is not None), None)
        if isinstance(given, list | dict | bool | float):
            self._add(number, "id_invalid", f"the id is {shown_json(given)}; write text or a whole number")
            return None
        row_id = f"{self.path.stem}-{number}" if given is None else str(given)
        problems = id_problems(row_id)
        first = self._ids.setdefault(row_id, number)
        if first != number:
            problems.append(("id_duplicate", f"id {shown_json(row_id)} is also on line {first}; make ids unique"))
        for problem in problems:
            self._add(number, *problem)
        return None if problems else row_id

    def _add(self, number: int | None, code: str, text: str) -> None:
        self.problems.append(Problem(self.path.name, number, code, text))
        if len(self.problems) == MAX_PROBLEMS:
            more = Problem(self.path.name, None, "more_problems", "has possibly more mistakes; fix these first")
            raise PackError([*self.problems, more])


def _names(name: str, place: int, spec: TaskSpec) -> tuple[str, ...]:
    """Return the columns that can hold a field, the task's own name first."""
    # A field with the name of an archive's column has a prefix in exports.
    own = (f"field_{name}", name)
    aliases = ALIASES.get(len(spec.model_input), ()) if spec.kind == "classification" else ()
    return (*own, *(aliases[place] if place < len(aliases) else ()))


def _answer(row: Mapping[str, Any], spec: TaskSpec) -> dict[str, Any]:
    """Return the right answer under the names of a seed row."""
    if spec.kind == "qa":
        gold = "gold_" if row.get("gold_answer") is not None else ""
        start = row.get(f"{gold}answer_start")
        if isinstance(start, str) and start.isdecimal():  # A CSV file has only text.
            start = int(start)
        return {"answer": row.get(f"{gold}answer"), **({} if start is None else {"answer_start": start})}
    label = next((row[name] for name in LABELS if row.get(name) is not None), None)
    if set(spec.label_names) == set(NLI_LETTERS.values()) and isinstance(label, str):
        label = NLI_LETTERS.get(label, label)
    return {"label": label}


def _objects(path: Path, spec: TaskSpec) -> Iterator[Row]:
    if path.suffix.lower() == ".parquet":
        yield from _parquet_rows(path)
    elif spec.kind == "qa" and path.suffix.lower() == ".json" and (found := _squad(path)) is not None:
        yield from _squad_rows(found, spec)
    elif path.suffix.lower() in (*JSON_ENDINGS, ".csv"):
        for number, row in read_rows(path, []):
            yield number, {name: value for name, value in row.items() if value is not None and value != ""}
    else:
        text = f"is not a file of rows; use {', '.join((*JSON_ENDINGS, '.csv', '.parquet'))}"
        raise PackError([Problem(path.name, None, "file_form_unknown", text)])


def _parquet_rows(path: Path) -> Iterator[Row]:
    # PyArrow takes a while to import.
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            plain = [one.name for one in file.schema_arrow if not pa.types.is_nested(one.type)]
            number = 0
            for batch in file.iter_batches(batch_size=ROWS_PER_READ, columns=plain):
                for row in batch.to_pylist():
                    number += 1
                    yield number, {name: value for name, value in row.items() if value is not None}
    except (pa.ArrowException, OSError) as error:
        text = "is not a complete Parquet file; write it again"
        raise PackError([Problem(path.name, None, "file_corrupt", text)]) from error


def _squad(path: Path) -> dict[str, Any] | None:
    """Return SQuAD's JSON; None for another file."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("data"), list) else None


def _squad_rows(found: Mapping[str, Any], spec: TaskSpec) -> Iterator[Row]:
    question, passage = spec.model_input
    number = 0
    for article in found["data"]:
        for paragraph in article.get("paragraphs", ()):
            for asked in paragraph.get("qas", ()):
                number += 1
                # Of several right answers, the most frequent one.
                given = [(one.get("text"), one.get("answer_start")) for one in asked.get("answers", ())]
                text, start = Counter(given).most_common(1)[0][0] if given else (None, None)
                row = {"id": asked.get("id"), question: asked.get("question"), passage: paragraph.get("context")}
                answer = {"answer": text, "answer_start": start}
                yield number, {name: value for name, value in {**row, **answer}.items() if value is not None}
