"""`outfox round`: open, pause, resume and close rounds, set their budget, list and show them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.errors import Hint
from common.text import count, dollars
from plugin.cli.data_import import import_published
from plugin.cli.gold import withheld
from plugin.cli.output import data_command, data_table, show, table, when
from plugin.cli.parameters import DOLLARS, WHY, round_option
from plugin.cli.round_opening import open_next
from plugin.cli.round_results import freeze, metrics, verify
from plugin.cli.round_suspects import suspects
from plugin.cli.round_validation import aggregate, decide, flags
from plugin.hints import hint_data, with_command
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.loop.waiting import WaitReason
    from round_manager.models import AuditEntry, Round
    from round_manager.services.rounds import RoundPaused
    from round_manager.services.tasks import RoundDetails, RoundSummary
    from round_manager.tasks.rounds import Collected

LISTED = ("round", "status", "versions", "opened", "examples", "fooled", "attempts")
ROUND = round_option("the live round, else the newest")


@click.group("round")
def rounds() -> None:
    """Open, close and inspect the rounds of a task."""


for command in (aggregate, decide, flags, freeze, import_published, metrics, open_next, suspects, verify, withheld):
    rounds.add_command(command)


@rounds.command("close")
@click.argument("task")
@click.option("--now", "force", is_flag=True, help="Do not wait for votes, decisions on flags, or Label Studio.")
@WHY
@ROUND
@data_command
def close(app: Application, task: str, force: bool, why: str, number: int | None) -> None:
    """End writing in a round, and close it once no more work can arrive.

    Work in progress is accepted and paid until its deadline, and every worker gets the minimum hourly pay.
    With --now, the round closes at once and examples without enough votes stay undecided; if it must wait for work or
    payments, nothing changes and the reasons are listed. After a round with no examples, `outfox manage` does not open
    the next one; open it yourself.

    Example: outfox round close sentiment --why "we have enough"
    """
    from round_manager.services.rounds import close_round

    with app.services() as services:
        done = close_round(services, app.actor, task, number=number, reason=why, force=force)
    number, status = done.round.number, done.round.status.value
    data = {"task": task, "round": number, "status": status, **reasons_data(done.waits_for)}
    text = f"round {number} of {task} is {status}{' already' if done.already else ''}"
    if done.ended_empty:
        text = with_command(
            f"{text}; it has no examples, so open the next round yourself", Hint("open_round", task=task)
        )
    shown: RenderableType = text
    if done.waits_for:
        shown = Group(f"{text}; it will close once no more work can arrive. It waits for:", *_lines(done.waits_for))
    show({**data, "already": done.already}, shown)


@rounds.command("pause")
@click.argument("task")
@WHY
@data_command
def pause(app: Application, task: str, why: str) -> None:
    """Hand out and post nothing new until the round is resumed; work in progress can be finished and is paid.

    The closing date does not change, and a paused round does not end automatically.
    """
    from round_manager.services.rounds import pause_round

    with app.services() as services:
        done = pause_round(services, app.actor, task, reason=why)
    state = "is paused" if done.changed else "is paused already"
    text = with_command(f"round {done.round.number} of {task} {state}", Hint("resume_round", task=task))
    show(_pause_data(task, done), text)


@rounds.command("resume")
@click.argument("task")
@WHY
@data_command
def resume(app: Application, task: str, why: str) -> None:
    """Resume a paused round."""
    from round_manager.services.rounds import resume_round

    with app.services() as services:
        done = resume_round(services, app.actor, task, reason=why)
    state = "is resumed" if done.changed else "was not paused"
    show(_pause_data(task, done), f"round {done.round.number} of {task} {state}; it is {done.round.status.value}")


@rounds.command("budget")
@click.argument("task")
@click.argument("cents", type=DOLLARS, metavar="DOLLARS")
@round_option("the live round, else the draft")
@WHY
@data_command
def set_budget(app: Application, task: str, cents: int, number: int | None, why: str) -> None:
    """Set a round's budget, fees included; not below what is reserved or spent, nor above the task's budget."""
    from round_manager.services.rounds import set_round_budget

    with app.services() as services:
        done = set_round_budget(services, app.actor, task, cents, number=number, reason=why)
    number, free = done.round.number, done.free_cents
    data = {"task": task, "round": number, "budget_cents": cents, "released_cents": free}
    show(data, f"round {number} of {task} may cost {dollars(cents)}; {dollars(free)} of it is free")


@rounds.command("list")
@click.argument("task")
@data_command
def list_all(app: Application, task: str) -> None:
    """List a task's rounds with their status, models and examples."""
    from round_manager.services.tasks import list_rounds

    with app.services() as services:
        data = [_listed_data(one) for one in list_rounds(services, task)]
    # Most rounds have no unconfirmed or withdrawn examples, and were not imported.
    columns = [*LISTED, *(name for name in ("not_counted", "imported") if any(one[name] for one in data))]
    show(data, data_table(data, columns))


@rounds.command("show")
@click.argument("task")
@ROUND
@data_command
def show_one(app: Application, task: str, number: int | None) -> None:
    """Show a round: its status, what it waits for, and its history."""
    from round_manager.services.tasks import show_round

    with app.services() as services:
        found = show_round(services, task, number, has_marketplace=app.settings.has_crowd_keys)
    show(_details_data(task, found), Group(*_details_text(task, found)))


def _pause_data(task: str, done: "RoundPaused") -> dict[str, Any]:
    one = done.round
    return {"task": task, "round": one.number, "status": one.status.value, "paused": one.paused_at is not None}


def round_state(status: str, *, in_house: bool, paused: bool, imported: bool = False) -> str:
    """Return the state of a round for a table, as in `open, in-house, paused`."""
    flags = {"in-house": in_house, "paused": paused, "imported": imported}
    return ", ".join([status, *(name for name, is_set in flags.items() if is_set)])


def summary_data(one: "RoundSummary") -> dict[str, Any]:
    """Return a round as JSON-compatible data."""
    return {
        "round": one.round.number,
        "status": one.round.status.value,
        "in_house": one.round.in_house,
        "imported": one.round.is_imported,
        "opened": one.round.opened_at,
        "closes": one.round.closes_at,
        "versions": list(one.versions),
        "examples": one.collected.examples,
        "by_status": one.collected.by_status,
        "not_counted": one.collected.not_counted,
        "fooled": one.collected.fooled,
        "target_fooling": one.round.target_fooling,
        "attempts": one.collected.attempts,
    }


def statuses_text(collected: "Collected") -> str:
    """Return how many examples have each status, and how many do not count; empty if there are none."""
    counted, others = (
        ", ".join(f"{number:,} {status}" for status, number in sorted(numbers.items()))
        for numbers in (collected.by_status, collected.not_counted)
    )
    return (f" ({counted})" if counted else "") + (f"; not counted: {others}" if others else "")


def _listed_data(one: "RoundSummary") -> dict[str, Any]:
    data = {name: value for name, value in summary_data(one).items() if name in LISTED}
    return {**data, "not_counted": sum(one.collected.not_counted.values()), "imported": one.round.is_imported}


def _details_data(task: str, found: "RoundDetails") -> dict[str, Any]:
    return {
        "task": task,
        **summary_data(found),
        "paused": found.round.paused_at,
        "validating": found.round.validating_at,
        "closed": found.round.closed_at,
        "origin": (found.round.imported or {}).get("origin"),
        "budget_cents": found.money.budget_cents,
        "released_cents": found.money.released_cents,
        "budget": str(found.money),
        "due": {"to": found.due.to.value, "why": found.due.reason} if found.due else None,
        **reasons_data(found.waits_for),
        "warnings": warnings_data(found.warnings),
        "history": [
            {
                "at": one.at,
                "who": one.actor,
                "did": one.action,
                "why": one.reason,
                "before": one.before,
                "after": one.after,
            }
            for one in found.history
        ],
    }


def _details_text(task: str, found: "RoundDetails") -> list[RenderableType]:
    one, had = found.round, found.collected
    facts = [
        ("status", _state(one)),
        ("against", ", ".join(found.versions)),
        *_provenance(one),
        ("opened", "" if one.is_imported else when(one.opened_at)),
        ("closes", when(one.closes_at) if one.status.value == "open" else ""),
        ("validating", "" if one.is_imported else when(one.validating_at)),
        ("closed", "" if one.is_imported else when(one.closed_at)),
        ("examples", f"{had.examples:,}{statuses_text(had)}"),
        ("fooled", f"{had.fooled:,}{_target(one)}"),
        ("money", "" if one.is_imported else str(found.money)),
        ("due", f"{found.due.to.value}: {found.due.reason}" if found.due else ""),
    ]
    texts: list[RenderableType] = [table(("", f"{task}, round {one.number}"), [row for row in facts if row[1]])]
    if found.waits_for:
        texts += ["", "it waits for:", *_lines(found.waits_for)]
    texts += ["", *_lines(found.warnings)] if found.warnings else []
    if found.history:
        rows = [(when(entry.at), entry.actor, _action(entry), entry.reason) for entry in found.history]
        texts += ["", table(("when", "who", "did", "why"), rows)]
    return texts


def _state(one: "Round") -> str:
    is_paused = one.paused_at is not None
    return round_state(one.status.value, in_house=one.in_house, paused=is_paused, imported=one.is_imported)


def _target(one: "Round") -> str:
    return "" if one.is_imported else f"; the target is {count(one.target_fooling, 'validated one')}"


def _provenance(one: "Round") -> list[tuple[str, str]]:
    """Return where an imported round comes from, as rows of a table."""
    if one.imported is None:
        return []
    origin, figures = one.imported["origin"], one.imported["figures"]
    return [
        ("imported", when(one.frozen_at)),
        ("source", origin["source"]),
        ("licence", origin["licence"]),
        ("citation", origin["citation"]),
        ("files", ", ".join(origin["files"])),
        ("votes", f"{figures['votes']:,}"),
        ("splits", f"{figures['train']:,} to train on and {figures['held_out']:,} held out"),
        ("archive", str(one.archive_uri)),
    ]


def _action(entry: "AuditEntry") -> str:
    before, after = (dict(value or {}).get("budget_cents") for value in (entry.before, entry.after))
    moved = f" from {dollars(before)} to {dollars(after)}" if before is not None and after is not None else ""
    return f"{entry.action}{moved}"


def reasons_data(reasons: "Sequence[WaitReason]") -> dict[str, Any]:
    """Return what a round waits for as JSON-compatible data."""
    return {"waits_for": [one.text for one in reasons], "hints": [hint_data(one.hint) for one in reasons]}


def warnings_data(warnings: "Sequence[WaitReason]") -> list[dict[str, Any]]:
    """Return warnings as JSON-compatible data."""
    return [{"text": one.text, "hint": hint_data(one.hint)} for one in warnings]


def _lines(reasons: "Sequence[WaitReason]") -> list[str]:
    return [f"- {with_command(one.text, one.hint)}" for one in reasons]
