"""Output of commands: text and tables for people, or one JSON document with --json.

Output to closed, full or limited streams never ends in a traceback, and text that people typed cannot control the
terminal.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 160
WIDE_GAP, NARROW_GAP = 2, 1
INDENT = 2
# A table leaves out what is beyond this number of rows.
MOST_SHOWN = 50
UTF_8 = ("utf-8", "utf8")
_JSON = "outfox.json"
# Characters that move the cursor, change the terminal's state or reverse text; line ends and tabs are allowed.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

Command = TypeVar("Command", bound=Callable[..., Any])
Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def data_command(function: Callable[Concatenate[Any, Parameters], Returned]) -> Callable[Parameters, Returned]:
    """Make the function a command that gets the Application first, and that takes --json."""
    return json_option(click.pass_obj(function))


def json_option(command: Command) -> Command:
    """Add --json to a command."""

    def remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        context.find_root().meta[_JSON] = value

    text = "Print one JSON document instead of text."
    return click.option("--json", is_flag=True, expose_value=False, callback=remember, help=text)(command)


def wants_json() -> bool:
    """Return whether the current command was called with --json."""
    return bool(click.get_current_context().find_root().meta.get(_JSON))


def show(data: Any, text: RenderableType) -> None:
    """Print the data as JSON if the user asked for it, or else the text."""
    if wants_json():
        click.echo(escape_controls(json.dumps(data, ensure_ascii=not _is_utf_8(sys.stdout), indent=2, default=str)))
    else:
        console().print(escape_controls(text) if isinstance(text, str) else text)


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal or COLUMNS, or wide enough for our tables."""
    stream = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    wide = int(columns) if columns.isdecimal() else 0
    width = None if stream.isatty() else wide or WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, markup=False, soft_wrap=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> "ResponsiveTable":
    """Return a plain table with right-aligned numbers; words stay whole however narrow the terminal is."""
    numeric = [bool(rows) and all(isinstance(row[place], int | float) for row in rows) for place in range(len(columns))]
    return ResponsiveTable(tuple(columns), [tuple(_cell(value) for value in row) for row in rows], numeric)


def escape_controls(text: str) -> str:
    """Return the text with control characters written as JSON escapes."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def when(moment: datetime | None) -> str:
    """Return a time as people read it."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def every_text(seconds: float) -> str:
    """Return `every second` or `every 30 seconds`."""
    return "every second" if seconds == 1 else f"every {seconds:g} seconds"


def data_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str] = ()) -> "ResponsiveTable":
    """Return what --json prints as a table, with all keys of the first row as columns, or only with these."""
    keys = columns or tuple(rows[0])
    return table([key.replace("_", " ") for key in keys], [[row.get(key) for key in keys] for row in rows])


def limited_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], most: int = MOST_SHOWN, *, optional_end: bool = False
) -> Group:
    """Return a table of the first rows with a line about the others; an empty last column can be optional."""
    end = -1 if optional_end and not any(row[-1] for row in rows) else len(columns)
    more = [f"… and {len(rows) - most:,} more; use --json to see all"] if len(rows) > most else []
    return Group(table(columns[:end], [row[:end] for row in rows[:most]]), *more)


def prepare_streams() -> None:
    """Make both standard streams accept any text: open closed ones, and escape characters they cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until exit
        elif isinstance(stream, TextIOWrapper) and not _is_utf_8(stream):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Send the rest of standard output nowhere: Python would flush it at exit and fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _is_utf_8(stream: object) -> bool:
    return (getattr(stream, "encoding", None) or "").lower() in UTF_8


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return when(value)
        case list() | tuple():
            return escape_controls(", ".join(map(str, value)))
    return escape_controls(str(value))


@dataclass(frozen=True)
class ResponsiveTable:
    """A table if every word fits the width, or else one paragraph per row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        longest = [max(map(cell_len, self._column(place))) for place in range(len(self.columns))]
        # A narrow gap is better than a second line, and a second line is better than paragraphs.
        for least in (longest, self._longest_words()):
            for gap in (WIDE_GAP, NARROW_GAP):
                widths = _fit(least, longest, options.max_width - gap * (len(least) - 1))
                if widths:
                    yield self._table(widths, gap)
                    return
        for row in self.rows:
            yield from self._paragraph(row)

    def _column(self, place: int) -> Iterator[str]:
        yield self.columns[place]
        yield from (row[place] for row in self.rows)

    def _longest_words(self) -> list[int]:
        """Return the width of the longest word of each column."""
        return [
            max((cell_len(word) for cell in self._column(place) for word in cell.split()), default=0)
            for place in range(len(self.columns))
        ]

    def _table(self, widths: Sequence[int], gap: int) -> Table:
        built = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
        for column, width, numeric in zip(self.columns, widths, self.numeric, strict=True):
            built.add_column(Text(column), justify="right" if numeric else "left", width=width, overflow="fold")
        for row in self.rows:
            built.add_row(*map(Text, row))
        return built

    def _paragraph(self, row: Sequence[str]) -> Iterator[RenderableType]:
        """Put the first cell on its own line, so that it can be copied, and leave out empty cells."""
        rest = [f"{column} {cell}".lstrip() for column, cell in zip(self.columns[1:], row[1:], strict=True) if cell]
        yield Text(f"{self.columns[0]} {row[0]}" if self.numeric[0] else row[0], style="bold", overflow="fold")
        yield Padding(Text(" · ".join(rest), overflow="fold"), (0, 0, 0, INDENT))


def _fit(least: Sequence[int], longest: Sequence[int], room: int) -> list[int]:
    """Return column widths that fit into the room, at least `least` each, or an empty list."""
    widths, left = list(least), room - sum(least)
    if left < 0:
        return []
    by_need = sorted(range(len(widths)), key=lambda place: longest[place] - widths[place])
    for done, place in enumerate(by_need):
        # Columns that need little get all of it; the rest is shared evenly.
        more = min(longest[place] - widths[place], left // (len(by_need) - done))
        widths[place] += more
        left -= more
    return widths
