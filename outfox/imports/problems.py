"""Mistakes in files that are imported, with their lines; all of them are reported at once, up to a limit."""

from dataclasses import dataclass

from outfox.errors import NotImportable

MAX_PROBLEMS = 20
MAX_LINES = 3


@dataclass(frozen=True)
class ImportProblem:
    """One mistake; `line` is the line of a text file, or else the number of the row, from 1."""

    file: str
    line: int | None
    code: str
    text: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.text} ({self.code})"


class RowError(Exception):
    """A row that cannot be imported."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Problems:
    """Collects problems; the same one on many lines is one."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str, str], list[int]] = {}
        self._more = 0

    def add(self, file: str, line: int, code: str, text: str) -> None:
        """Add a problem of a line."""
        key = (file, code, text)
        if key in self._lines or len(self._lines) < MAX_PROBLEMS:
            lines = self._lines.setdefault(key, [])
            # The lines are counted, but only a few are listed.
            lines.append(line if len(lines) <= MAX_LINES else -1)
        else:
            self._more += 1

    def __bool__(self) -> bool:
        return bool(self._lines)

    def check(self) -> None:
        """Raise NotImportable if there are problems."""
        found = [
            ImportProblem(file, lines[0], code, f"{text}{_also(lines[1:])}")
            for (file, code, text), lines in self._lines.items()
        ]
        if self._more:
            found.append(ImportProblem(found[0].file, None, "more_problems", f"{self._more:,} more; fix these first"))
        if found:
            raise NotImportable(found)


def refuse(file: str, code: str, text: str) -> NotImportable:
    """Return the error for a file that cannot be imported as a whole."""
    return NotImportable([ImportProblem(file, None, code, text)])


def _also(lines: list[int]) -> str:
    if not lines:
        return ""
    more = f" and {len(lines) - MAX_LINES:,} more" if len(lines) > MAX_LINES else ""
    return f"; also on line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:MAX_LINES]))}{more}"
