"""`outfox task`: packs made live."""

from typing import TYPE_CHECKING, Any

import click

from common.money import dollars
from common.text import count as number
from plugin.cli.crowd_texts import not_counted_text
from plugin.cli.output import json_option, show, table
from plugin.cli.parameters import PACK
from plugin.operator import operator_name
from plugin.settings import DATABASE, Settings
from plugin.wiring import Application
from templates import Pack, PackError

if TYPE_CHECKING:
    from round_manager.database.store import Store
    from round_manager.models import Round, Task


@click.group()
def task() -> None:
    """Make tasks from packs, and see how they do."""


@task.command()
@click.argument("pack", type=PACK)
@json_option
@click.pass_obj
def create(app: Application, pack: Pack) -> None:
    """Check a pack and make its task, or bring it up to date; safe to run again."""
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.tasks.contexts import count_contexts
    from round_manager.tasks.rounds import list_rounds
    from round_manager.tasks.tasks import create_task

    if problems := app.check_pack(pack):
        raise PackError(problems)
    # Whoever makes their first task has no database yet; one that is there is upgraded only when its owner says so.
    first = not settings.database_url and not (settings.make_home() / DATABASE).exists()
    with open_store(settings.database, upgrade=first) as store, store.write() as session:
        made = create_task(session, pack, who=operator_name(), now=SystemClock().now())
        last = list_rounds(session, made)[-1]
        contexts = count_contexts(session, made.id)
    step = _next_step(settings, made.name, last)
    data = {"task": made.name, "contexts": contexts, "round": last.number, "status": last.status.value}
    text = f"{made.name}: {number(contexts, 'context')}, round {last.number} is {_words(last)}"
    show({**data, "next": step}, f"{text}; next: `{step}`")


@task.command("list")
@json_option
@click.pass_obj
def list_all(app: Application) -> None:
    """List the tasks, with their last round."""
    settings = app.settings
    from round_manager.database.store import open_store
    from round_manager.tasks.rounds import list_rounds
    from round_manager.tasks.tasks import list_tasks

    with open_store(settings.database) as store, store.read() as session:
        found = [(one, list_rounds(session, one)[-1]) for one in list_tasks(session)]
    data = [{"task": one.name, "kind": one.spec["kind"], "round": last.number, "status": last.status.value}
            for one, last in found]  # fmt: skip
    nothing = "there is no task yet; `outfox task create PACK` makes one"
    show(data, table(("task", "kind", "round", "status"), [list(one.values()) for one in data]) if data else nothing)


@task.command("show")
@click.argument("name", metavar="TASK")
@json_option
@click.pass_obj
def show_one(app: Application, name: str) -> None:
    """Show a task: its rounds, their models, and what was collected."""
    settings = app.settings
    from round_manager.database.store import open_store

    with open_store(settings.database) as store:
        data = _overview(store, name)
    facts = [(key, data[key]) for key in ("title", "kind", "folder", "contexts")]
    facts += [("budget", dollars(data["budget_cents"]))]
    facts += [(f"round {one['round']}", _told(one)) for one in data["rounds"]]
    show(data, table(("", name), facts))


def _overview(store: "Store", name: str) -> dict[str, Any]:
    from round_manager.tasks.contexts import count_contexts
    from round_manager.tasks.rounds import collected, list_rounds, pinned_versions
    from round_manager.tasks.tasks import find_task

    with store.read() as session:
        found: Task = find_task(session, name)
        rounds = []
        for one in list_rounds(session, found):
            had = collected(session, one)
            rounds.append(
                {
                    "round": one.number,
                    "status": one.status.value,
                    "opened": one.opened_at,
                    "closes": one.closes_at,
                    "versions": list(pinned_versions(session, one)),
                    "examples": had.examples,
                    "by_status": had.by_status,
                    "not_counted": had.not_counted,
                    "fooled": had.fooled,
                    "target_fooling": one.target_fooling,
                    "attempts": had.attempts,
                }
            )
        return {
            "task": found.name,
            "title": found.spec["title"],
            "kind": found.spec["kind"],
            "folder": found.folder,
            "contexts": count_contexts(session, found.id),
            "budget_cents": found.budget_cents,
            "rounds": rounds,
        }


def _told(one: dict[str, Any]) -> str:
    if one["status"] == "draft":
        return "draft"
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(one["by_status"].items()))
    examples = f"{number(one['examples'], 'example')}, {one['fooled']:,} fooled"
    examples += (f" ({statuses})" if statuses else "") + not_counted_text(one["not_counted"])
    return f"{one['status']} against {', '.join(one['versions'])}; {number(one['attempts'], 'attempt')}, {examples}"


def _next_step(settings: Settings, name: str, last: "Round") -> str:
    from ml_backend.artefact import list_versions

    if last.status.value != "draft":
        return f"outfox task show {name}"
    return f"outfox round open {name}" if list_versions(settings.models_path, name) else f"outfox model train {name}"


def _words(last: "Round") -> str:
    return "a draft" if last.status.value == "draft" else last.status.value
