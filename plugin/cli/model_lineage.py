"""`outfox model lineage`: trace a version back to its seed and rounds."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count
from plugin.cli.output import json_option, show, table
from plugin.cli.parameters import task_pack
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.learning.lineage import Ancestor

DIFFERS = 2


@click.command()
@click.argument("task")
@click.argument("version", required=False)
@click.option("--check", is_flag=True, help="Read the rows again and compare their hashes; exit code 2 if one differs.")
@json_option
@click.pass_obj
def lineage(app: Application, task: str, version: str | None, check: bool) -> None:
    """Show what a version was trained and evaluated on. Default: the versions that serve."""
    from round_manager.services.model_versions import changed_sources, trace_versions

    with app.services() as context:
        lines = trace_versions(context, app.registry(), task, version)
        data: dict[str, Any] = {"task": task, "lines": [[asdict(one) for one in line] for line in lines]}
        texts: list[RenderableType] = [part for line in lines for one in line for part in _describe(one)]
        if check:
            newest = [line[0] for line in lines]
            seed = task_pack(context.store, app.settings, task).seed
            data["differs"] = changed_sources(context, task, seed, newest)
            texts.append(_check_result(data["differs"], newest))
    show(data, Group(*texts))
    if data.get("differs"):
        raise click.exceptions.Exit(DIFFERS)


def _check_result(changed: Sequence[str], versions: Sequence["Ancestor"]) -> str:
    if changed:
        return f"the rows have changed: {', '.join(changed)}"
    if not any(version.rounds for version in versions):
        names = ", ".join(one.version for one in versions)
        return f"{names} was not trained on rounds; there is nothing to compare"
    return "the rows are unchanged, by their hashes"


def _describe(one: "Ancestor") -> list[RenderableType]:
    head = f"{one.version} ({one.mode}, from {one.base}), {count(one.rows, 'row')}, {one.sha256[:12]}"
    played = f"; target of round {', '.join(map(str, one.played_in))}" if one.played_in else ""
    texts: list[RenderableType] = [head + played]
    if one.learned:
        columns = ("trained on", "rows", "left out", "SHA-256", "played against", "closed")
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
        scores = [[score.dataset, score.rows, f"{score.metric} {score.points:.1f}"] for score in one.figures]
        texts.append(table(("evaluated on", "rows", "points"), scores))
    return texts
