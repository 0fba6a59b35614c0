"""`outfox model lineage`: the way of a version back to its seed and rounds."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from plugin.cli.model_training import pack_of
from plugin.cli.output import json_option, show, table
from plugin.errors import PluginError
from plugin.settings import Settings

if TYPE_CHECKING:
    from round_manager.learning.lineage import Ancestor

DIFFERS = 2


@click.command()
@click.argument("task")
@click.argument("version", required=False)
@click.option("--check", is_flag=True, help="Read the rows again and compare their hashes; exit code 2 if one differs.")
@json_option
@click.pass_obj
def lineage(settings: Settings, task: str, version: str | None, check: bool) -> None:
    """Show what a version learned from and what was measured of it. Default: the version that answers."""
    from round_manager.database.store import open_store
    from round_manager.learning.lineage import lineage as line_of
    from round_manager.tasks.tasks import find_task

    with open_store(settings.database) as store, store.read() as session:
        line = line_of(session, find_task(session, task), version or _answering(settings, task))
    checked = _checked(settings, task, line[0]) if check else None
    data: dict[str, Any] = {"task": task, "line": [asdict(one) for one in line]}
    texts: list[RenderableType] = [part for one in line for part in _told(one)]
    if checked is not None:
        data["differs"] = checked
        same = "the rows are what they were, by their hashes"
        texts.append(f"there are other rows now: {', '.join(checked)}" if checked else same)
    show(data, Group(*texts))
    if checked:
        raise click.exceptions.Exit(DIFFERS)


def _answering(settings: Settings, task: str) -> str:
    from ml_backend.registry.registry import open_registry

    pins = open_registry(settings.registry_place, settings.cache_path / "models").pins(task)
    if pins is None:
        raise PluginError(f"no version of {task} answers yet; name one, `outfox model list {task}` shows them")
    return pins.versions[0]


def _checked(settings: Settings, task: str, version: "Ancestor") -> list[str]:
    """The places whose rows have another hash now than when the version was trained."""
    from round_manager.database.store import open_store
    from round_manager.learning.rows import training_rows
    from round_manager.tasks.tasks import find_task, spec_of

    rounds = [one.source.removeprefix("round ") for one in version.learned if one.source != "seed"]
    if not rounds:
        raise PluginError(f"{version.version} did not learn from rounds; there is nothing to check")
    pack = pack_of(settings, task)
    with open_store(settings.database) as store, store.read() as session:
        row = find_task(session, task)
        now = training_rows(session, row, spec_of(row), pack.seed, up_to=max(map(int, rounds)))
    hashes = {"seed" if one.round is None else f"round {one.round}": one.sha256 for one in now.sources}
    return [one.source for one in version.learned if hashes.get(one.source) != one.sha256]


def _told(one: "Ancestor") -> list[RenderableType]:
    head = f"{one.version} ({one.mode}, from {one.base}), {one.rows} rows, {one.sha256[:12]}"
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
