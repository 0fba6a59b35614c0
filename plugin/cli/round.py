"""`outfox round`: open a task's rounds, end them, and see them."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from plugin.cli.crowd_context import DOLLARS
from plugin.cli.output import json_option, show, table
from plugin.cli.parameters import WHOLE_NUMBER
from plugin.cli.progress import ProgressBar
from plugin.cli.rotation import REGISTRY, TIMEOUT, WHY
from plugin.cli.round_archive import freeze, verify
from plugin.cli.round_life import close, pause_it, resume_it, show_one
from plugin.cli.round_metrics import metrics
from plugin.cli.round_validation import aggregate, decide, flags
from plugin.operator import operator_name
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.database.store import Store

# A backend looks for new tasks every two seconds, and then loads a model.
SECONDS_TO_TAKE_IN = 15.0
NOT_SERVED = (
    "no process serves {task}, and nobody gets verdicts: start `outfox ml-backend` without --tasks, or with {task} "
    "among them; one that runs so tells in its log why it does not"
)


@click.group("round")
def rounds() -> None:
    """Open the rounds of a task, end them, and see them."""


for command in (aggregate, close, decide, flags, freeze, metrics, pause_it, resume_it, show_one, verify):
    rounds.add_command(command)


@rounds.command("open")
@click.argument("task")
@click.option(
    "--version",
    "versions",
    multiple=True,
    metavar="VERSION",
    help="A model version to play against; several play together. Default: the task's pinned ones, else the newest.",
)
@WHY
@TIMEOUT
@REGISTRY
@json_option
@click.pass_obj
def open_next(
    app: Application, task: str, versions: tuple[str, ...], why: str, timeout: float, where: str | None
) -> None:
    """Open the task's next round against pinned model versions; safe to run again.

    Where the task is connected to Label Studio, its writers get this round's verdicts from then on.

    Exit code 3: not every serving process confirmed the versions; the round stays a draft.
    """
    settings = app.settings
    from common.clock import SystemClock
    from ml_backend.registry.registry import open_registry
    from ml_backend.registry.rotation import wait_for_servers
    from ml_backend.targets.loading import load_target
    from plugin.round_opening import RoundOpening
    from round_manager.database.store import open_store

    place = where or settings.registry_location
    with open_store(settings.database) as store, ProgressBar() as progress:
        registry = open_registry(place, settings.cache_path / "models")
        opening = RoundOpening(store, registry, place, load_target, SystemClock(), timeout, progress)
        opened = opening.open(task, versions, who=operator_name(), why=why)
        servers = [beat.name for beat in wait_for_servers(registry, task, min(timeout, SECONDS_TO_TAKE_IN))]
        followed = _follow(app, store, task)
        paused = opened.already and _is_paused(store, task)
    data = {"task": task, "round": opened.number, "versions": list(opened.versions), "already": opened.already}
    was = "is open already" if opened.already else "is open"
    text = f"round {opened.number} of {task} {was}, against {', '.join(opened.versions)}"
    text += f"; it is paused, and `outfox round resume {task}` goes on" if paused else ""
    lines = [text, "" if servers else NOT_SERVED.format(task=task), followed]
    show({**data, "servers": servers, "label_studio": followed or None}, "\n".join(filter(None, lines)))


def _is_paused(store: "Store", task: str) -> bool:
    from round_manager.tasks.rounds import live_round
    from round_manager.tasks.tasks import find_task

    with store.read() as session:
        live = live_round(session, find_task(session, task).id)
    return live is not None and live.paused_at is not None


def _follow(app: Application, store: "Store", task: str) -> str:
    """Point the task's connection in Label Studio at the round; a failure is reported, and the round stays open."""
    from round_manager.labelstudio.errors import LabelStudioError
    from round_manager.services.context import ServiceContext

    context = ServiceContext(store, app.clock)
    connected = app.connected_label_studio(lambda: context)
    try:
        url = connected.follow(task) if connected and task in connected.tasks() else None
        return f"Label Studio uses the ML backend at {url} now" if url else ""
    except LabelStudioError as error:
        return f"Label Studio does not use this round's models yet; the manager retries: {error}"


@rounds.command("budget")
@click.argument("task")
@click.argument("cents", type=DOLLARS, metavar="DOLLARS")
@click.option(
    "--round", "number", type=WHOLE_NUMBER, help="Which round. Default: the one that is open, else the draft."
)
@WHY
@json_option
@click.pass_obj
def set_budget(app: Application, task: str, cents: int, number: int | None, why: str) -> None:
    """Set what a round may cost, fees included; not below what is reserved or spent, nor above the task's budget."""
    settings = app.settings
    from common.clock import SystemClock
    from common.money import dollars
    from round_manager.database.store import open_store
    from round_manager.money.budget import set_round_budget
    from round_manager.tasks.rounds import find_round, list_rounds, live_round
    from round_manager.tasks.tasks import find_task

    with open_store(settings.database) as store, store.write() as session:
        owner = find_task(session, task)
        chosen = find_round(session, owner, number) if number else live_round(session, owner.id)
        chosen = chosen or list_rounds(session, owner)[-1]
        now = SystemClock().now()
        left = set_round_budget(session, owner, chosen, cents, who=operator_name(), why=why, now=now)
    data = {"task": task, "round": chosen.number, "budget_cents": cents, "released_cents": left.released_cents}
    text = f"round {chosen.number} of {task} may cost {dollars(cents)}; {dollars(left.released_cents)} of it is free"
    show(data, text)


@rounds.command("list")
@click.argument("task")
@json_option
@click.pass_obj
def list_all(app: Application, task: str) -> None:
    """List a task's rounds: status, models, and what was collected."""
    settings = app.settings
    from round_manager.database.store import open_store
    from round_manager.tasks.rounds import collected, list_rounds, pinned_versions
    from round_manager.tasks.tasks import find_task

    data = []
    with open_store(settings.database) as store, store.read() as session:
        for one in list_rounds(session, find_task(session, task)):
            had = collected(session, one)
            figures = {"examples": had.examples, "fooled": had.fooled, "attempts": had.attempts,
                       "not_counted": sum(had.not_counted.values())}  # fmt: skip
            told = {"round": one.number, "status": one.status.value, "versions": list(pinned_versions(session, one))}
            data.append({**told, "opened": one.opened_at, **figures})
    columns = ["round", "status", "versions", "opened", "examples", "fooled", "attempts"]
    # Most rounds have nothing that nobody confirmed.
    columns += ["not_counted"] if any(one["not_counted"] for one in data) else []
    rows = [[_plain(one[column]) for column in columns] for one in data]
    show(data, table([column.replace("_", " ") for column in columns], rows))


def _plain(value: object) -> object:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="minutes").replace("+00:00", " UTC")
    return "" if value is None else value
