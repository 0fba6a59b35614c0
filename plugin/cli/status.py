"""`outfox status`: every task at a glance."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.money import dollars
from common.text import count
from plugin.cli.crowd_texts import when
from plugin.cli.output import json_option, show, table
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.loop.overview import TaskOverview
    from round_manager.models import ManagerStep
    from round_manager.rates import Rate

QUEUES = {
    "examples_waiting_for_votes": ("example waiting for votes", "examples waiting for votes"),
    "examples_waiting_for_owner": ("example waiting for the owner", "examples waiting for the owner"),
    "hits_to_create": ("HIT to create", "HITs to create"),
    "hits_to_validate": ("HIT to validate", "HITs to validate"),
    "hits_to_quiz": ("HIT for the quiz", "HITs for the quiz"),
    "pages_to_confirm": ("page to confirm", "pages to confirm"),
    "work_to_approve": ("piece of work to approve", "pieces of work to approve"),
    "payments_owed": ("payment owed", "payments owed"),
    "payments_in_doubt": ("payment in doubt", "payments in doubt"),
    "held_for_a_person": ("HIT or payment held for a person", "HITs and payments held for a person"),
    "unsent_to_label_studio": ("task not sent to Label Studio yet", "tasks not sent to Label Studio yet"),
}


@click.command()
@click.argument("task", required=False)
@json_option
@click.pass_obj
def status(app: Application, task: str | None) -> None:
    """Show every task: its round, what came of it, its money, its model, what waits, and what the manager did last.

    vMER is the share of collected examples that fooled the model and that other people agree with, with its 95 %
    interval; `outfox round metrics TASK` recomputes it from the votes.
    """
    settings = app.settings
    from common.clock import SystemClock
    from ml_backend.serving.outbox import count_waiting
    from round_manager.database.store import open_store
    from round_manager.loop.manager_record import last_pass, troubles
    from round_manager.loop.overview import task_overview
    from round_manager.tasks.tasks import find_task, list_tasks

    now = SystemClock().now()
    with open_store(settings.database) as store, store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        found = [task_overview(session, one, now=now, has_marketplace=settings.has_crowd_keys) for one in tasks]
        manager, noted = last_pass(session), troubles(session, task)
    outbox = count_waiting(settings.home_path / "tries")
    data = {
        "tasks": [_task(one) for one in found],
        "tries_in_outbox": outbox,
        "manager": _manager(manager, noted),
    }
    nothing = "there is no task yet; `outfox task create PACK` makes one"
    show(data, Group(*_texts(found, outbox, manager, noted, now)) if found else nothing)


def _task(one: "TaskOverview") -> dict[str, Any]:
    told = {key: value for key, value in asdict(one).items() if key not in ("task_money", "round_money")}
    money = {
        name: {**asdict(part), "free_cents": part.released_cents}
        for name, part in (("task_money", one.task_money), ("round_money", one.round_money))
    }
    return {**told, **money, "vmer": _rate(one.vmer)}


def _rate(rate: "Rate") -> dict[str, Any]:
    return {"share": rate.share, "low": rate.low, "high": rate.high, "count": rate.count, "of": rate.of}


def _manager(last: "ManagerStep | None", noted: Sequence["ManagerStep"]) -> dict[str, Any]:
    return {
        "last_pass": last.ran_at if last else None,
        "by": last.ran_by if last else None,
        "failing": [
            {
                "step": one.name,
                "task": one.task or None,
                "error": one.error,
                "since": one.failing_since,
                "failures": one.failures,
                "next_try": one.next_try_at,
            }
            for one in noted
            if one.error
        ],
        "waiting": [{"step": one.name, "task": one.task or None, "waits": one.waits} for one in noted if one.waits],
    }


def _texts(
    found: Sequence["TaskOverview"],
    outbox: int,
    manager: "ManagerStep | None",
    noted: Sequence["ManagerStep"],
    now: datetime,
) -> Iterator[RenderableType]:
    columns = ("task", "round", "state", "collected", "fooled", "validated", "vMER", "spent", "owed", "model")
    yield table(columns, [_row(one) for one in found])
    for one in found:
        waiting = [count(number, *QUEUES[name]) for name, number in one.queues.items() if number]
        yield ""
        yield f"why {one.task} waits: {'; '.join(one.waits_for)}"
        if waiting:
            yield f"  in its queues: {', '.join(waiting)}"
        yield from (f"  {step.name} waits: {step.waits}" for step in noted if step.waits and step.task == one.task)
    yield ""
    if outbox:
        yield f"{count(outbox, 'try waits', 'tries wait')} in this machine's outbox"
    yield _manager_text(manager, now)
    for step in noted:
        if step.error:
            again = f", next try {when(step.next_try_at)}" if step.next_try_at else ""
            tries = f"{step.failures:,} times" if step.failures > 1 else "once"
            yield f"  {f'{step.name} {step.task}'.rstrip()} failed {tries} since {when(step.failing_since)}{again}:"
            yield f"    {step.error}"
        elif step.waits and not step.task:
            yield f"  {step.name} waits: {step.waits}"


def _row(one: "TaskOverview") -> tuple[object, ...]:
    state = f"{one.status}, paused" if one.paused else one.status
    share = one.vmer.share
    vmer = "" if share is None else f"{share:.1%} ({one.vmer.low:.1%} to {one.vmer.high:.1%})"
    money = (dollars(one.round_money.sent_cents), dollars(one.round_money.owed_cents))
    counts = (one.collected, one.fooled, f"{one.verified_fooling:,} of {one.target_fooling:,}")
    return (one.task, one.round, state, *counts, vmer, *money, ", ".join(one.versions))


def _manager_text(last: "ManagerStep | None", now: datetime) -> str:
    if last is None:
        return "no manager has run yet; `outfox manage` runs the rounds"
    seconds = max(0, int((now - last.ran_at).total_seconds()))
    ago = f"{count(seconds, 'second')} ago" if seconds < 120 else when(last.ran_at)
    return f"the manager's last pass ended {ago}, by {last.ran_by}"
