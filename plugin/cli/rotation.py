"""`outfox model rotate`, `rollback`, `pins`, `verify` and `publish`: pinned versions and the files of versions."""

import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from plugin.cli.output import data_command, data_table, show, table
from plugin.cli.parameters import REGISTRY, TIMEOUT, WHY, round_option
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.services.context import ServiceContext

DAMAGED = 2

ROUND = round_option("the whole task")


@click.command()
@click.argument("task")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
@ROUND
@WHY
@TIMEOUT
@REGISTRY
@data_command
def rotate(
    app: Application,
    task: str,
    versions: tuple[str, ...],
    number: int | None,
    why: str,
    timeout: float,
    where: str | None,
) -> None:
    """Pin other versions, and wait until no serving process answers with the old ones.

    Several versions answer together. Exit code 2: refused; 3: not every process confirmed, and the old versions stay.
    A round that is open or validating keeps the versions that it was opened with; others are refused for it.
    """
    _rotate(app, task, versions, where, timeout, round_number=number, reason=why)


@click.command()
@click.argument("task")
@ROUND
@WHY
@TIMEOUT
@REGISTRY
@data_command
def rollback(app: Application, task: str, number: int | None, why: str, timeout: float, where: str | None) -> None:
    """Rotate to the versions that were pinned before; another rollback goes one step further back."""
    _rotate(app, task, (), where, timeout, round_number=number, reason=why)


@click.command()
@click.argument("task", required=False)
@REGISTRY
@data_command
def pins(app: Application, task: str | None, where: str | None) -> None:
    """Show which versions are pinned, by whom, when and why, and the processes that serve them."""
    from round_manager.services.rotation import list_pins, list_servers

    registry = app.registry(where)
    pinned = [{**asdict(one), "versions": list(one.versions)} for one in list_pins(registry, task)]
    servers = [
        {"task": one.task, "served by": one.name, "follows": one.follows, "errors": list(one.errors)}
        for one in list_servers(registry, task)
    ]
    texts: list[RenderableType] = [data_table(rows) for rows in (pinned, servers) if rows]
    if not pinned:
        texts.append("nothing is pinned yet; `outfox model rotate TASK VERSION` pins a version")
    show({"pins": pinned, "servers": servers}, Group(*texts))


@click.command()
@click.argument("task", required=False)
@click.argument("version", required=False)
@REGISTRY
@data_command
def verify(app: Application, task: str | None, version: str | None, where: str | None) -> None:
    """Compare every file of the versions with the hashes in their manifests; exit code 2 if one is damaged."""
    from round_manager.services.rotation import verify_versions

    with TemporaryDirectory() as cache, ProgressBar() as progress:
        # An empty cache: the registry is checked, not what was downloaded from it before.
        found = verify_versions(app.registry(where, cache=Path(cache)), task, version, progress=progress)
    rows = [(one.task, one.version, f"DAMAGED: {one.error}" if one.error else "intact") for one in found]
    data = [{"task": one.task, "version": one.version, "whole": one.error is None, "error": one.error} for one in found]
    show(data, table(("task", "version", "files"), rows) if rows else "there are no model versions")
    if any(one.error for one in found):
        raise click.exceptions.Exit(DAMAGED)


@click.command()
@click.argument("task")
@click.argument("version")
@click.option("--to", "where", required=True, metavar="URL", help="Destination: a folder or s3://bucket/prefix.")
@data_command
def publish(app: Application, task: str, version: str, where: str) -> None:
    """Copy a version that was trained here to another registry; it becomes visible when it is complete."""
    from round_manager.services.rotation import publish_version

    with ProgressBar() as progress:
        progress.start(0, f"Copying {version} to {where}")
        publish_version(app.actor, app.settings.models_path, app.registry(where), task, version)
        progress.finish()
    show({"task": task, "version": version, "registry": where}, f"{version} of {task} is in {where}")


def _services(app: Application, stack: ExitStack) -> "ServiceContext | None":
    """Open the database; return None if there is none that can be used, for a registry that is served on its own."""
    from round_manager.errors import StoreError

    try:
        return stack.enter_context(app.services())
    except StoreError:
        return None


def _rotate(
    app: Application, task: str, versions: tuple[str, ...], where: str | None, timeout: float, **options: Any
) -> None:
    """Pin the versions, or without any those that were pinned before, and print the result."""
    from round_manager.services.rotation import roll_back_models, rotate_models

    began = time.monotonic()
    with ExitStack() as stack:
        context, progress = _services(app, stack), stack.enter_context(ProgressBar())
        models = app.model_deployment(timeout=timeout, registry=where, progress=progress)
        given = (context, app.actor, models, task)
        rotation = rotate_models(*given, versions, **options) if versions else roll_back_models(*given, **options)
    pins, servers = rotation.pins, rotation.servers
    data = {
        "task": pins.task,
        "round": pins.round,
        "generation": pins.generation,
        "versions": list(pins.versions),
        "servers": list(servers),
        "seconds": round(time.monotonic() - began, 2),
    }
    confirmed = f"confirmed by {', '.join(servers)}" if servers else "no process serves this task"
    what = pins.task if pins.round is None else f"round {pins.round} of {pins.task}"
    show(data, f"{what}: {', '.join(pins.versions)} answers now (generation {pins.generation}; {confirmed})")
