"""The pages of docs/ that are made from the program itself, so that they cannot disagree with it.

`make docs` writes them; a test fails when they are not as they would be written now.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import BaseModel

from plugin.cli import __doc__ as command_promise
from plugin.cli import cli
from plugin.settings import settings_table
from templates import TaskSpec

MADE = "<!-- made by `make docs`; change the program, not this page -->\n\n"


def pages() -> dict[str, str]:
    """Every generated page by its file name."""
    return {"cli.md": _commands(), "configuration.md": _configuration(), "task-yaml.md": _task_yaml()}


def _configuration() -> str:
    intro = (
        "# Configuration\n\nSettings come from the environment, then from the file that `--config` or `OUTFOX_CONFIG` "
        "names (else `outfox.toml` in `home`), then from the defaults. The file is TOML, every value a text in quotes. "
        "`outfox config` shows what is in force.\n\n"
    )
    return MADE + intro + settings_table()


def _commands() -> str:
    exits = (command_promise or "").partition("\n\n")[2].strip()
    parts = [MADE, "# The `outfox` command\n\n", "Every command that shows something takes `--json`. ", exits, "\n"]
    for path, command in _walk(cli, "outfox"):
        with click.Context(command, info_name=path, help_option_names=["-h", "--help"]) as context:
            parts.append(f"\n## `{path}`\n\n```text\n{command.get_help(context)}\n```\n")
    return "".join(parts)


def _walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from _walk(child, f"{path} {name}")


def _task_yaml() -> str:
    intro = "# task.yaml\n\nOne file describes one task. `outfox templates check` tells what does not fit, and where.\n"
    return MADE + intro + "".join(_section(TaskSpec, "The file"))


def _section(model: type[BaseModel], title: str) -> Iterator[str]:
    lines = [
        f"\n## {title}\n\n{(model.__doc__ or '').strip()}\n\n| setting | needed | what to write |\n|---|---|---|\n"
    ]
    inner: list[tuple[type[BaseModel], str]] = []
    for name, field in model.model_fields.items():
        needed = "yes" if field.is_required() else f"no: `{_plain(field.default)}`"
        lines.append(f"| `{name}` | {needed} | {field.description} |\n")
        inner += [(part, f"`{name}`") for part in _models_in(field.annotation)]
    yield "".join(lines)
    for part, heading in inner:
        yield from _section(part, heading)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            yield candidate


def _plain(default: object) -> str:
    if isinstance(default, tuple):
        return "[" + ", ".join(str(one) for one in default) + "]"
    if default is None:
        return "none"
    return str(default).lower() if isinstance(default, bool) else str(default)


def main() -> None:
    """Writes the pages into the folder that is named."""
    folder = Path(sys.argv[1])
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
        click.echo(f"wrote {folder / name}")


if __name__ == "__main__":
    main()
