"""`outfox crowd statement` and `outfox crowd reconcile`: the ledger, and what is in doubt."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count, dollars
from plugin.cli.crowd_context import CrowdContext, leave, open_crowd_context
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import DRY_RUN, WHY
from plugin.cli.progress import ProgressBar
from plugin.hints import NO_TASKS
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.money.budget import StatementLine
    from round_manager.services.payments import StatementReport

DOES_NOT_ADD_UP = 1
MOST_DAYS = 3_660
# Early enough, and MOST_DAYS before it is still a valid date.
EARLIEST = date(2000, 1, 1)


@click.command()
@click.argument("task", required=False)
@click.option(
    "--day",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="The last day (UTC). Default: today, until now.",
)
@click.option("--days", type=click.IntRange(1, MOST_DAYS), default=1, help="How many days up to it.")
@data_command
def statement(app: Application, task: str | None, day: datetime | None, days: int) -> None:
    """Show where every cent of the budgets was at the end of each day, and what the day moved; the newest first.

    Reserved, owed, sent and released add up to the budget, to the cent; `released` includes what was never reserved.
    The budgets are today's. Exit code 1: it does not add up.
    """
    from round_manager.services.payments import statement_report

    today = app.clock.now().date()
    last = day.date() if day else today
    if last > today:
        raise click.UsageError(f"{last} is in the future; today is {today} (UTC)")
    if last < EARLIEST:
        raise click.UsageError(f"{last} is too early; choose a day from {EARLIEST} on")
    with app.services() as services:
        report = statement_report(services, task, last=last, days=days)
    data = [
        {"day": _day(line), "adds_up": line.adds_up, "released_cents": line.figures.released_cents,
         **{key: value for key, value in asdict(line).items() if key != "figures"}, **asdict(line.figures)}
        for line in report.lines
    ]  # fmt: skip
    show({"lines": data, "adds_up": report.adds_up, "drift_cents": report.drift_cents}, Group(*_texts(report)))
    if not report.adds_up:
        raise click.exceptions.Exit(DOES_NOT_ADD_UP)


@click.command()
@click.option("--paid", metavar="KEY", help="A held payment was made: settle it.")
@click.option("--unpaid", metavar="KEY", help="A held payment was not made: owe it again under a new key.")
@click.option("--not-posted", metavar="KEY", help="A held HIT was not posted: release its money.")
@WHY
@DRY_RUN
@data_command
def reconcile(
    app: Application, paid: str | None, unpaid: str | None, not_posted: str | None, why: str, dry_run: bool
) -> None:
    """Look up every HIT and payment in doubt on the marketplace, and send again only what is missing there.

    What cannot be settled this way is held: look on the marketplace, then record here what you found. `outfox crowd
    status` lists what is held.
    """
    outcomes = {"paid": paid, "unpaid": unpaid, "not posted": not_posted}
    given = [(outcome, key) for outcome, key in outcomes.items() if key]
    if len(given) > 1:
        raise click.UsageError("--paid, --unpaid and --not-posted are mutually exclusive")
    if given:
        _resolve(app, *given[0], why, dry_run=dry_run)
        return
    with open_crowd_context(app) as context:
        if dry_run:
            _preview(context)
            return
        with ProgressBar() as progress:
            result = context.crowd.reconciler.run(progress)
    text = f"{result.found} found, {result.sent_again} sent again, {result.refused} refused"
    rest = f"{result.given_up} cancelled, {result.held} newly held, {result.in_doubt} still in doubt"
    show(asdict(result), f"{text}, {rest}")
    leave(problem=result.problem)


def _day(line: "StatementLine") -> date:
    return (line.at - timedelta(days=1)).date()


def _texts(report: "StatementReport") -> list[RenderableType]:
    lines = report.lines
    if not lines:
        return [NO_TASKS]
    where = ("day", "task", "round")
    named = [(_day(line), line.task, "all" if line.round is None else line.round) for line in lines]
    state = [
        (line.figures.budget_cents, line.figures.reserved_cents, line.figures.owed_cents, line.figures.sent_cents,
         line.figures.released_cents) for line in lines
    ]  # fmt: skip
    moved = [
        (line.newly_reserved_cents, line.newly_owed_cents, line.newly_sent_cents, line.newly_released_cents,
         line.confirmed_cents, line.fee_cents) for line in lines
    ]  # fmt: skip
    return [
        table((*where, "budget", "reserved", "owed", "sent", "released"), _rows(named, state)),
        "\nchanges of that day, and what was paid until then, with its fees:",
        table((*where, "reserved", "owed", "sent", "released", "paid", "fees"), _rows(named, moved)),
        "",
        *_verdict(report),
    ]


def _rows(named: Sequence[tuple[object, ...]], cents: Sequence[tuple[int, ...]]) -> list[tuple[object, ...]]:
    return [(*name, *map(dollars, amounts)) for name, amounts in zip(named, cents, strict=True)]


def _verdict(report: "StatementReport") -> list[str]:
    if report.adds_up:
        return ["it adds up: reserved + owed + sent + released = budget, to the cent"]
    wrong = [f"{line.task}, round {line.round or 'all'}, {_day(line)}" for line in report.lines if not line.adds_up]
    texts = [f"IT DOES NOT ADD UP: {', '.join(wrong)}"] if wrong else []
    if report.drift_cents:
        texts.append(f"THE ENTRIES DIFFER FROM THE STORED SUMS BY {dollars(report.drift_cents)}")
    return texts


def _resolve(app: Application, outcome: str, key: str, reason: str, *, dry_run: bool) -> None:
    from round_manager.services.payments import HeldOutcome, resolve_held

    text = {
        "paid": f"{key} is settled as paid",
        "unpaid": f"{key} is refused and owed again under a new key; pay it with `outfox crowd pay`",
        "not posted": f"{key} was not posted; its money is released",
    }[outcome]
    data: dict[str, Any] = {"key": key, "word": outcome, "dry_run": dry_run}
    with app.services() as services:
        valid = resolve_held(
            services, app.actor, app.settings.crowd_name, key, HeldOutcome(outcome), reason=reason, dry_run=dry_run
        )
    if dry_run:
        show(data, f"would record: {text}; nothing was changed")
        return
    show({**data, "counts": valid} if valid else data, text)


def _preview(context: CrowdContext) -> None:
    from round_manager.services.payments import find_loose_ends

    ends = find_loose_ends(context.services, context.crowd.name)
    hits = sum(one.what == "HIT" for one in ends.in_doubt)
    payments = len(ends.in_doubt) - hits
    cents = sum(one.cents for one in ends.in_doubt)
    text = f"would look up {count(hits, 'HIT')} and {count(payments, 'payment')}, {dollars(cents)} in all"
    rest = f"send again what is missing and still protected, and hold the rest; {len(ends.held)} held now"
    data = {"dry_run": True, "hits": hits, "payments": payments, "cents": cents, "held": len(ends.held)}
    show(data, f"{text}, {rest}; nothing was changed" if ends.in_doubt else "nothing is in doubt")
