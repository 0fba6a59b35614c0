"""`outfox round close`, `pause`, `resume` and `show`: the life of a round, by its owner's hand."""

from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.money import dollars
from common.text import count
from plugin.cli.crowd_texts import not_counted_text, when
from plugin.cli.output import json_option, show, table
from plugin.cli.parameters import WHOLE_NUMBER
from plugin.cli.rotation import WHY
from plugin.operator import operator_name
from plugin.settings import Settings
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.database.store import Store

ROUND = click.option(
    "--round", "number", type=WHOLE_NUMBER, help="Which round. Default: the one that is live, else the newest."
)


@click.command("close")
@click.argument("task")
@click.option("--now", "give_up", is_flag=True, help="Do not wait for votes, your word on flags, or Label Studio.")
@WHY
@ROUND
@json_option
@click.pass_obj
def close(app: Application, task: str, give_up: bool, why: str, number: int | None) -> None:
    """End a round: nothing new is written in it, and it is closed as soon as nothing more can come.

    What workers have in hand is taken and paid until its deadline, and nobody less than the minimum for an hour,
    whatever you say. After a round with nothing in it, `outfox manage` opens no further one: you do, when you want it.
    With --now, examples that lack votes stay undecided and the round is closed at once, or nothing
    changes and you are told what it must wait for.

    Example: outfox round close sentiment --why "we have enough"
    """
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.loop.lifecycle import begin_validating, close_round, was_called_off
    from round_manager.loop.waiting import waiting
    from round_manager.models import RoundStatus
    from round_manager.tasks.rounds import choose_round
    from round_manager.tasks.tasks import find_task

    now, who = SystemClock().now(), operator_name()
    with open_store(settings.database) as store, store.write() as session:
        chosen = choose_round(session, find_task(session, task), number)
        was = chosen.status
        chosen = begin_validating(session, chosen, who=who, why=why, now=now)
        left = waiting(session, chosen, now=now)
        if give_up or not left:
            chosen = close_round(session, chosen, who=who, why=why, now=now, give_up=give_up)
            left = waiting(session, chosen, now=now)
        empty = chosen.status is RoundStatus.CLOSED and was_called_off(session, chosen)
    reasons = [reason.text for reason in left.reasons]
    data = {"task": task, "round": chosen.number, "status": chosen.status.value, "waits_for": reasons}
    already = " already" if was is RoundStatus.CLOSED else ""
    text = f"round {chosen.number} of {task} is {chosen.status.value}{already}"
    if empty:
        text = f"{text}; nothing is in it, so the next one is opened by you: `outfox round open {task}`"
    shown = (
        Group(f"{text}; it is closed when nothing more can come, and this is why it waits:", *_lines(reasons))
        if reasons
        else text
    )
    show({**data, "already": bool(already)}, shown)


@click.command("pause")
@click.argument("task")
@WHY
@json_option
@click.pass_obj
def pause_it(app: Application, task: str, why: str) -> None:
    """Hand out and post nothing new until the round is resumed; what people have begun they finish, and are paid.

    Its date stays what it was, and a paused round does not end by itself.
    """
    settings = app.settings
    from round_manager.loop.lifecycle import pause

    goes_on = f"`outfox round resume {task}` goes on"
    _move(settings, task, why, pause, f"is paused; {goes_on}", f"is paused already; {goes_on}")


@click.command("resume")
@click.argument("task")
@WHY
@json_option
@click.pass_obj
def resume_it(app: Application, task: str, why: str) -> None:
    """Go on with a paused round."""
    settings = app.settings
    from round_manager.loop.lifecycle import resume

    _move(settings, task, why, resume, "goes on, {status}", "was not paused; it is {status}")


@click.command("show")
@click.argument("task")
@ROUND
@json_option
@click.pass_obj
def show_one(app: Application, task: str, number: int | None) -> None:
    """Show a round: where it is, what it waits for, and who moved it when and why."""
    settings = app.settings
    from round_manager.database.store import open_store

    with open_store(settings.database) as store:
        data = _overview(store, task, number, has_marketplace=settings.has_crowd_keys)
    show(data, Group(*_texts(data)))


def _move(settings: Settings, task: str, why: str, step: Any, said: str, said_again: str) -> None:
    """Take the step, and tell it; `said_again` is for one that had been taken already."""
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.tasks.rounds import choose_round
    from round_manager.tasks.tasks import find_task

    with open_store(settings.database) as store, store.write() as session:
        chosen = choose_round(session, find_task(session, task))
        was = chosen.paused_at
        moved = step(session, chosen, who=operator_name(), why=why, now=SystemClock().now())
    data = {"task": task, "round": moved.number, "status": moved.status.value, "paused": moved.paused_at is not None}
    told = said_again if was == moved.paused_at else said
    show(data, f"round {moved.number} of {task} {told.format(status=moved.status.value)}")


def _overview(store: "Store", name: str, number: int | None, *, has_marketplace: bool) -> dict[str, Any]:
    from common.clock import SystemClock
    from round_manager.loop.lifecycle import due, history
    from round_manager.loop.overview import no_way_in
    from round_manager.loop.waiting import waiting
    from round_manager.money.budget import figures
    from round_manager.tasks.rounds import choose_round, collected, pinned_versions
    from round_manager.tasks.tasks import find_task

    now = SystemClock().now()
    with store.read() as session:
        round = choose_round(session, find_task(session, name), number)
        had, money, step = collected(session, round), figures(session, round), due(session, round, now=now)
        versions, reasons = pinned_versions(session, round), waiting(session, round, now=now).reasons
        cut_off = no_way_in(session, round, has_marketplace=has_marketplace)
        noted = history(session, round)
    return {
        "task": name,
        "round": round.number,
        "status": round.status.value,
        "paused": round.paused_at,
        "opened": round.opened_at,
        "closes": round.closes_at,
        "validating": round.validating_at,
        "closed": round.closed_at,
        "versions": list(versions),
        "examples": had.examples,
        "by_status": had.by_status,
        "not_counted": had.not_counted,
        "fooled": had.fooled,
        "target_fooling": round.target_fooling,
        "budget_cents": money.budget_cents,
        "released_cents": money.released_cents,
        "budget": str(money),
        "due": {"to": step.to.value, "why": step.why} if step else None,
        "waits_for": [*(reason.text for reason in reasons), *filter(None, [cut_off])],
        "history": [
            {
                "at": one.at,
                "who": one.actor,
                "did": one.action,
                "why": one.reason,
                "before": one.before,
                "after": one.after,
            }
            for one in noted
        ],
    }


def _texts(data: dict[str, Any]) -> list[RenderableType]:
    statuses = ", ".join(f"{number:,} {status}" for status, number in sorted(data["by_status"].items()))
    examples = f"{data['examples']:,}" + (f" ({statuses})" if statuses else "")
    facts = [
        ("status", f"{data['status']}, paused" if data["paused"] else data["status"]),
        ("against", ", ".join(data["versions"])),
        ("opened", when(data["opened"])),
        # What has ended already has no date to end at.
        ("closes", when(data["closes"]) if data["status"] == "open" else ""),
        *((word, when(data[word])) for word in ("validating", "closed")),
        ("examples", f"{examples}{not_counted_text(data['not_counted'])}"),
        ("fooled", f"{data['fooled']:,}; the target is {count(data['target_fooling'], 'validated one')}"),
        ("money", data["budget"]),
        ("due", f"{data['due']['to']}: {data['due']['why']}" if data["due"] else ""),
    ]
    texts: list[RenderableType] = [
        table(("", f"{data['task']}, round {data['round']}"), [one for one in facts if one[1]])
    ]
    if data["waits_for"]:
        texts += ["", "why it waits:", *_lines(data["waits_for"])]
    if data["history"]:
        rows = [(when(one["at"]), one["who"], _did(one), one["why"]) for one in data["history"]]
        texts += ["", table(("when", "who", "did", "why"), rows)]
    return texts


def _did(one: dict[str, Any]) -> str:
    before, after = (dict(one[name] or {}).get("budget_cents") for name in ("before", "after"))
    moved = f" from {dollars(before)} to {dollars(after)}" if before is not None and after is not None else ""
    return f"{one['did']}{moved}"


def _lines(reasons: list[str]) -> list[str]:
    return [f"- {reason}" for reason in reasons]
