"""`outfox context`: upload and list what workers start from."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from rich.console import Group

from common.errors import Hint
from common.text import count
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import DRY_RUN, WHOLE_NUMBER, WHY
from plugin.hints import with_command
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.work.context_uploads import ContextsUploaded

MOST_SHOWN = 50
LONGEST_TEXT = 60


@click.group()
def context() -> None:
    """Upload contexts, and list them."""


@context.command()
@click.argument("task")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Retire all contexts that are not in the file, including the pack's.")
@WHY
@DRY_RUN
@data_command
def upload(app: Application, task: str, file: Path, replace: bool, why: str, dry_run: bool) -> None:
    """Add contexts from a JSONL or CSV file: all rows, or none and a list of errors.

    Each row has the task's context fields by name. `id`, `targets` (labels to ask for; in CSV separated by |) and any
    other columns are optional. Uploading the same file again changes nothing; a changed text replaces the old one with
    the same id.

    Example: outfox context upload nli premises.csv --dry-run
    """
    from round_manager.services.tasks import upload_contexts
    from templates.context_file import read_context_file

    with _regular_file(file) as path, app.services() as services:
        done = upload_contexts(
            services,
            app.actor,
            task,
            lambda spec: read_context_file(path, spec),
            replace=replace,
            reason=why,
            dry_run=dry_run,
        )
    show({"task": task, "dry_run": dry_run, **asdict(done)}, _upload_text(task, done, dry_run=dry_run))


@context.command("list")
@click.argument("task")
@click.option("--retired", is_flag=True, help="List retired contexts.")
@click.option("--most", type=WHOLE_NUMBER, default=MOST_SHOWN, help="How many to list.")
@data_command
def list_all(app: Application, task: str, retired: bool, most: int) -> None:
    """List a task's contexts in the owner's order, with the number of examples on each."""
    from round_manager.services.tasks import list_contexts

    with app.services() as services:
        listed = list_contexts(services, task, limit=most, retired=retired)
    found, total = listed.contexts, listed.total
    data = [{**asdict(one.context), "from": one.origin, "examples": one.used, "fooled": one.fooled} for one in found]
    rows = [(one.context.id, _short(one.context.fields), one.origin, one.used, one.fooled) for one in found]
    shown = (
        [table(("id", "text", "from", "examples", "fooled"), rows)]
        if rows
        else [with_command(f"{task} has none", Hint("upload_contexts", task=task))]
    )
    more = [f"… and {total - len(rows):,} more; use --most to list them"] if total > len(rows) else []
    show({"task": task, "contexts": total, "shown": data}, Group(*shown, *more))


@contextmanager
def _regular_file(file: Path) -> Iterator[Path]:
    """Yield the file, or a copy of a pipe's content under the same name, because it is read more than once."""
    if file.is_file():
        yield file
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / file.name
        with file.open("rb") as pipe, copy.open("wb") as kept:
            shutil.copyfileobj(pipe, kept)
        yield copy


def _upload_text(task: str, done: "ContextsUploaded", *, dry_run: bool) -> str:
    parts = [
        f"{count(done.added, 'context')} added",
        *([f"{done.brought_back:,} restored"] if done.brought_back else []),
        *([f"{done.retired:,} retired"] if done.retired else []),
        f"{done.unchanged:,} unchanged",
    ]
    text = f"{task}: {', '.join(parts)}"
    return f"{text}; this was a dry run, nothing was changed" if dry_run else text


def _short(fields: Mapping[str, str]) -> str:
    line = " ".join(next(iter(fields.values()), "").split())
    return line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 1]}…"
