"""`outfox task` and `outfox context`: create tasks from packs, and upload and list what workers start from."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group

from common.errors import Hint
from common.text import count, dollars
from plugin.cli.gold import gold
from plugin.cli.launch import is_first_task, launch
from plugin.cli.output import MOST_SHOWN, data_command, data_table, show, table
from plugin.cli.parameters import DRY_RUN, PACK, WHOLE_NUMBER, WHY
from plugin.cli.round import statuses_text, summary_data
from plugin.hints import NO_TASKS, command_for, with_command
from plugin.settings import Settings
from plugin.wiring import Application
from templates import Pack, PackError

if TYPE_CHECKING:
    from round_manager.services.tasks import RoundSummary, TaskDetails
    from round_manager.work.context_uploads import ContextsUploaded

LONGEST_TEXT = 60


@click.group()
def task() -> None:
    """Create tasks from packs, list and show them, and add gold."""


task.add_command(gold)
task.add_command(launch)


@task.command()
@click.argument("pack", type=PACK)
@data_command
def create(app: Application, pack: Pack) -> None:
    """Check a pack and create its task, or update it; safe to repeat."""
    from round_manager.services.tasks import create_task

    if problems := app.check_pack(pack):
        raise PackError(problems)
    with app.services(upgrade=is_first_task(app)) as services:
        done = create_task(services, app.actor, pack)
    name, number, status = done.task.name, done.round.number, done.round.status.value
    step = _next_step(app.settings, name, status)
    data = {"task": name, "contexts": done.contexts, "round": number, "status": status}
    state = "a draft" if status == "draft" else status
    text = f"{name}: {count(done.contexts, 'context')}, round {number} is {state}"
    show({**data, "next": step}, f"{text}; next: `{step}`")


@task.command("list")
@data_command
def list_tasks(app: Application) -> None:
    """List the tasks with their newest round."""
    from round_manager.services import tasks

    with app.services() as services:
        found = tasks.list_tasks(services)
    data = [
        {
            "task": one.task.name,
            "kind": one.task.spec["kind"],
            "round": one.round.number,
            "status": one.round.status.value,
        }
        for one in found
    ]
    show(data, data_table(data) if data else NO_TASKS)


@task.command("show")
@click.argument("name", metavar="TASK")
@data_command
def show_one(app: Application, name: str) -> None:
    """Show a task with its rounds, their models and examples."""
    from round_manager.services.tasks import show_task

    with app.services() as services:
        found = show_task(services, name)
    facts: list[tuple[str, object]] = [
        ("title", found.task.spec["title"]),
        ("kind", found.task.spec["kind"]),
        ("folder", found.task.folder),
        ("contexts", found.contexts),
        ("budget", dollars(found.task.budget_cents)),
        *((f"round {one.round.number}", _round_text(one)) for one in found.rounds),
    ]
    show(_details_data(found), table(("", name), facts))


def _details_data(found: "TaskDetails") -> dict[str, Any]:
    return {
        "task": found.task.name,
        "title": found.task.spec["title"],
        "kind": found.task.spec["kind"],
        "folder": found.task.folder,
        "contexts": found.contexts,
        "budget_cents": found.task.budget_cents,
        "rounds": [summary_data(one) for one in found.rounds],
    }


def _round_text(one: "RoundSummary") -> str:
    status, had = one.round.status.value, one.collected
    if status == "draft":
        return "draft"
    examples = f"{count(had.examples, 'example')}, {had.fooled:,} fooled{statuses_text(had)}"
    return f"{status} against {', '.join(one.versions)}; {count(had.attempts, 'attempt')}, {examples}"


def _next_step(settings: Settings, name: str, status: str) -> str:
    from ml_backend.artefact import list_versions

    if status != "draft":
        return f"outfox task show {name}"
    if list_versions(settings.models_path, name):
        return command_for(Hint("open_round", task=name))
    return command_for(Hint("train_model", task=name))


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
def list_contexts(app: Application, task: str, retired: bool, most: int) -> None:
    """List a task's contexts in the owner's order, with the number of examples on each."""
    from round_manager.services import tasks

    with app.services() as services:
        listed = tasks.list_contexts(services, task, limit=most, retired=retired)
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
