"""`outfox task gold` and `outfox round withheld`: items with a known answer, and examples that archives leave out."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Group

from common.errors import Hint
from common.text import count
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import DRY_RUN, WHOLE_NUMBER, WHY
from plugin.hints import with_command
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.services.gold import GoldSummary
    from round_manager.tasks.gold import GoldUploaded


@click.command()
@click.argument("task")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("--replace", is_flag=True, help="Retire all items of earlier files that are not in this one.")
@WHY
@DRY_RUN
@data_command
def gold(app: Application, task: str, file: Path | None, replace: bool, why: str, dry_run: bool) -> None:
    """Add private gold from a JSONL file: all rows, or none and a list of errors. Without FILE, show what there is.

    Gold items have a known answer and are mixed in among examples to validate. Each row has the fields of `seed.jsonl`
    (without `split`). Keep the file private, and outside the pack: a row that workers can look up, in the seed, in a
    context or in a round, is refused. Uploading the same file again changes nothing.

    Example: outfox task gold nli ~/private/gold.jsonl --dry-run
    """
    if file is None:
        _show_gold(app, task)
        return
    from round_manager.services.gold import upload_gold
    from templates import find_pack
    from templates.rows import read_gold

    path = file
    with app.services() as services:
        pack = find_pack(task, app.settings.templates_path)
        done = upload_gold(
            services,
            app.actor,
            task,
            lambda spec: read_gold(path, spec),
            file=path.name,
            seed=pack.seed,
            replace=replace,
            reason=why,
            dry_run=dry_run,
        )
    show({"task": task, "dry_run": dry_run, **asdict(done)}, _upload_text(task, done, dry_run=dry_run))


@click.command()
@click.argument("task")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--round", "number", type=WHOLE_NUMBER, metavar="N", help="The round's number; required with FILE.")
@data_command
def withheld(app: Application, task: str, file: Path | None, number: int | None) -> None:
    """Show how many verified examples each archive leaves out because they serve as gold.

    With FILE, write those of a round that are retired as gold, as lines of the archive's examples.jsonl.

    Example: outfox round withheld sentiment round-1-withheld.jsonl --round 1
    """
    from round_manager.services.gold import retired_rows, show_gold

    if file is not None and number is None:
        raise click.UsageError("--round is required with FILE")
    with app.services() as services:
        rounds = [one for one in show_gold(services, task).withheld if number in (None, one.round)]
        lines = retired_rows(services, task, number) if file is not None and number is not None else []
    written = {}
    if file is not None:
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        written = {"file": str(file), "written": len(lines)}
    rows = [(one.round, one.examples, one.live) for one in rounds]
    shown = (
        [table(("round", "withheld", "still gold"), rows)] if rows else [f"no archive of {task} leaves out examples"]
    )
    wrote = [f"{count(len(lines), 'example')} written to {file}"] if file is not None else []
    show({"task": task, "rounds": [asdict(one) for one in rounds], **written}, Group(*shown, *wrote))


def _show_gold(app: Application, task: str) -> None:
    from round_manager.services.gold import show_gold

    with app.services() as services:
        found = show_gold(services, task)
    data = {"task": task, **asdict(found.counts), "withheld": [asdict(one) for one in found.withheld]}
    show(data, _gold_text(task, found))


def _gold_text(task: str, found: "GoldSummary") -> str:
    counts = found.counts
    text = f"{task}: {count(counts.items, 'private item')} in use and {counts.items_retired:,} retired"
    text += f"; {count(counts.examples, 'verified example')} in use and {counts.examples_retired:,} retired"
    return text if counts.live else with_command(text, Hint("upload_gold", task=task))


def _upload_text(task: str, done: "GoldUploaded", *, dry_run: bool) -> str:
    parts = [
        f"{count(done.added, 'gold item')} added",
        *([f"{done.restored:,} restored"] if done.restored else []),
        *([f"{done.retired:,} retired"] if done.retired else []),
        *([f"{done.spent:,} seen by enough workers before"] if done.spent else []),
        f"{done.unchanged:,} unchanged",
    ]
    text = f"{task}: {', '.join(parts)}; {done.live:,} in use"
    return f"{text}; this was a dry run, nothing was changed" if dry_run else text
