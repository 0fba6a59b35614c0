"""`outfox context`: what workers are shown, from the owner's own files."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from rich.console import Group

from common.text import count
from plugin.cli.crowd_context import DRY_RUN
from plugin.cli.output import json_option, show, table
from plugin.cli.parameters import WHOLE_NUMBER
from plugin.cli.rotation import WHY
from plugin.operator import operator_name
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.work.context_uploads import ContextsUploaded

MOST_SHOWN = 50
LONGEST_TEXT = 60


@click.group()
def context() -> None:
    """Upload what workers are shown, and list it."""


@context.command()
@click.argument("task")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Retire what is not in the file, the pack's contexts too.")
@WHY
@DRY_RUN
@json_option
@click.pass_obj
def upload(app: Application, task: str, file: Path, replace: bool, why: str, dry_run: bool) -> None:
    """Add contexts from a JSONL or CSV file; all of it, or nothing and a list of its mistakes.

    Each row has the task's context fields by name; `id`, `targets` (labels that may be asked for; in CSV with | between
    them) and anything else are up to you. The same file once more changes nothing; a text that changed under its id
    takes the old one's place.

    Example: outfox context upload nli premises.csv --dry-run
    """
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.specs import spec_of
    from round_manager.tasks.tasks import find_task
    from round_manager.work.context_uploads import upload_contexts
    from templates.context_file import read_context_file

    with _standing(file) as standing, open_store(settings.database) as store:
        with store.read() as session:
            spec = spec_of(find_task(session, task))
        # Read to its end before anything is written, and while nobody waits for us.
        for _ in read_context_file(standing, spec):
            pass
        with store.dry_run() if dry_run else store.write() as session:
            owner, read, now = find_task(session, task), read_context_file(standing, spec), SystemClock().now()
            done = upload_contexts(session, owner, read, replace=replace, who=operator_name(), why=why, now=now)
    show({"task": task, "dry_run": dry_run, **asdict(done)}, _told(task, done, dry_run=dry_run))


@context.command("list")
@click.argument("task")
@click.option("--retired", is_flag=True, help="Those that are not given out any more.")
@click.option("--most", type=WHOLE_NUMBER, default=MOST_SHOWN, show_default=True, help="How many to show.")
@json_option
@click.pass_obj
def list_all(app: Application, task: str, retired: bool, most: int) -> None:
    """List a task's contexts in the owner's order, with the examples that were written on each."""
    settings = app.settings
    from round_manager.database.store import open_store
    from round_manager.tasks.contexts import count_contexts, list_contexts
    from round_manager.tasks.tasks import find_task

    with open_store(settings.database) as store, store.read() as session:
        owner = find_task(session, task)
        total = count_contexts(session, owner.id, retired=retired)
        found = list_contexts(session, owner.id, most=most, retired=retired)
    data = [{**asdict(one.context), "from": one.origin, "examples": one.used, "fooled": one.fooled} for one in found]
    rows = [(one.context.id, _short(one.context.fields), one.origin, one.used, one.fooled) for one in found]
    shown = [table(("id", "text", "from", "examples", "fooled"), rows)] if rows else [f"{task} has none; {_cure(task)}"]
    more = [f"… and {total - len(rows):,} more; --most shows more"] if total > len(rows) else []
    show({"task": task, "contexts": total, "shown": data}, Group(*shown, *more))


@contextmanager
def _standing(file: Path) -> Iterator[Path]:
    """The file, or what came through a pipe as one of the same name: it is read more than once."""
    if file.is_file():
        yield file
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / file.name
        with file.open("rb") as pipe, copy.open("wb") as kept:
            shutil.copyfileobj(pipe, kept)
        yield copy


def _told(task: str, done: "ContextsUploaded", *, dry_run: bool) -> str:
    parts = [
        f"{count(done.added, 'context')} added",
        *([f"{done.brought_back:,} brought back"] if done.brought_back else []),
        *([f"{done.retired:,} retired"] if done.retired else []),
        f"{count(done.unchanged, 'was', 'were')} there already",
    ]
    text = f"{task}: {', '.join(parts)}"
    return f"{text}; this was a rehearsal, nothing was changed" if dry_run else text


def _cure(task: str) -> str:
    return f"`outfox context upload {task} FILE` adds contexts"


def _short(fields: Mapping[str, str]) -> str:
    line = " ".join(next(iter(fields.values()), "").split())
    return line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 1]}…"
