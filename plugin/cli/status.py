"""`outfox status`: where every task stands."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.errors import Hint
from common.text import count, dollars
from plugin.cli.output import data_command, show, table, when
from plugin.cli.round import reasons_data, round_state, warnings_data
from plugin.hints import NO_TASKS, with_command
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.loop.overview import TaskOverview
    from round_manager.models import ManagerStep
    from round_manager.services.tasks import Overview

QUEUES = {
    "examples_waiting_for_votes": ("example waiting for votes", "examples waiting for votes"),
    "examples_waiting_for_owner": ("example waiting for the owner", "examples waiting for the owner"),
    "hits_to_create": ("HIT to create", "HITs to create"),
    "hits_to_validate": ("HIT to validate", "HITs to validate"),
    "hits_to_quiz": ("HIT for the quiz", "HITs for the quiz"),
    "pages_to_confirm": ("page to confirm", "pages to confirm"),
    "work_to_approve": ("assignment to approve", "assignments to approve"),
    "payments_owed": ("payment owed", "payments owed"),
    "payments_in_doubt": ("payment in doubt", "payments in doubt"),
    "held_for_a_person": ("HIT or payment held for a person", "HITs and payments held for a person"),
    "unsent_to_label_studio": ("task not sent to Label Studio yet", "tasks not sent to Label Studio yet"),
    "refused_in_label_studio": ("annotation refused in Label Studio", "annotations refused in Label Studio"),
}


@click.command()
@click.argument("task", required=False)
@data_command
def status(app: Application, task: str | None) -> None:
    """Show every task: its round, examples, money, model, queues and reasons to wait, and the manager's last pass.

    vMER is the share of collected examples that fooled the model and were verified by validators, with its 95 %
    interval; `outfox round metrics TASK` recomputes it from the votes.
    """
    from ml_backend.serving.outbox import count_waiting
    from round_manager.services.tasks import show_overview

    with app.services() as services:
        overview = show_overview(services, task, has_marketplace=app.settings.has_crowd_keys)
    found = overview.tasks
    outbox = count_waiting(app.settings.home_path / "tries")
    data = {"tasks": [_task(one) for one in found], "tries_in_outbox": outbox, "manager": _manager(overview)}
    show(data, Group(*_texts(overview, outbox, app.clock.now())) if found else NO_TASKS)


def _task(one: "TaskOverview") -> dict[str, Any]:
    apart = ("task_money", "round_money", "waits_for", "warnings")
    plain = {key: value for key, value in asdict(one).items() if key not in apart}
    money = {
        name: {**asdict(part), "free_cents": part.released_cents}
        for name, part in (("task_money", one.task_money), ("round_money", one.round_money))
    }
    reasons = {**reasons_data(one.waits_for), "warnings": warnings_data(one.warnings)}
    return {**plain, **reasons, **money, "vmer": one.vmer.as_data()}


def _manager(overview: "Overview") -> dict[str, Any]:
    last = overview.last_pass
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
            for one in overview.problems
            if one.error
        ],
        "waiting": [
            {"step": one.name, "task": one.task or None, "waits": one.waits} for one in overview.problems if one.waits
        ],
    }


def _texts(overview: "Overview", outbox: int, now: datetime) -> Iterator[RenderableType]:
    columns = ("task", "round", "state", "collected", "fooled", "validated", "vMER", "spent", "owed", "model")
    yield table(columns, [_row(one) for one in overview.tasks])
    for one in overview.tasks:
        waiting = [count(number, *QUEUES[name]) for name, number in one.queues.items() if number]
        if one.simulated:
            yield f"simulated workers wrote {one.simulated:,} of these {count(one.collected, 'example')} of {one.task}"
        yield ""
        yield f"{one.task} waits for:"
        yield from (f"- {with_command(reason.text, reason.hint)}" for reason in one.waits_for)
        yield from (f"  {with_command(warning.text, warning.hint)}" for warning in one.warnings)
        if waiting:
            yield f"  queues: {', '.join(waiting)}"
        yield from (
            f"  {step.name} waits: {step.waits}" for step in overview.problems if step.waits and step.task == one.task
        )
    yield ""
    if outbox:
        yield f"{count(outbox, 'attempt waits', 'attempts wait')} in this machine's outbox"
    yield _manager_text(overview.last_pass, now)
    for step in overview.problems:
        if step.error:
            again = f", next attempt {when(step.next_try_at)}" if step.next_try_at else ""
            tries = f"{step.failures:,} times" if step.failures > 1 else "once"
            yield f"  {f'{step.name} {step.task}'.rstrip()} failed {tries} since {when(step.failing_since)}{again}:"
            yield f"    {step.error}"
        elif step.waits and not step.task:
            yield f"  {step.name} waits: {step.waits}"


def _row(one: "TaskOverview") -> tuple[object, ...]:
    state = round_state(one.status, in_house=one.in_house, paused=one.paused, imported=one.imported)
    share = one.vmer.share
    vmer = "" if share is None else f"{share:.1%} ({one.vmer.low:.1%} to {one.vmer.high:.1%})"
    money = (dollars(one.round_money.sent_cents), dollars(one.round_money.owed_cents))
    validated = f"{one.new_verified_fooling:,}" + ("" if one.imported else f" of {one.target_fooling:,}")
    counts = (one.collected, one.fooled, validated)
    return (one.task, one.round, state, *counts, vmer, *money, ", ".join(one.versions))


def _manager_text(last: "ManagerStep | None", now: datetime) -> str:
    if last is None:
        return with_command("no manager has run yet", Hint("run_manager"))
    seconds = max(0, int((now - last.ran_at).total_seconds()))
    ago = f"{count(seconds, 'second')} ago" if seconds < 120 else when(last.ran_at)
    return f"the manager's last pass ended {ago}, by {last.ran_by}"
