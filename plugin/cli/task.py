"""`outfox task`: create tasks from packs, list and show them."""

from typing import TYPE_CHECKING, Any

import click

from common.errors import Hint
from common.text import count, dollars
from plugin.cli.crowd_texts import not_counted_text
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import PACK
from plugin.hints import command_for
from plugin.settings import DATABASE, Settings
from plugin.wiring import Application
from templates import Pack, PackError

if TYPE_CHECKING:
    from round_manager.services.rounds import RoundSummary
    from round_manager.services.tasks import TaskDetails


@click.group()
def task() -> None:
    """Create tasks from packs, list and show them."""


@task.command()
@click.argument("pack", type=PACK)
@data_command
def create(app: Application, pack: Pack) -> None:
    """Check a pack and create its task, or update it; safe to repeat."""
    from round_manager.services.tasks import create_task

    if problems := app.check_pack(pack):
        raise PackError(problems)
    # The first task creates the database; an existing database is upgraded only on request.
    settings = app.settings
    first = not settings.database_url and not (settings.make_home() / DATABASE).exists()
    with app.services(upgrade=first) as services:
        done = create_task(services, app.actor, pack)
    step = _next_step(settings, done.task, done.status)
    data = {"task": done.task, "contexts": done.contexts, "round": done.round, "status": done.status}
    state = "a draft" if done.status == "draft" else done.status
    text = f"{done.task}: {count(done.contexts, 'context')}, round {done.round} is {state}"
    show({**data, "next": step}, f"{text}; next: `{step}`")


@task.command("list")
@data_command
def list_all(app: Application) -> None:
    """List the tasks with their newest round."""
    from round_manager.services.tasks import list_tasks

    with app.services() as services:
        found = list_tasks(services)
    data = [{"task": one.task, "kind": one.kind, "round": one.round, "status": one.status} for one in found]
    nothing = f"there are no tasks yet; create one with `{command_for(Hint('create_task', pack='PACK'))}`"
    show(data, table(("task", "kind", "round", "status"), [list(one.values()) for one in data]) if data else nothing)


@task.command("show")
@click.argument("name", metavar="TASK")
@data_command
def show_one(app: Application, name: str) -> None:
    """Show a task with its rounds, their models and examples."""
    from round_manager.services.tasks import show_task

    with app.services() as services:
        found = show_task(services, name)
    facts: list[tuple[str, object]] = [
        ("title", found.title),
        ("kind", found.kind),
        ("folder", found.folder),
        ("contexts", found.contexts),
        ("budget", dollars(found.budget_cents)),
        *((f"round {one.number}", _round_text(one)) for one in found.rounds),
    ]
    show(_details_data(found), table(("", name), facts))


def _details_data(found: "TaskDetails") -> dict[str, Any]:
    return {
        "task": found.task,
        "title": found.title,
        "kind": found.kind,
        "folder": found.folder,
        "contexts": found.contexts,
        "budget_cents": found.budget_cents,
        "rounds": [
            {
                "round": one.number,
                "status": one.status.value,
                "opened": one.opened_at,
                "closes": one.closes_at,
                "versions": list(one.versions),
                "examples": one.collected.examples,
                "by_status": one.collected.by_status,
                "not_counted": one.collected.not_counted,
                "fooled": one.collected.fooled,
                "target_fooling": one.target_fooling,
                "attempts": one.collected.attempts,
            }
            for one in found.rounds
        ],
    }


def _round_text(one: "RoundSummary") -> str:
    if one.status.value == "draft":
        return "draft"
    had = one.collected
    statuses = ", ".join(f"{number:,} {status}" for status, number in sorted(had.by_status.items()))
    examples = f"{count(had.examples, 'example')}, {had.fooled:,} fooled"
    examples += (f" ({statuses})" if statuses else "") + not_counted_text(had.not_counted)
    return f"{one.status.value} against {', '.join(one.versions)}; {count(had.attempts, 'attempt')}, {examples}"


def _next_step(settings: Settings, name: str, status: str) -> str:
    from ml_backend.artefact import list_versions

    if status != "draft":
        return f"outfox task show {name}"
    if list_versions(settings.models_path, name):
        return command_for(Hint("open_round", task=name))
    return command_for(Hint("train_model", task=name))
