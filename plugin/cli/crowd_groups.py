"""`outfox crowd group` and `outfox crowd report`: groups of workers, their rounds, and reports of people's work."""

import csv
import io
from dataclasses import asdict
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from common.text import count, dollars
from plugin.cli.output import data_command, limited_table, show, table
from plugin.cli.parameters import WHY
from plugin.errors import PluginError
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.services.worker_groups import WorkReport
    from round_manager.validation.work_report import PersonWork

PAGES = Path(__file__).resolve().parents[1] / "pages"
DAY = click.DateTime(["%Y-%m-%d"])
# A spreadsheet reads a cell that starts with one of these as a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
COLUMNS = ("worker_id", "name", "groups", "written", "fooling", "verified_fooling", "validated", "agreed", "compared",
           "agreement", "empty_hits", "hours", "owed_cents", "sent_cents", "owed_dollars", "sent_dollars")  # fmt: skip


@click.group()
def group() -> None:
    """Groups of workers, such as a vendor's annotators: make them, fill them, give them rounds."""


@group.command("list")
@data_command
def list_all(app: Application) -> None:
    """List groups with their members and rounds."""
    from round_manager.services.worker_groups import list_groups

    with app.services() as services:
        found = list_groups(services)
    rows = [
        (one.name, len(one.members), ", ".join(f"{task} {number}" for task, number in one.rounds) or "none")
        for one in found
    ]
    empty = "there are no groups yet; `outfox crowd group create NAME` makes one"
    show([asdict(one) for one in found], table(("group", "members", "rounds"), rows) if rows else empty)


@group.command()
@click.argument("name")
@WHY
@data_command
def create(app: Application, name: str, why: str) -> None:
    """Create a group of workers."""
    from round_manager.services.worker_groups import create_group

    with app.services() as services:
        made = create_group(services, app.actor, name, reason=why)
    show({"group": made}, f"made {made}; add workers with `outfox crowd group add {made!r} WORKER…`")


@group.command()
@click.argument("name")
@click.argument("worker_ids", nargs=-1, required=True, metavar="WORKER...")
@WHY
@data_command
def add(app: Application, name: str, worker_ids: tuple[str, ...], why: str) -> None:
    """Add workers to a group, by their ids on the marketplace or in Label Studio."""
    from round_manager.services.worker_groups import add_to_group

    with app.services() as services:
        added = add_to_group(services, app.actor, app.settings.crowd_name, name, worker_ids, reason=why)
    show({"group": name, "added": added}, f"{count(added, 'worker')} added to {name}")


@group.command()
@click.argument("name")
@click.argument("worker_ids", nargs=-1, required=True, metavar="WORKER...")
@WHY
@data_command
def remove(app: Application, name: str, worker_ids: tuple[str, ...], why: str) -> None:
    """Remove workers from a group; pages that they have open stay theirs."""
    from round_manager.services.worker_groups import remove_from_group

    with app.services() as services:
        remove_from_group(services, app.actor, name, worker_ids, reason=why)
    show({"group": name, "removed": list(worker_ids)}, f"{count(len(worker_ids), 'worker')} removed from {name}")


@group.command()
@click.argument("task")
@click.argument("names", nargs=-1, metavar="GROUP...")
@click.option("--round", "number", type=click.IntRange(1), help="The round. Default: the open one, or else the newest.")
@click.option("--everyone", is_flag=True, help="Give the round to everyone again.")
@WHY
@data_command
def assign(app: Application, task: str, names: tuple[str, ...], number: int | None, everyone: bool, why: str) -> None:
    """Give a round to groups: only their members get pages of it. The task's next rounds are theirs too."""
    from round_manager.services.worker_groups import assign_round

    if bool(names) == everyone:
        raise click.UsageError("name the groups, or use --everyone")
    with app.services() as services:
        assigned = assign_round(services, app.actor, task, number, names, reason=why)
    text = f"round {assigned} of {task} is for {', '.join(names) or 'everyone'}"
    show({"task": task, "round": assigned, "groups": list(names)}, text)


@click.command()
@click.argument("task", required=False)
@click.option("--from", "first", type=DAY, metavar="YYYY-MM-DD", help="First day (UTC). Default: the month's first.")
@click.option("--to", "last", type=DAY, metavar="YYYY-MM-DD", help="Last day (UTC). Default: today.")
@click.option("--group", "group_name", metavar="GROUP", help="Only the members of this group.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a .csv or a printable .html."
)
@data_command
def report(
    app: Application,
    task: str | None,
    first: datetime | None,
    last: datetime | None,
    group_name: str | None,
    out: Path | None,
) -> None:
    """Report each person's work in a period, for invoices: written, validated, agreement, hours, and pay without fees.

    Work counts on the day of its submission, money on the day it became owed. The report names people: keep it private.

    Example: outfox crowd report sentiment --from 2026-11-01 --to 2026-11-30 --out november.html
    """
    from round_manager.services.worker_groups import work_report

    today = app.clock.now().date()
    until = last.date() if last else today
    since = first.date() if first else until.replace(day=1)
    if since > until:
        raise click.UsageError(f"{since} is after {until}")
    if out is not None and out.suffix not in (".csv", ".html"):
        raise click.UsageError("name a file that ends in .csv or .html")
    with app.services() as services:
        found = work_report(services, since, until, task=task, group=group_name)
    if out is not None:
        _write(out, report_csv(found) if out.suffix == ".csv" else report_html(found, today))
    data = {
        "first": since,
        "last": until,
        "task": task,
        "group": group_name,
        "people": [_row(one) for one in found.people],
    }
    show(data, f"{count(len(found.people), 'person', 'people')} in {out}" if out else _texts(found))


def report_csv(found: "WorkReport") -> str:
    """Return a report as CSV; names are escaped so that spreadsheets do not run them as formulas."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow((*COLUMNS, "from", "to"))
    for one in found.people:
        row = _row(one)
        rows.writerow((*(_cell(row[column]) for column in COLUMNS), found.first, found.last))
    return out.getvalue()


def report_html(found: "WorkReport", printed_on: date) -> str:
    """Return a report as a page to print."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(loader=FileSystemLoader(PAGES), autoescape=True, undefined=StrictUndefined)
    pages.filters["dollars"] = dollars
    totals = {name: sum(getattr(one, name) for one in found.people) for name in ("owed_cents", "sent_cents", "hours")}
    return pages.get_template("work-report.html").render(report=found, printed_on=printed_on, totals=totals)


def _row(one: "PersonWork") -> dict[str, Any]:
    share = one.agreed.share
    return {
        **{name: value for name, value in asdict(one).items() if name != "agreed"},
        "groups": "; ".join(one.groups),
        "agreed": one.agreed.count,
        "compared": one.agreed.of,
        "agreement": None if share is None else round(share, 3),
        "owed_dollars": f"{one.owed_cents // 100}.{one.owed_cents % 100:02d}",
        "sent_dollars": f"{one.sent_cents // 100}.{one.sent_cents % 100:02d}",
    }


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def _texts(found: "WorkReport") -> RenderableType:
    if not found.people:
        return f"there is no work from {found.first} to {found.last}"
    columns = ("worker", "name", "groups", "written", "fooling", "verified", "validated", "agreement", "empty HITs",
               "hours", "owed", "sent")  # fmt: skip
    rows = [
        (one.worker_id, one.name, ", ".join(one.groups), one.written, one.fooling, one.verified_fooling, one.validated,
         str(one.agreed), one.empty_hits, f"{one.hours:.2f}", dollars(one.owed_cents), dollars(one.sent_cents))
        for one in found.people
    ]  # fmt: skip
    return limited_table(columns, rows)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PluginError(f"cannot write {path}: {error.strerror}; choose another file with --out") from error
