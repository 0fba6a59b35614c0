"""`outfox round freeze` and `outfox round verify`: a closed round becomes an archive, and an archive is proved."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.text import count
from plugin.cli.output import json_option, show
from plugin.cli.parameters import WHOLE_NUMBER
from plugin.cli.progress import ProgressBar
from plugin.cli.rotation import WHY
from plugin.operator import operator_name
from plugin.settings import Settings
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.archive.freeze import Frozen
    from round_manager.archive.verification import Verification

NUMBER = click.option("--round", "number", type=WHOLE_NUMBER, help="Which round. Default: the last closed one.")
NOT_PROVED = 1


@click.command()
@click.argument("task")
@NUMBER
@click.option("--to", "place", metavar="PLACE", help="A folder or s3://bucket/prefix. Default: the setting `archives`.")
@click.option("--move", is_flag=True, help="From now on the archive at PLACE is the round's own, that is served.")
@WHY
@json_option
@click.pass_obj
def freeze(app: Application, task: str, number: int | None, place: str | None, move: bool, why: str) -> None:
    """Write a closed round's archive (Parquet, JSON lines, manifest) and fix its splits; safe to run again.

    A round that is frozen already gets a copy at another PLACE, the same to the byte. For example:
    outfox round freeze sentiment --round 1 --to s3://our-data/rounds
    """
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.archive.freeze import freeze as freeze_round
    from round_manager.archive.freeze import newest_closed
    from round_manager.archive.storage import open_archives
    from round_manager.database.store import open_store
    from round_manager.tasks.rounds import find_round
    from round_manager.tasks.tasks import find_task

    with open_store(settings.database) as store, ProgressBar() as progress:
        with store.read() as session:
            owner = find_task(session, task)
            chosen = find_round(session, owner, number) if number else newest_closed(session, owner)
        archives = open_archives(place or settings.archives_location)
        who = operator_name()
        clock = SystemClock()
        done = freeze_round(store, chosen.id, archives, clock, who=who, why=why, move=move, progress=progress)
    splits = done.splits
    data = {"task": task, "round": done.round, "archive": done.where, "sha256": done.sha256, "rows": done.rows}
    lines = [
        f"round {done.round} of {task} is {'frozen already, and the same' if done.already else 'frozen'}: {done.where}",
        ", ".join(count(done.rows[f"{one}s"], one) for one in ("example", "vote", "attempt")),
        f"{splits.train:,} to train on and {splits.held_out:,} held out, of {splits.verified:,} verified",
        f"{count(splits.exact_duplicates, 'exact duplicate')}, {count(splits.near_duplicates, 'near one')}",
        *([splits.note] if splits.note else []),
        *_moved(chosen.archive_uri, done),
    ]
    show({**data, "own_archive": done.own, "splits": splits.told(), "already": done.already}, "\n".join(lines))


def _moved(before: str | None, done: "Frozen") -> list[str]:
    if done.own != done.where:
        return [f"its own archive is still at {done.own}; --move makes it this one"]
    return [f"its own archive is now at {done.own}"] if before not in (None, done.own) else []


@click.command()
@click.argument("what", metavar="PLACE|TASK")
@NUMBER
@json_option
@click.pass_obj
def verify(app: Application, what: str, number: int | None) -> int:
    """Prove an archive: hashes, both forms of every table, counts, and gold labels and splits, computed again.

    PLACE is an archive's folder (with a / in it, or where you are) or s3://bucket/prefix; TASK is proved against the
    database too. For example: outfox round verify archives/sentiment/round-1

    Exit code 1: the archive is not what it should be.
    """
    settings = app.settings
    from round_manager.archive.manifest import FILE
    from round_manager.errors import ArchiveCorrupt

    where = what
    try:
        # A folder that is called like a task is none of its archives.
        if "/" in what or (Path(what) / FILE).is_file():
            proof = _prove_place(what)
        else:
            where, proof = _prove_task(settings, what, number)
    except ArchiveCorrupt as error:
        show({"archive": where, "checked": [], "unchecked": [], "problems": [str(error)]}, str(error))
        return NOT_PROVED
    manifest = proof.manifest
    data = {"task": manifest.task, "round": manifest.round, "archive": where, "sha256": manifest.sha256}
    proved = f"round {manifest.round} of {manifest.task} is proved ({', '.join(proof.checked)}): {where}"
    taken = [f"taken as they are: {', '.join(proof.unchecked)}"] if proof.unchecked else []
    looked = {"checked": list(proof.checked), "unchecked": list(proof.unchecked), "problems": list(proof.problems)}
    show({**data, **looked}, "\n".join(proof.problems or [proved, *taken]))
    return NOT_PROVED if proof.problems else 0


def _prove_place(place: str) -> "Verification":
    from plugin.recounting import counting
    from round_manager.archive.storage import opened_archive
    from round_manager.archive.verification import verify as prove

    with opened_archive(place) as folder:
        return prove(folder, counting=counting)


def _prove_task(settings: Settings, task: str, number: int | None) -> tuple[str, "Verification"]:
    from plugin.recounting import counting
    from round_manager.archive.freeze import newest_closed
    from round_manager.archive.storage import opened_archive
    from round_manager.archive.verification import verify as prove
    from round_manager.database.store import open_store
    from round_manager.errors import ArchiveError
    from round_manager.tasks.rounds import find_round
    from round_manager.tasks.tasks import find_task

    with open_store(settings.database) as store, store.read() as session:
        owner = find_task(session, task)
        chosen = find_round(session, owner, number) if number else newest_closed(session, owner)
        if chosen.archive_uri is None:
            cure = f"run `outfox round freeze {task}`"
            raise ArchiveError(f"round {chosen.number} of {task} is not frozen yet; {cure}")
        with opened_archive(chosen.archive_uri) as folder:
            return chosen.archive_uri, prove(folder, counting=counting, database=(session, chosen))
