"""`outfox model lineage`: the way of a version back to its seed and rounds."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count
from plugin.cli.model_training import pack_of
from plugin.cli.output import json_option, show, table
from plugin.errors import PluginError
from plugin.settings import Settings
from plugin.wiring import Application

if TYPE_CHECKING:
    from ml_backend.manifest import Manifest
    from ml_backend.registry.registry import Registry
    from round_manager.learning.lineage import Ancestor

DIFFERS = 2


@click.command()
@click.argument("task")
@click.argument("version", required=False)
@click.option("--check", is_flag=True, help="Read the rows again and compare their hashes; exit code 2 if one differs.")
@json_option
@click.pass_obj
def lineage(app: Application, task: str, version: str | None, check: bool) -> None:
    """Show what a version learned from and what was measured of it. Default: the versions that answer."""
    settings = app.settings
    from ml_backend.registry.registry import open_registry
    from round_manager.database.store import open_store
    from round_manager.learning.lineage import lineage as line_of
    from round_manager.tasks.tasks import find_task

    registry = open_registry(settings.registry_location, settings.cache_path / "models")
    with open_store(settings.database) as store, store.read() as session:
        found = find_task(session, task)
        asked = [version] if version else _answering(registry, task)
        lines = [line_of(session, found, one, lambda name: _manifest(registry, task, name)) for one in asked]
    data: dict[str, Any] = {"task": task, "lines": [[asdict(one) for one in line] for line in lines]}
    texts: list[RenderableType] = [part for line in lines for one in line for part in _told(one)]
    if check:
        newest = [line[0] for line in lines]
        data["differs"] = _checked(settings, task, newest)
        texts.append(_compared(data["differs"], newest))
    show(data, Group(*texts))
    if data.get("differs"):
        raise click.exceptions.Exit(DIFFERS)


def _answering(registry: "Registry", task: str) -> Sequence[str]:
    pins = registry.pins(task)
    if pins is None:
        raise PluginError(f"no version of {task} answers yet; name one, `outfox model list {task}` shows them")
    return pins.versions


def _manifest(registry: "Registry", task: str, version: str) -> "Manifest | None":
    """What the registry says of a version; None where it has none that is whole."""
    from ml_backend.artefact import read_manifest
    from ml_backend.errors import ModelError

    try:
        return read_manifest(registry.fetch(task, version))
    except ModelError:
        return None


def _checked(settings: Settings, task: str, versions: Sequence["Ancestor"]) -> list[str]:
    """The places whose rows have another hash now than when the versions were trained."""
    from round_manager.database.store import open_store
    from round_manager.learning.rows import training_rows
    from round_manager.specs import spec_of
    from round_manager.tasks.tasks import find_task

    pack, differing = pack_of(settings, task), dict[str, None]()
    with open_store(settings.database) as store, store.read() as session:
        row = find_task(session, task)
        for version in (one for one in versions if _rounds(one)):
            now = training_rows(session, row, spec_of(row), pack.seed, up_to=max(_rounds(version)))
            hashes = {"seed" if one.round is None else f"round {one.round}": one.sha256 for one in now.sources}
            differing |= {one.source: None for one in version.learned if hashes.get(one.source) != one.sha256}
    return list(differing)


def _compared(differing: Sequence[str], versions: Sequence["Ancestor"]) -> str:
    if differing:
        return f"there are other rows now: {', '.join(differing)}"
    if not any(_rounds(version) for version in versions):
        return f"{', '.join(one.version for one in versions)} did not learn from rounds; there is nothing to compare"
    return "the rows are what they were, by their hashes"


def _rounds(version: "Ancestor") -> list[int]:
    return [int(one.source.removeprefix("round ")) for one in version.learned if one.source != "seed"]


def _told(one: "Ancestor") -> list[RenderableType]:
    head = f"{one.version} ({one.mode}, from {one.base}), {count(one.rows, 'row')}, {one.sha256[:12]}"
    played = f"; played against in round {', '.join(map(str, one.played_in))}" if one.played_in else ""
    texts: list[RenderableType] = [head + played]
    if one.learned:
        columns = ("learned from", "rows", "left out", "SHA-256", "played against", "closed")
        rows = [
            [
                learned.source,
                learned.rows,
                learned.left_out,
                learned.sha256[:12],
                ", ".join(learned.against),
                f"{learned.closed_at:%Y-%m-%d}" if learned.closed_at else "",
            ]
            for learned in one.learned
        ]
        texts.append(table(columns, rows))
    if one.figures:
        measured = [[figure.dataset, figure.rows, f"{figure.metric} {figure.points:.1f}"] for figure in one.figures]
        texts.append(table(("measured on", "rows", "points"), measured))
    return texts
