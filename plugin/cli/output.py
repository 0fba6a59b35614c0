"""What a command prints: a table or text for people, or with --json one JSON document for programs."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from rich.console import Console, RenderableType

from plugin.cli.listing import Listing
from plugin.cli.streams import knows_all_characters
from plugin.cli.terminal import harmless

WIDTH_WITHOUT_TERMINAL = 160
_JSON = "outfox.json"

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Adds --json to a command; what it then shows is JSON."""

    def remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        context.find_root().meta[_JSON] = value

    text = "Print one JSON document instead of text."
    return click.option("--json", is_flag=True, expose_value=False, callback=remember, help=text)(command)


def wants_json() -> bool:
    """Whether the running command was called with --json."""
    return bool(click.get_current_context().find_root().meta.get(_JSON))


def show(data: Any, text: RenderableType) -> None:
    """Prints the data as JSON, or the text, whichever the caller asked for."""
    if wants_json():
        click.echo(harmless(json.dumps(data, ensure_ascii=not knows_all_characters(), indent=2, default=str)))
    else:
        console().print(harmless(text) if isinstance(text, str) else text)


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal or as COLUMNS says; wide enough for our tables where neither tells."""
    stream = sys.stderr if stderr else sys.stdout
    told = os.environ.get("COLUMNS", "")
    wide = int(told) if told.isdecimal() else 0
    width = None if stream.isatty() else wide or WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, markup=False, soft_wrap=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Listing:
    """A plain table; numbers stand to the right, and no word is broken however narrow the terminal."""
    numeric = [bool(rows) and all(isinstance(row[place], int | float) for row in rows) for place in range(len(columns))]
    return Listing(tuple(columns), [tuple(_cell(value) for value in row) for row in rows], numeric)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else harmless(str(value))
