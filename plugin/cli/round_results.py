"""`outfox round metrics`, `freeze` and `verify`: the figures of a round, and the archive of a closed one."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count
from plugin.cli.output import data_command, limited_table, show, table
from plugin.cli.parameters import WHY, round_option
from plugin.cli.progress import ProgressBar
from plugin.cli.round_validation import ROUND
from plugin.wiring import Application

if TYPE_CHECKING:
    from collections.abc import Sequence

    from round_manager.rates import Rate
    from round_manager.services.archives import ArchiveVerified, Frozen
    from round_manager.services.context import ServiceContext
    from round_manager.validation.metrics import Counts, RoundMetrics
    from round_manager.validation.voted_examples import Validator

CLOSED_ROUND = round_option("the newest closed round")
NOT_VALID = 1
PLAIN_COUNTS = ("collected", "fooled", "verified_fooling", "disputed_fooling", "undecided_fooling", "withdrawn",
                "tries", "tries_per_fool", "seconds_per_verified", "cents_per_verified")  # fmt: skip
COLUMNS = ("collected", "fooled", "verified", "MER", "vMER", "attempts/fool", "s/verified", "$/verified")


@click.command()
@click.argument("task")
@ROUND
@click.option(
    "--by",
    type=click.Choice(["worker", "label", "context", "validator"]),
    help="One line per author (by pseudonym), label, context or validator of a round.",
)
@data_command
def metrics(app: Application, task: str, number: int | None, by: str | None) -> None:
    """Show each round's model error rates with 95 % intervals, and the cost of a validated fooling example.

    Everything is recomputed from the votes. docs/validation.md defines each figure.

    Example: outfox round metrics sentiment --round 1 --by label
    """
    with app.services() as services:
        data, text = _rounds(services, task, number) if by is None else _parts(services, task, number, by)
    show(data, text)


def _rounds(services: "ServiceContext", task: str, number: int | None) -> tuple[Any, RenderableType]:
    from round_manager.services.validation import round_metrics

    found = round_metrics(services, task, number=number)
    rows = [[one.number, *_cells(one.counts), _alpha(one)] for one in found]
    data = [_round_data(one) for one in found]
    return data, Group(table(("round", *COLUMNS, "alpha"), rows), *_remarks(found))


def _parts(services: "ServiceContext", task: str, number: int | None, by: str) -> tuple[Any, RenderableType]:
    from round_manager.services.validation import list_validators, metrics_by

    if by == "validator":
        return _validators(list_validators(services, task, number=number))
    found = metrics_by(services, task, by, number=number)
    rows = [[one.name, *_cells(one.counts)] for one in found]
    data = [{by: one.name, **_counts_data(one.counts)} for one in found]
    return data, limited_table((by, *COLUMNS), rows)


def _validators(found: "Sequence[Validator]") -> tuple[Any, RenderableType]:
    columns = ("validator", "worker", "name", "votes", "flags", "agrees with others", "right on gold")
    rows = [
        [one.name, one.worker_id, one.person, one.votes, one.flags, str(one.agreed), str(one.gold)] for one in found
    ]
    data = [
        {"validator": one.name, "votes": one.votes, "flags": one.flags, "agreed": one.agreed.as_data(),
         "gold": one.gold.as_data(), "worker_id": one.worker_id, "name": one.person}
        for one in found
    ]  # fmt: skip
    return data, limited_table(columns, rows)


def _remarks(found: "Sequence[RoundMetrics]") -> list[str]:
    remarks = []
    for one in found:
        waiting, others = one.counts.undecided_fooling, one.counts.author_errors
        if waiting and one.is_closed:
            never = count(waiting, "fooling example was", "fooling examples were")
            remarks.append(f"round {one.number}: {never} never decided; the round is closed, so vMER is final")
        elif waiting:
            wait = count(waiting, "fooling example waits", "fooling examples wait")
            remarks.append(f"round {one.number}: {wait} for a decision, so vMER can still rise")
        if one.in_house:
            remarks.append(f"round {one.number} is in-house: all of it is the work of people in Label Studio")
        if one.imported:
            remarks.append(f"round {one.number} was imported: its figures follow from what was published")
        if others.of and not one.imported:
            remarks.append(
                f"round {one.number}: validators disagree with the author of {others} of the examples that did not fool"
            )
        if one.differing:
            stored = f"the stored decision of {count(one.differing, 'example')} differs from the votes"
            remarks.append(f"round {one.number}: {stored}; check the audit log and late votes")
    return remarks


def _cells(counts: "Counts") -> list[object]:
    tries, seconds, cents = counts.tries_per_fool, counts.seconds_per_verified, counts.cents_per_verified
    return [
        counts.collected,
        counts.fooled,
        counts.verified_fooling,
        _percent(counts.mer),
        _percent(counts.vmer),
        "" if tries is None else f"{tries:.1f}",
        "" if seconds is None else f"{seconds:,.0f}",
        "" if cents is None else f"{cents / 100:,.2f}",
    ]


def _percent(rate: "Rate") -> str:
    return "" if rate.share is None else f"{rate.share:.1%} ({rate.low:.1%}-{rate.high:.1%})"


def _alpha(one: "RoundMetrics") -> str:
    return "" if one.alpha is None else f"{one.alpha:.3f}"


def _round_data(one: "RoundMetrics") -> dict[str, Any]:
    rest = {"votes": one.votes, "alpha": one.alpha, "differing": one.differing, "closed": one.is_closed}
    rest |= {"in_house": one.in_house, "imported": one.imported}
    return {"round": one.number, **_counts_data(one.counts), **rest}


def _counts_data(counts: "Counts") -> dict[str, Any]:
    return {
        **{name: getattr(counts, name) for name in PLAIN_COUNTS},
        **{name: getattr(counts, name).as_data() for name in ("mer", "vmer", "author_errors")},
        "seconds": counts.cost.ms / 1_000,
        "cents": counts.cost.cents,
    }


@click.command()
@click.argument("task")
@CLOSED_ROUND
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
    data["withheld"] = done.withheld
    state = "is already frozen, and its archive is unchanged" if done.already else "is frozen"
    lines = [
        f"round {done.round} of {task} {state}: {done.where}",
        ", ".join(count(done.rows[f"{one}s"], one) for one in ("example", "vote", "attempt")),
        f"{splits.train:,} to train on and {splits.held_out:,} held out, of {splits.verified:,} verified",
        f"{count(splits.exact_duplicates, 'exact duplicate')}, {count(splits.near_duplicates, 'near duplicate')}",
        *([f"{count(done.withheld, 'example')} withheld as gold"] if done.withheld else []),
        *([splits.note] if splits.note else []),
        *_own_archive(done),
    ]
    show({**data, "own_archive": done.own, "splits": splits.as_data(), "already": done.already}, "\n".join(lines))


@click.command()
@click.argument("what", metavar="PLACE|TASK")
@CLOSED_ROUND
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
