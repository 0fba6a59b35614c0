"""A pack's contexts and seed rows, read from JSONL; every mistake is reported with its line."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from common.text import count
from templates.contract import judged_fields
from templates.errors import PackError, Problem
from templates.spec import TaskSpec
from templates.texts import (
    InvalidJsonRow,
    Mistake,
    context_id_problems,
    id_problems,
    is_blank,
    lookalike_key,
    read_json_row,
    shown_json,
    text_problems,
)

MAX_LINE_BYTES = 1_000_000
MAX_PROBLEMS = 20
# A problem names this many further lines that have it.
MAX_LINES = 3

Split = Literal["train", "held_out"]


@dataclass(frozen=True)
class Context:
    """What a worker is shown, and the labels that a worker may be asked to write for."""

    id: str
    fields: Mapping[str, str]
    targets: tuple[str, ...]
    extra: Mapping[str, Any]


@dataclass(frozen=True)
class SeedRow:
    """One example with a known answer: a label, or for QA an answer and its start in the passage."""

    id: str
    split: Split
    fields: Mapping[str, str]
    label: str | None
    answer: str | None
    answer_start: int | None
    extra: Mapping[str, Any]


def read_contexts(path: Path, spec: TaskSpec) -> tuple[Context, ...]:
    """Return every context of the file; raise a PackError if a row is invalid."""
    lines = _Lines(path)
    contexts = []
    for number, row in lines.objects():
        problems = context_problems(row, spec)
        for problem in problems:
            lines.add_problem(number, *problem)
        if not problems:
            contexts.append(context_in(row, lines.row_id(number, row, context_id_problems), spec))
    lines.finish()
    return tuple(contexts)


def context_problems(row: Mapping[str, Any], spec: TaskSpec) -> list[Mistake]:
    """Return what keeps a row from being a context."""
    problems = []
    for field in spec.with_role("context"):
        value = row.get(field.name)
        if not isinstance(value, str) or is_blank(value):
            problems.append(("text_missing", f"has no text in `{field.name}`; add it"))
        elif len(value) > field.max_chars:
            limit = f"at most {field.max_chars:,} are allowed; shorten it, or raise max_chars in task.yaml"
            problems.append(("text_too_long", f"has {len(value):,} characters in `{field.name}`; {limit}"))
    targets = row.get("targets", list(spec.label_names))
    known = isinstance(targets, list) and all(name in spec.label_names for name in targets)
    if not known or (spec.labels and not targets):
        fix = f"list some of {', '.join(spec.label_names)}, or omit it" if spec.labels else "omit it"
        problems.append(("targets_invalid", f"targets is {shown_json(targets)}; {fix}"))
    reserved = [name for name in row if name[:1] == "@"]
    problems += [("name_reserved", f"`{name[:40]}` begins with @, which is reserved; rename it") for name in reserved]
    return problems


def context_in(row: Mapping[str, Any], row_id: str, spec: TaskSpec) -> Context:
    """Return the context of a row without problems."""
    fields = {field.name: row[field.name] for field in spec.with_role("context")}
    extra = {key: value for key, value in row.items() if key not in fields and key not in ("id", "targets")}
    return Context(row_id, fields, tuple(row.get("targets", spec.label_names)), extra)


def read_seed(
    path: Path, spec: TaskSpec, objects: Iterable[tuple[int, dict[str, Any]]] | None = None
) -> tuple[SeedRow, ...]:
    """Return every seed row of the file; raise a PackError if a row is invalid.

    With `objects`, these are the rows with their lines, from a file in another format.
    """
    lines = _Lines(path)
    rows = []
    for number, row in lines.objects() if objects is None else lines.counted(objects):
        fields = lines.texts(number, row, list(spec.model_input))
        if fields is None:
            continue
        split = row.get("split", "train")
        if split not in ("train", "held_out"):
            lines.add_problem(number, "split_invalid", f"split is {shown_json(split)}; write train or held_out")
            continue
        seed = _with_answer(lines, number, row, fields, split, spec)
        if seed is not None:
            rows.append(seed)
    lines.finish()
    _check_labels_are_used(path.name, rows, spec)
    return tuple(rows)


@dataclass(frozen=True)
class GoldRow:
    """One row of the owner's private gold, and its line in the file."""

    line: int
    row: SeedRow


def read_gold(path: Path, spec: TaskSpec) -> tuple[GoldRow, ...]:
    """Return every row of a gold file, which has the fields of the seed; raise a PackError if a row is invalid."""
    lines = _Lines(path)
    rows: list[GoldRow] = []
    first: dict[tuple[str, ...], int] = {}
    for number, row in lines.objects():
        fields = lines.texts(number, row, judged_fields(spec))
        found = _with_answer(lines, number, row, fields, "held_out", spec) if fields else None
        if found is None:
            continue
        rows.append(GoldRow(number, found))
        same = first.setdefault(text_key(found, spec), number)
        if same != number:
            lines.add_problem(number, "text_duplicate", f"has the text of line {same}; remove one")
    lines.finish()
    return tuple(rows)


def text_key(row: SeedRow, spec: TaskSpec) -> tuple[str, ...]:
    """Return a key that is equal for rows that people cannot tell apart."""
    return tuple(lookalike_key(row.fields[name]) for name in spec.model_input)


def _with_answer(
    lines: "_Lines", number: int, row: dict[str, Any], fields: Mapping[str, str], split: Split, spec: TaskSpec
) -> SeedRow | None:
    used = {"id", "split", "label", "answer", "answer_start", *fields}
    extra = {key: value for key, value in row.items() if key not in used}
    row_id = lines.row_id(number, row, id_problems)
    found = row_answer(row, fields, spec)
    if isinstance(found, tuple):
        lines.add_problem(number, *found)
        return None
    return SeedRow(row_id, split, fields, found.label, found.text, found.start, extra)


@dataclass(frozen=True)
class RowAnswer:
    """The right answer of a row: a label, or a text with its start in the passage."""

    label: str | None = None
    text: str | None = None
    start: int | None = None


def row_answer(row: Mapping[str, Any], fields: Mapping[str, str], spec: TaskSpec) -> RowAnswer | Mistake:
    """Return the right answer of a row, or what is wrong with it."""
    if spec.kind == "classification":
        label = row.get("label")
        if label not in spec.label_names:
            found = "has no label" if label is None else f"label is {shown_json(label)}"
            return "label_invalid", f"{found}; write one of {', '.join(spec.label_names)}"
        return RowAnswer(label=str(label))
    passage = fields[spec.model_input[1]]
    answer = row.get("answer")
    if not isinstance(answer, str) or is_blank(answer):
        return "answer_missing", "has no answer; add the text that answers the question"
    start = row.get("answer_start", passage.find(answer))
    if not isinstance(start, int) or start < 0 or passage[start : start + len(answer)] != answer:
        fix = "copy the answer from the passage, or omit answer_start"
        return "answer_invalid", f"the passage does not contain {shown_json(answer)} at answer_start; {fix}"
    return RowAnswer(text=answer, start=start)


def _check_labels_are_used(file: str, rows: list[SeedRow], spec: TaskSpec) -> None:
    for split, what in (("train", "to train on"), ("held_out", "to evaluate on")):
        seen = Counter(row.label for row in rows if row.split == split)
        if not seen:
            text = f'has no rows {what}; add rows with "split": "{split}"'
            raise PackError([Problem(file, None, "split_empty", text)])
        unused = [name for name in spec.label_names if name not in seen]
        if unused:
            text = f'label `{unused[0]}` has no row with "split": "{split}"; add some, or remove it from task.yaml'
            raise PackError([Problem(file, None, "label_unused", text)])


class _Lines:
    """A JSONL file while it is read, with the problems so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # The lines of each problem, by its code and text.
        self._problems: dict[Mistake, list[int]] = {}
        self._more = 0
        self._ids: dict[str, int] = {}
        self._count = 0

    def counted(self, objects: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, row in objects:
            problems = text_problems(row)
            for problem in problems:
                self.add_problem(number, *problem)
            if not problems:
                self._count += 1
                yield number, row

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with self._path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if len(raw) > MAX_LINE_BYTES:
                    self.add_problem(
                        number, "line_too_long", f"is longer than {MAX_LINE_BYTES:,} bytes; shorten the row"
                    )
                    continue
                row = self._parse(number, raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw)
                if row is not None:
                    self._count += 1
                    yield number, row

    def _parse(self, number: int, raw: bytes) -> dict[str, Any] | None:
        if not raw.strip():
            return None
        try:
            row = read_json_row(raw.decode("utf-8"))
        except UnicodeDecodeError:
            problems = [("file_not_utf8", "is not UTF-8; save the file as UTF-8")]
        except InvalidJsonRow as error:
            problems = [("json_invalid", str(error))]
        else:
            problems = text_problems(row)
            if not problems:
                return row
        for problem in problems:
            self.add_problem(number, *problem)
        return None

    def texts(self, number: int, row: dict[str, Any], names: list[str]) -> dict[str, str] | None:
        for name in names:
            value = row.get(name)
            if not isinstance(value, str) or is_blank(value):
                self.add_problem(number, "text_missing", f"has no text in `{name}`; add it")
                return None
        return {name: row[name] for name in names}

    def row_id(self, number: int, row: dict[str, Any], problems: Callable[[str], list[Mistake]]) -> str:
        given = row.get("id")
        if isinstance(given, list | dict | bool | float):
            self.add_problem(number, "id_invalid", f"the id is {shown_json(given)}; write text or a whole number")
            return ""
        written = given if isinstance(given, str) else json.dumps(given)
        row_id = f"{self._path.stem}-{number}" if given is None else written
        for problem in problems(row_id):
            self.add_problem(number, *problem)
        first = self._ids.setdefault(row_id, number)
        if first != number:
            self.add_problem(
                number, "id_duplicate", f"id {shown_json(row_id)} is also on line {first}; make ids unique"
            )
        return row_id

    def add_problem(self, number: int, code: str, text: str) -> None:
        if (code, text) in self._problems or len(self._problems) < MAX_PROBLEMS:
            self._problems.setdefault((code, text), []).append(number)
        else:
            self._more += 1

    def finish(self) -> None:
        """Raise the problems that were found, or that the file is empty; the same one on many lines is one."""
        problems = [
            Problem(self._path.name, lines[0], code, f"{text}{_also(lines[1:])}")
            for (code, text), lines in self._problems.items()
        ]
        if self._more:
            text = f"has {count(self._more, 'more mistake')}; fix these first"
            problems.append(Problem(self._path.name, None, "more_problems", text))
        if problems:
            raise PackError(problems)
        if not self._count:
            raise PackError(
                [Problem(self._path.name, None, "file_empty", "is empty; add rows, one JSON object per line")]
            )


def _also(lines: list[int]) -> str:
    """Return where else a problem is."""
    if not lines:
        return ""
    more = f" and {len(lines) - MAX_LINES:,} more" if len(lines) > MAX_LINES else ""
    return f" (also on line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:MAX_LINES]))}{more})"
