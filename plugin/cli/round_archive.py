"""`outfox round freeze` and `outfox round verify`: write the archive of a closed round, and check an archive."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.text import count
from plugin.cli.output import data_command, show
from plugin.cli.parameters import WHY, round_option
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.archive.freeze import Frozen
    from round_manager.services.archives import ArchiveVerified

ROUND = round_option("the newest closed round")
NOT_VALID = 1


@click.command()
@click.argument("task")
@ROUND
@click.option("--to", "place", metavar="PLACE", help="A folder or s3://bucket/prefix. Default: the setting `archives`.")
@click.option("--move", is_flag=True, help="Make the archive at PLACE the round's own, which is served.")
@WHY
@data_command
def freeze(app: Application, task: str, number: int | None, place: str | None, move: bool, why: str) -> None:
    """Write a closed round's archive (Parquet, JSON lines, manifest) and fix its splits; safe to repeat.

    A round that is frozen already gets an identical copy at another PLACE. For example:
    outfox round freeze sentiment --round 1 --to s3://our-data/rounds
    """
    from round_manager.archive.storage import open_archives
    from round_manager.services.archives import freeze_round

    archives = open_archives(place) if place else app.archives()
    with app.services() as services, ProgressBar() as progress:
        done = freeze_round(
            services, app.actor, task, archives, number=number, reason=why, move=move, progress=progress
        )
    splits = done.splits
    data = {"task": task, "round": done.round, "archive": done.where, "sha256": done.sha256, "rows": done.rows}
    state = "is already frozen, and its archive is unchanged" if done.already else "is frozen"
    lines = [
        f"round {done.round} of {task} {state}: {done.where}",
        ", ".join(count(done.rows[f"{one}s"], one) for one in ("example", "vote", "attempt")),
        f"{splits.train:,} to train on and {splits.held_out:,} held out, of {splits.verified:,} verified",
        f"{count(splits.exact_duplicates, 'exact duplicate')}, {count(splits.near_duplicates, 'near duplicate')}",
        *([splits.note] if splits.note else []),
        *_own_archive(done),
    ]
    show({**data, "own_archive": done.own, "splits": splits.as_data(), "already": done.already}, "\n".join(lines))


@click.command()
@click.argument("what", metavar="PLACE|TASK")
@ROUND
@data_command
def verify(app: Application, what: str, number: int | None) -> int:
    """Check an archive: hashes, both formats of every table and counts; recompute gold labels and splits.

    PLACE is the folder of an archive (with a / in it, or in the current folder) or s3://bucket/prefix. For a TASK, the
    archive is also compared with the database. For example: outfox round verify archives/sentiment/round-1

    Exit code 1: the archive is not valid.
    """
    from round_manager.errors import ArchiveCorrupt

    try:
        found = _verified(app, what, number)
    except ArchiveCorrupt as error:
        show({"archive": what, "checked": [], "unchecked": [], "problems": [str(error)]}, str(error))
        return NOT_VALID
    result, manifest = found.result, found.result.manifest
    data = {"task": manifest.task, "round": manifest.round, "archive": found.uri, "sha256": manifest.sha256}
    valid = f"round {manifest.round} of {manifest.task} is valid ({', '.join(result.checked)}): {found.uri}"
    unchecked = [f"not checked: {', '.join(result.unchecked)}"] if result.unchecked else []
    lists = {"checked": list(result.checked), "unchecked": list(result.unchecked), "problems": list(result.problems)}
    show({**data, **lists}, "\n".join(result.problems or [valid, *unchecked]))
    return NOT_VALID if result.problems else 0


def _verified(app: Application, what: str, number: int | None) -> "ArchiveVerified":
    from round_manager.archive.files import FILE
    from round_manager.services.archives import verify_archive, verify_round

    # A folder without a manifest may just have the name of a task.
    if "/" in what or (Path(what) / FILE).is_file():
        return verify_archive(what)
    with app.services() as services:
        return verify_round(services, what, number=number)


def _own_archive(done: "Frozen") -> list[str]:
    if done.own != done.where:
        return [f"the round's own archive is still at {done.own}; use --move to make it this one"]
    return [f"the round's own archive is now at {done.own}"] if done.moved else []
