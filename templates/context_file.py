"""A file of contexts that an owner uploads: JSONL or CSV, read row by row; every mistake is reported with its line.

Contexts are returned until the first mistake; the rest of the file is read only to find more mistakes. The caller
stores contexts in a transaction and rolls it back on the PackError at the end.
"""

import csv
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from common.text import count
from templates.errors import PackError, Problem
from templates.rows import MAX_LINE_BYTES, Context, context_in, context_problems
from templates.spec import TaskSpec
from templates.texts import InvalidJsonRow, Mistake, context_id_problems, read_json_row, shown_json, text_problems

MAX_PROBLEMS = 100
BOM = b"\xef\xbb\xbf"
OTHER_ENCODINGS = (b"\xff\xfe", b"\xfe\xff")
JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
DELIMITERS = (",", ";", "\t")
NOT_UTF8 = "is not UTF-8; save the file as UTF-8"

Row = tuple[int, dict[str, Any]]


def read_context_file(path: Path, spec: TaskSpec) -> Iterator[Context]:
    """Yield the contexts in the file's order; raise a PackError with all mistakes at the end, or after too many."""
    report = _Report(path.name)
    seen: dict[str, int] = {}
    with path.open("rb") as file:
        for number, row in _rows(file, path, [field.name for field in spec.with_role("context")], report):
            problems = [*context_problems(row, spec), *text_problems(row)]
            # An invalid row may have no texts to derive an id from.
            row_id = _row_id(path, row, spec) if not problems or row.get("id") is not None else ""
            problems += _id_problems(row_id, number, seen) if row_id or not problems else []
            for problem in problems:
                report.add(number, *problem)
            if not report.problems:
                yield context_in(row, row_id, spec)
    if not seen and not report.problems:
        report.add(None, "file_empty", "has no contexts; add rows")
    report.finish()


class _Report:
    """The problems so far."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.problems: list[Problem] = []

    def add(self, number: int | None, code: str, text: str) -> None:
        self.problems.append(Problem(self._file, number, code, text))
        if len(self.problems) == MAX_PROBLEMS:
            self.problems.append(
                Problem(self._file, None, "more_problems", "has possibly more mistakes; fix these first")
            )
            self.finish()

    def finish(self) -> None:
        if self.problems:
            raise PackError(self.problems)

    def stop(self, number: int | None, code: str, text: str) -> NoReturn:
        """Raise at once, because the rest of the file cannot be read."""
        self.problems.append(Problem(self._file, number, code, text))
        raise PackError(self.problems)


def read_rows(path: Path, names: list[str]) -> Iterator[Row]:
    """Yield the rows of a JSONL or CSV file with their lines; a CSV file must have the columns `names`."""
    report = _Report(path.name)
    with path.open("rb") as file:
        yield from _rows(file, path, names, report)
    report.finish()


def _rows(file: BinaryIO, path: Path, names: list[str], report: _Report) -> Iterator[Row]:
    start = file.read(4_096)
    file.seek(0)
    if start.startswith(OTHER_ENCODINGS):
        report.stop(None, "file_not_utf8", NOT_UTF8)
    text = start.removeprefix(BOM).lstrip()
    if text.startswith(b"["):
        report.stop(1, "json_invalid", "is a JSON list; write one object per line, without commas between them")
    lines = _lines(file, report)
    if text.startswith(b"{") or path.suffix.lower() in JSON_ENDINGS:
        return _from_jsonl(lines, report)
    return _from_csv(lines, names, report)


def _lines(file: BinaryIO, report: _Report) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(_raw_lines(file), 1):
        if len(raw) > MAX_LINE_BYTES:
            report.add(number, "line_too_long", f"is longer than {MAX_LINE_BYTES:,} bytes; shorten the row")
            continue
        try:
            yield number, (raw.removeprefix(BOM) if number == 1 else raw).decode()
        except UnicodeDecodeError:
            report.add(number, "file_not_utf8", NOT_UTF8)


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield every line, with any of the three line ends; a line that is far too long is cut."""
    rest = b""
    while piece := file.readline(MAX_LINE_BYTES + 1):
        *whole, rest = (rest + piece).splitlines(keepends=True)
        yield from whole
        if rest.endswith(b"\n"):
            yield rest
            rest = b""
        # A carriage return may be the first half of \r\n.
        elif not rest.endswith(b"\r"):
            rest = rest[: MAX_LINE_BYTES + 1]
    if rest:
        yield rest


def _from_jsonl(lines: Iterator[tuple[int, str]], report: _Report) -> Iterator[Row]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            row = read_json_row(line)
        except InvalidJsonRow as error:
            report.add(number, "json_invalid", str(error))
        else:
            yield number, row


def _from_csv(lines: Iterator[tuple[int, str]], names: list[str], report: _Report) -> Iterator[Row]:
    number, head = next(((number, line) for number, line in lines if line.strip()), (0, ""))
    # Without a header, the rest cannot be read.
    report.finish()
    if not head:
        return
    try:
        columns, delimiter = _columns(head, names)
    except csv.Error as error:
        report.stop(number, "csv_invalid", _not_csv(error))
    missing = [name for name in names if name not in columns]
    if missing:
        needed = f"it must name the columns {', '.join(names)}, and may name id, targets and others"
        report.stop(number, "column_missing", f"the first line has no column `{missing[0]}`; {needed}")
    if len(set(columns)) < len(columns):
        report.stop(number, "column_duplicate", "two columns have the same name; rename one")
    for number, cells in _records(lines, delimiter, report):
        if len(cells) == len(columns):
            yield number, _cells(dict(zip(columns, cells, strict=True)))
        elif any(cell.strip() for cell in cells):
            fix = "put texts that contain the separator or quotes in double quotes"
            report.add(
                number, "csv_invalid", f"has {count(len(cells), 'cell')} for {count(len(columns), 'column')}; {fix}"
            )


def _records(lines: Iterator[tuple[int, str]], delimiter: str, report: _Report) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row with its first line; quoted text can span several lines."""
    read: list[int] = []

    def texts() -> Iterator[str]:
        for number, line in lines:
            read.append(number)
            yield line

    reader = csv.reader(texts(), strict=True, delimiter=delimiter)
    while True:
        read.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            report.stop(read[0] if read else None, "csv_invalid", _not_csv(error))
        if cells is None:
            return
        yield read[0], cells


def _columns(head: str, names: list[str]) -> tuple[list[str], str]:
    """Return the column names, and the separator that finds the most of those that are needed."""
    split = {mark: [cell.strip() for cell in next(csv.reader([head], delimiter=mark))] for mark in DELIMITERS}
    best = max(DELIMITERS, key=lambda mark: (len(set(names) & set(split[mark])), len(split[mark])))
    return split[best], best


def _not_csv(error: csv.Error) -> str:
    if "field limit" in str(error):
        text = f"has a cell of more than {csv.field_size_limit():,} characters"
        return f"{text}; shorten it, or close its quote"
    return f"is not valid CSV ({error}); check the quotes"


def _cells(row: dict[str, str]) -> dict[str, Any]:
    """Return a CSV row in the form of a JSONL row: without empty cells, and with targets as a list."""
    found: dict[str, Any] = {name: cell for name, cell in row.items() if cell.strip()}
    if "targets" in found:
        found["targets"] = [name.strip() for name in re.split("[|;,]", found["targets"]) if name.strip()]
    return found


def _row_id(path: Path, row: Mapping[str, Any], spec: TaskSpec) -> str:
    """Return the row's own id, or one derived from its texts, which does not depend on its position in the file."""
    if row.get("id") is not None:
        return row["id"].strip() if isinstance(row["id"], str) else json.dumps(row["id"])
    texts = json.dumps([row[field.name] for field in spec.with_role("context")])
    return f"{path.stem[:40]}-{hashlib.sha256(texts.encode()).hexdigest()[:16]}"


def _id_problems(row_id: str, number: int, seen: dict[str, int]) -> list[Mistake]:
    first = seen.setdefault(row_id, number)
    if first != number:
        return [("id_duplicate", f"id {shown_json(row_id)} is also on line {first}, or its text is; make rows unique")]
    return context_id_problems(row_id)
