"""`outfox round import` and `outfox suite`: published rounds and test suites."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from common.text import count
from plugin.cli.output import data_command, show, table, when
from plugin.cli.parameters import DRY_RUN, WHOLE_NUMBER, WHY
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from round_manager.services.imports import DataImported, ImportedArchive, ImportRequest

FORMS = ("anli", "dynasent", "squad", "hatemoji", "hatecheck", "csv", "jsonl", "parquet", "datasets", "outfox")
NOT_VALID = 1

Command = TypeVar("Command", bound=Callable[..., Any])
FILES = click.argument("files", nargs=-1, required=True, metavar="FILE...")
TEXT = click.Path(path_type=Path)
OF_BOTH = (
    click.option("--form", required=True, type=click.Choice(FORMS), help="The form of the files."),
    click.option("--source", default="", metavar="URL", help="Where the data is from. Required."),
    click.option("--licence", default="", metavar="NAME", help="The data's licence, such as CC-BY-4.0. Required."),
    click.option("--citation", default="", metavar="TEXT", help="How to cite the data."),
    click.option("--column", "columns", multiple=True, metavar="NAME=COLUMN", help="The column of a field or meaning."),
    click.option("--labels", multiple=True, metavar="THEIRS=OURS,…", help="What the published labels mean."),
    click.option("--slices", multiple=True, metavar="COLUMN,…", help="Columns to keep, to split results up by."),
)


def _options(command: Command) -> Command:
    for option in reversed(OF_BOTH):
        command = option(command)
    return command


@click.command("import")
@click.argument("task")
@FILES
@_options
@click.option(
    "--round", "rounds", multiple=True, type=WHOLE_NUMBER, metavar="N", help="One for all files, or one each."
)
@click.option("--split", "splits", multiple=True, metavar="SPLIT", help="One for all files, or one for each.")
@click.option("--votes", multiple=True, type=TEXT, metavar="FILE", help="Votes by id, as ANLI's verifier labels.")
@click.option("--renumber", multiple=True, metavar="OLD=NEW", help="Give a published round another number.")
@DRY_RUN
@WHY
@data_command
def import_published(
    app: Application,
    /,
    task: str,
    rounds: tuple[int, ...],
    splits: tuple[str, ...],
    votes: tuple[Path, ...],
    renumber: tuple[str, ...],
    dry_run: bool,
    why: str,
    **given: Any,
) -> None:
    """Import published rounds as closed, frozen rounds of a task: all of them, or none.

    Rounds and splits come from the rows or from the files' names; without splits, a part is held out. With --dry-run,
    mistakes are listed with their lines. The next round that you open gets the next number. docs/importing.md has
    examples for every form.

    Example: outfox round import nli --form anli --source https://github.com/facebookresearch/anli
    --licence CC-BY-NC-4.0 anli_v1.0/R1 anli_v1.0/R2 anli_v1.0/R3
    """
    from round_manager.services.imports import import_rounds

    request = _request(given, rounds=rounds, splits=splits, votes=votes, renumber=_numbers(renumber))
    with app.services() as services, ProgressBar() as progress:
        done = import_rounds(
            services, app.actor, task, request, app.archives(), dry_run=dry_run, reason=why, progress=progress
        )
    lines = [*(_line(done, one, f"round {one.number}") for one in done.archives), *_predictions(done)]
    if not dry_run:
        lines += [f"{count(done.texts, 'text')} added to those that later examples are compared with"]
    show(_data(done), "\n".join([*lines, f"the next round of {task} will be round {done.next_round}"]))


@click.group("suite")
def suite() -> None:
    """Import test suites, on which models are measured and never trained, and list them."""


@suite.command("import")
@click.argument("task")
@click.argument("name")
@FILES
@_options
@click.option("--hidden", is_flag=True, help="Models are scored on it, and it cannot be downloaded.")
@DRY_RUN
@WHY
@data_command
def import_suite(
    app: Application, /, task: str, name: str, hidden: bool, dry_run: bool, why: str, **given: Any
) -> None:
    """Import a published test suite, such as HateCheck with its functional tests as slices.

    All of its rows are held out. It belongs to no round and never changes.

    Example: outfox suite import hate_speech hatecheck --form hatecheck
    --source https://github.com/paul-rottger/hatecheck-data --licence CC-BY-4.0 hatecheck.csv
    """
    from round_manager.services.imports import import_suite

    with app.services() as services, ProgressBar() as progress:
        done = import_suite(
            services, app.actor, task, name, _request(given), app.archives(),
            hidden=hidden, dry_run=dry_run, reason=why, progress=progress,
        )  # fmt: skip
    show({**_data(done), "suite": name, "hidden": hidden}, _line(done, done.archives[0], f"suite {name}"))


@suite.command("list")
@click.argument("task")
@data_command
def list_all(app: Application, task: str) -> None:
    """List a task's test suites."""
    from round_manager.services.imports import list_suites

    with app.services() as services:
        found = list_suites(services, task)
    data = [
        {"name": one.name, "examples": one.examples, "hidden": one.hidden, "slices": one.origin["slices"],
         "source": one.origin["source"], "licence": one.origin["licence"], "imported": one.imported_at,
         "archive": one.archive_uri, "sha256": one.archive_sha256}
        for one in found
    ]  # fmt: skip
    rows = [
        [one["name"], one["examples"], one["hidden"], one["slices"], one["licence"], when(one["imported"]),
         one["source"]]
        for one in data
    ]  # fmt: skip
    nothing = f"{task} has no test suites"
    show(data, table(("suite", "rows", "hidden", "slices", "licence", "imported", "source"), rows) if rows else nothing)


@suite.command("verify")
@click.argument("task")
@click.argument("name")
@data_command
def verify(app: Application, task: str, name: str) -> int:
    """Check the archive of a test suite, and compare it with the database.

    Exit code 1: the archive is not valid.
    """
    from round_manager.services.archives import verify_suite

    with app.services() as services:
        found = verify_suite(services, task, name)
    result = found.result
    data = {"task": task, "suite": name, "archive": found.uri, "sha256": result.manifest.sha256}
    lists = {"checked": list(result.checked), "unchecked": list(result.unchecked), "problems": list(result.problems)}
    valid = f"suite {name} of {task} is valid ({', '.join(result.checked)}): {found.uri}"
    show({**data, **lists}, "\n".join(result.problems or [valid]))
    return NOT_VALID if result.problems else 0


def _request(given: "Mapping[str, Any]", **more: Any) -> "ImportRequest":
    from round_manager.services.imports import ImportRequest

    return ImportRequest(
        form=given["form"],
        files=given["files"],
        source=given["source"],
        licence=given["licence"],
        citation=given["citation"],
        columns=_pairs("--column", given["columns"]),
        labels=_pairs("--labels", _parts(given["labels"])),
        slices=_parts(given["slices"]),
        **more,
    )


def _parts(values: "Sequence[str]") -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _pairs(option: str, values: "Sequence[str]") -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    if any(not name.strip() or not other.strip() for name, _, other in pairs):
        raise click.UsageError(f"{option} must be written NAME=VALUE")
    return {name.strip(): other.strip() for name, _, other in pairs}


def _numbers(values: "Sequence[str]") -> dict[int, int]:
    pairs = _pairs("--renumber", _parts(values))
    numbers = [*pairs, *pairs.values()]
    if any(not one.isdecimal() or not 0 < int(one) < 2**31 for one in numbers):
        raise click.UsageError("--renumber must be written OLD=NEW with the numbers of rounds, for example 1=4")
    return {int(old): int(new) for old, new in pairs.items()}


def _line(done: "DataImported", one: "ImportedArchive", name: str) -> str:
    state = "would be imported" if done.dry_run else "was imported before" if one.already else "is imported"
    statuses = ", ".join(f"{number:,} {status}" for status, number in sorted(one.examples.items()))
    splits = f"{one.splits['train']:,} to train on, {one.splits['held_out']:,} held out"
    if parted := one.splits.get("parted_pairs"):
        splits += f"; as published, {count(parted, 'contrast pair is', 'contrast pairs are')} on both sides"
    examples = count(sum(one.examples.values()), "example")
    return (
        f"{name} of {done.task} {state}: {examples} ({statuses}), {count(one.votes, 'vote')}; {splits}\n  {one.where}"
    )


def _predictions(done: "DataImported") -> list[str]:
    return [f"predictions of {model}: {file}" for model, file in done.predictions.items()]


def _data(done: "DataImported") -> dict[str, Any]:
    archives = [
        {"round": one.number, "archive": one.where, "sha256": one.sha256, "examples": dict(one.examples),
         "splits": dict(one.splits), "votes": one.votes, "already": one.already}
        for one in done.archives
    ]  # fmt: skip
    return {
        "task": done.task,
        "archives": archives,
        "predictions": dict(done.predictions),
        "texts": done.texts,
        "next_round": done.next_round,
        "dry_run": done.dry_run,
    }
