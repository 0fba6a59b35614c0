"""`outfox crowd statement` and `outfox crowd reconcile`: the books, and what they do not know yet."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, date, timedelta
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.money import dollars
from common.text import count
from plugin.cli.crowd_context import DRY_RUN, NOT_RIGHT, CrowdContext, leave, open_crowd_context
from plugin.cli.output import json_option, show, table
from plugin.cli.progress import ProgressBar
from plugin.operator import operator_name
from plugin.settings import Settings
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.database.store import Store
    from round_manager.models import Round, Task
    from round_manager.money.statement import StatementLine

MOST_DAYS = 3_660
# So many days before it, there are dates still.
EARLIEST = date(2000, 1, 1)


class DayType(click.ParamType[date]):
    """A day, such as 2026-03-31."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """The day, or how one is written."""
        try:
            return date.fromisoformat(str(value))
        except ValueError:
            self.fail(f"'{value}' is no day; write one like 2026-03-31", param, ctx)


DAY = DayType()


@click.command()
@click.argument("task", required=False)
@click.option("--day", type=DAY, help="The last day (UTC). Default: today, until now.")
@click.option("--days", type=click.IntRange(1, MOST_DAYS), default=1, show_default=True, help="How many days up to it.")
@json_option
@click.pass_obj
def statement(app: Application, task: str | None, day: date | None, days: int) -> None:
    """Show where every cent of the budgets was at the end of each day, and what the day moved; the newest first.

    Reserved, owed, sent and released make the budget, to the cent; `released` is also what was never bound. Budgets are
    those of today. Exit code 1: it does not add up.
    """
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.database.store import open_store

    today = SystemClock().now().date()
    last = day or today
    if last > today:
        raise click.UsageError(f"{last} is yet to come; today is {today} (UTC)")
    if last < EARLIEST:
        raise click.UsageError(f"{last} is before anything was paid; name a day from {EARLIEST} on")
    with open_store(settings.database) as store:
        lines, drifted = _statement(store, task, last, days, today)
    right = all(line.adds_up for line in lines) and not drifted
    data = [
        {"day": _day(line), "adds_up": line.adds_up, "released_cents": line.figures.released_cents,
         **{key: value for key, value in asdict(line).items() if key != "figures"}, **asdict(line.figures)}
        for line in lines
    ]  # fmt: skip
    show({"lines": data, "adds_up": right, "drift_cents": drifted}, Group(*_texts(lines, right, drifted)))
    if not right:
        raise click.exceptions.Exit(NOT_RIGHT)


@click.command()
@click.option("--paid", metavar="KEY", help="A held payment was made: it is settled.")
@click.option("--unpaid", metavar="KEY", help="A held payment was not made: it is owed again, under a new key.")
@click.option("--not-posted", metavar="KEY", help="A held HIT does not stand there: its money is free again.")
@click.option("--why", default="", metavar="TEXT", help="How you know; it is kept with the change.")
@DRY_RUN
@json_option
@click.pass_obj
def reconcile(
    app: Application, paid: str | None, unpaid: str | None, not_posted: str | None, why: str, dry_run: bool
) -> None:
    """Ask the marketplace about every HIT and payment in doubt, and send again only what it does not have.

    What asking cannot settle is held: look on the marketplace, then say here what is true. `outfox crowd status` lists
    what is held.
    """
    settings = app.settings
    words = {"paid": paid, "unpaid": unpaid, "not posted": not_posted}
    given = [(word, key) for word, key in words.items() if key]
    if len(given) > 1:
        raise click.UsageError("one word at a time: --paid, --unpaid or --not-posted")
    if given:
        _resolve(settings, *given[0], why, dry_run=dry_run)
        return
    with open_crowd_context(settings) as context:
        if dry_run:
            _would_ask(context)
            return
        with ProgressBar() as progress:
            cleared = context.services.reconciler.run(progress)
    told = f"{cleared.found} found there, {cleared.sent_again} sent again, {cleared.refused} refused"
    rest = f"{cleared.given_up} given up, {cleared.held} newly held, {cleared.in_doubt} still in doubt"
    show(asdict(cleared), f"{told}, {rest}")
    leave(problem=cleared.problem)


def _statement(
    store: "Store", task: str | None, last: date, days: int, today: date
) -> tuple[list["StatementLine"], int]:
    """The lines, the newest day first, and by how many cents today's differ from the sums that the database keeps."""
    from round_manager.money.statement import drift, end_of, statement
    from round_manager.tasks.rounds import list_rounds
    from round_manager.tasks.tasks import find_task, list_tasks

    lines: list[StatementLine] = []
    drifted = 0
    with store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        for one in (last - timedelta(days=back) for back in range(days)):
            for owner in tasks:
                if one < last and one < owner.created_at.astimezone(UTC).date():
                    continue
                # Nothing is written ahead of time, so the end of today shows this moment, and what today moved.
                told = statement(session, owner, at=end_of(one))
                lines += told
                if one == today:
                    owners: list[Task | Round] = [owner, *list_rounds(session, owner)]
                    for each, line in zip(owners, told, strict=True):
                        drifted += drift(session, each, line)
    return lines, drifted


def _day(line: "StatementLine") -> date:
    return (line.at - timedelta(days=1)).date()


def _texts(lines: Sequence["StatementLine"], right: bool, drifted: int) -> list[RenderableType]:
    if not lines:
        return ["there is no task yet; `outfox task create PACK` makes one"]
    where = ("day", "task", "round")
    named = [(_day(line), line.task, "all" if line.round is None else line.round) for line in lines]
    stands = [
        (line.figures.budget_cents, line.figures.reserved_cents, line.figures.owed_cents, line.figures.sent_cents,
         line.figures.released_cents) for line in lines
    ]  # fmt: skip
    moved = [
        (line.newly_reserved_cents, line.newly_owed_cents, line.newly_sent_cents, line.newly_released_cents,
         line.confirmed_cents, line.fee_cents) for line in lines
    ]  # fmt: skip
    rows = [(*who, *map(dollars, cents)) for who, cents in zip(named, stands, strict=True)]
    changes = [(*who, *map(dollars, cents)) for who, cents in zip(named, moved, strict=True)]
    tables: list[RenderableType] = [
        table((*where, "budget", "reserved", "owed", "sent", "released"), rows),
        "\nthat day alone, and what was paid until then, with the fees in it:",
        table((*where, "reserved", "owed", "sent", "released", "paid", "fees"), changes),
        "",
    ]
    if right:
        return [*tables, "it adds up: reserved + owed + sent + released = budget, to the cent"]
    wrong = [f"{line.task}, round {line.round or 'all'}, {_day(line)}" for line in lines if not line.adds_up]
    texts = [f"IT DOES NOT ADD UP: {', '.join(wrong)}"] if wrong else []
    texts += [f"THE ENTRIES DIFFER FROM THE KEPT SUMS BY {dollars(drifted)}"] if drifted else []
    return [*tables, *texts]


def _resolve(settings: Settings, word: str, key: str, why: str, *, dry_run: bool) -> None:
    from common.clock import SystemClock
    from round_manager.crowd.reconciliation import resolve_hit, resolve_payment
    from round_manager.database.store import open_store

    outcome = {
        "paid": f"{key} is settled as paid",
        "unpaid": f"{key} is refused and owed again under a new key; `outfox crowd pay` pays it",
        "not posted": f"{key} was never posted; what it had reserved is free again",
    }[word]
    now = SystemClock().now()
    data: dict[str, Any] = {"key": key, "word": word, "dry_run": dry_run}
    with open_store(settings.database) as store:
        if dry_run:
            _must_be_held(store, settings.crowd_name, word, key)
            show(data, f"would write down: {outcome}; nothing was changed")
            return
        if word == "not posted":
            resolve_hit(store, key, who=operator_name(), why=why, now=now)
        else:
            data["counts"] = resolve_payment(store, key, paid=word == "paid", who=operator_name(), why=why, now=now)
    show(data, outcome)


def _must_be_held(store: "Store", marketplace: str, word: str, key: str) -> None:
    from round_manager.crowd.status import loose_ends
    from round_manager.errors import CrowdWorkError

    with store.read() as session:
        held = loose_ends(session, marketplace).held
    if not any(one.key == key and (one.what == "HIT") == (word == "not posted") for one in held):
        what = "HIT" if word == "not posted" else "payment"
        raise CrowdWorkError(f"no {what} {key} is held; `outfox crowd status` lists those that are")


def _would_ask(context: CrowdContext) -> None:
    from round_manager.crowd.status import loose_ends

    with context.store.read() as session:
        ends = loose_ends(session, context.crowd.name)
    hits = sum(one.what == "HIT" for one in ends.in_doubt)
    payments = len(ends.in_doubt) - hits
    cents = sum(one.cents for one in ends.in_doubt)
    told = f"would ask about {count(hits, 'HIT')} and {count(payments, 'payment')}, {dollars(cents)} in all"
    rest = f"send again what is not there and still protected, and hold the rest; {len(ends.held)} held now"
    data = {"dry_run": True, "hits": hits, "payments": payments, "cents": cents, "held": len(ends.held)}
    show(data, f"{told}, {rest}; nothing was changed" if ends.in_doubt else "nothing is in doubt")
