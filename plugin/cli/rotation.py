"""`outfox model rotate` and its companions: which versions answer, and whether they are whole."""

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from plugin.cli.output import json_option, show, table
from plugin.cli.parameters import WHOLE_NUMBER
from plugin.cli.progress import ProgressBar
from plugin.errors import PluginError
from plugin.operator import operator_name
from plugin.settings import Settings
from plugin.wiring import Application

if TYPE_CHECKING:
    from ml_backend.registry.pins import Pins
    from ml_backend.registry.registry import Registry

DAMAGED = 2

REGISTRY = click.option(
    "--registry", "where", metavar="URL", help="A folder or s3://bucket/prefix. Default: the setting `registry`."
)
ROUND = click.option(
    "--round", "number", type=WHOLE_NUMBER, metavar="N", help="Only for this round; default: the task's current."
)
WHY = click.option("--why", default="", metavar="TEXT", help="What for; it is kept with the change.")
TIMEOUT = click.option(
    "--timeout", type=click.FloatRange(0.1, 3600), default=60.0, show_default=True, help="Seconds for all to confirm."
)


@click.command()
@click.argument("task")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
@ROUND
@WHY
@TIMEOUT
@REGISTRY
@json_option
@click.pass_obj
def rotate(
    app: Application,
    task: str,
    versions: tuple[str, ...],
    number: int | None,
    why: str,
    timeout: float,
    where: str | None,
) -> None:
    """Let other versions answer; returns when no serving process answers with the old ones any more.

    Several versions answer together. Exit code 2: refused, 3: not every process confirmed it; the old ones go on.
    A round that is open or validating keeps the versions that it was opened with: others are refused for it.
    """
    settings = app.settings
    from ml_backend.registry.rotation import rotate as rotate_to
    from ml_backend.targets.loading import load_target

    registry, began = _open(settings, where), time.monotonic()
    _check_round(settings, task, number, versions)
    with ProgressBar() as progress:
        pins = rotate_to(
            registry,
            task,
            versions,
            round=number,
            load=load_target,
            timeout=timeout,
            progress=progress,
            who=operator_name(),
            why=why,
        )
    _show_pinned(registry, pins, time.monotonic() - began)


@click.command()
@click.argument("task")
@ROUND
@WHY
@TIMEOUT
@REGISTRY
@json_option
@click.pass_obj
def rollback(app: Application, task: str, number: int | None, why: str, timeout: float, where: str | None) -> None:
    """Rotate to the versions that were pinned before; once more goes further back."""
    settings = app.settings
    from ml_backend.registry.rotation import rollback as rotate_back
    from ml_backend.targets.loading import load_target

    registry, began = _open(settings, where), time.monotonic()
    before = registry.pin_set(task).before(number)
    _check_round(settings, task, number, before.versions if before else ())
    with ProgressBar() as progress:
        pins = rotate_back(
            registry,
            task,
            round=number,
            load=load_target,
            timeout=timeout,
            progress=progress,
            who=operator_name(),
            why=why,
        )
    _show_pinned(registry, pins, time.monotonic() - began)


@click.command()
@click.argument("task", required=False)
@REGISTRY
@json_option
@click.pass_obj
def pins(app: Application, task: str | None, where: str | None) -> None:
    """Show which versions are pinned, by whom, when and why, and the processes that serve them."""
    settings = app.settings
    registry = _open(settings, where)
    tasks = [task] if task else registry.tasks()
    pinned = [one for name in tasks for one in _pinned(registry, name)]
    servers = [one for name in tasks for one in _servers(registry, name)]
    texts: list[RenderableType] = [_listed(rows) for rows in (pinned, servers) if rows]
    if not pinned:
        texts.append("nothing is pinned yet; `outfox model rotate TASK VERSION` pins a version")
    show({"pins": pinned, "servers": servers}, Group(*texts))


@click.command()
@click.argument("task", required=False)
@click.argument("version", required=False)
@REGISTRY
@json_option
@click.pass_obj
def verify(app: Application, task: str | None, version: str | None, where: str | None) -> None:
    """Compare every file of the versions with the hashes in their manifests; exit code 2 if one is damaged."""
    settings = app.settings
    from ml_backend.errors import ModelError
    from ml_backend.registry.registry import open_registry

    found: list[dict[str, Any]] = []
    with TemporaryDirectory() as cache, ProgressBar() as progress:
        # A cache of its own: what is in the registry is looked at, not what was fetched from it before.
        registry = open_registry(where or settings.registry_location, Path(cache))
        asked = [(name, registry.versions(name)) for name in ([task] if task else registry.tasks())]
        chosen = [(name, one) for name, known in asked for one in ([version] if version else known)]
        progress.start(len(chosen), "The files are compared with their hashes")
        for name, one in chosen:
            try:
                registry.fetch(name, one)
                error = None
            except ModelError as damage:
                error = str(damage)
            found.append({"task": name, "version": one, "whole": error is None, "error": error})
            progress.advance(1, one)
        progress.finish()
    rows = [(one["task"], one["version"], "whole" if one["whole"] else f"DAMAGED: {one['error']}") for one in found]
    show(found, table(("task", "version", "files"), rows) if rows else "there is no model version")
    if not all(one["whole"] for one in found):
        raise click.exceptions.Exit(DAMAGED)


@click.command()
@click.argument("task")
@click.argument("version")
@click.option("--to", "where", required=True, metavar="URL", help="Where to: a folder or s3://bucket/prefix.")
@json_option
@click.pass_obj
def publish(app: Application, task: str, version: str, where: str) -> None:
    """Copy a version that was trained here to another registry; nobody sees it before it is whole."""
    settings = app.settings
    from ml_backend.artefact import version_folder

    registry = _open(settings, where)
    directory = version_folder(settings.models_path, task, version)
    with ProgressBar() as progress:
        progress.start(0, f"{version} goes to {where}")
        registry.publish(directory)
        progress.finish()
    show({"task": task, "version": version, "registry": where}, f"{version} of {task} is in {where}")


def _open(settings: Settings, where: str | None) -> "Registry":
    from ml_backend.registry.registry import open_registry

    return open_registry(where or settings.registry_location, settings.cache_path / "models")


def _check_round(settings: Settings, task: str, number: int | None, versions: Sequence[str]) -> None:
    """A PluginError where the round is live with other versions: verdicts of these would be refused in it as stale.

    Where there is no database to ask, a registry alone is served, and there are no rounds to break.
    """
    from round_manager.database.store import open_store
    from round_manager.errors import StoreError, TaskError
    from round_manager.tasks.rounds import live_round, pinned_versions
    from round_manager.tasks.tasks import find_task

    if number is None or not versions:
        return
    try:
        with open_store(settings.database) as store, store.read() as session:
            live = live_round(session, find_task(session, task).id)
            pinned = pinned_versions(session, live) if live and live.number == number else tuple(versions)
    except (StoreError, TaskError):
        return
    if pinned != tuple(versions):
        named = " ".join(f"--version {version}" for version in versions)
        cure = f"close it (`outfox round close {task}`), then `outfox round open {task} {named}` opens the next"
        raise PluginError(f"round {number} of {task} is live and keeps {', '.join(pinned)}; {cure}")


def _show_pinned(registry: "Registry", pinned: "Pins", seconds: float) -> None:
    servers = [beat.name for beat in registry.heartbeats(pinned.task)]
    data = {
        "task": pinned.task,
        "round": pinned.round,
        "generation": pinned.generation,
        "versions": list(pinned.versions),
        "servers": servers,
        "seconds": round(seconds, 2),
    }
    followers = f"confirmed by {', '.join(servers)}" if servers else "nobody serves this task now"
    what = pinned.task if pinned.round is None else f"round {pinned.round} of {pinned.task}"
    show(data, f"{what}: {', '.join(pinned.versions)} answers now (generation {pinned.generation}; {followers})")


def _pinned(registry: "Registry", task: str) -> list[dict[str, Any]]:
    pin_set = registry.pin_set(task)
    changes = {change.generation: change for change in pin_set.history}
    found = []
    for one in pin_set.all():
        change = changes.get(one.generation)
        told = {"when": change.at[:19], "who": change.who, "why": change.why} if change else {}
        slot: dict[str, Any] = {"round": one.round, "generation": one.generation, "versions": list(one.versions)}
        found.append({"task": task, **slot, "when": "", "who": "", "why": "", **told})
    return found


def _servers(registry: "Registry", task: str) -> list[dict[str, Any]]:
    generation = registry.pin_set(task).generation
    found = []
    for beat in registry.heartbeats(task):
        served = beat.tasks[task]
        told = {"follows": served.generation == generation, "errors": [failure.error for failure in served.failures]}
        found.append({"task": task, "served by": beat.name, **told})
    return found


def _listed(rows: list[dict[str, Any]]) -> RenderableType:
    return table(list(rows[0]), [[_plain(value) for value in row.values()] for row in rows])


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else value
