"""`outfox crowd follow`, `approve`, `reject` and `reports`: submitted work, and what workers report."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group

from common.text import count, dollars
from plugin.cli.crowd_context import (
    DECIDE,
    CrowdContext,
    leave_paid,
    open_crowd_context,
    page_text,
    paid_text,
    unfinished_text,
    unknown_text,
)
from plugin.cli.output import data_command, every_text, limited_table, show, when
from plugin.cli.parameters import DRY_RUN, WHY
from plugin.cli.progress import ProgressBar, stopped_by_signals
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.collection import CollectionResult
    from round_manager.crowd.reviews import UndecidedWork
    from round_manager.services.reviews import WorkSelection
    from round_manager.work.reports import WorkerReport

MOST_NAMED = 10


@click.command()
@click.argument("names", nargs=-1, metavar="[TASK] [ASSIGNMENT]...")
@click.option("--all", "every", is_flag=True, help="All work without a decision, of the task or of every task.")
@WHY
@DRY_RUN
@data_command
def approve(app: Application, names: tuple[str, ...], every: bool, why: str, dry_run: bool) -> None:
    """Collect submitted work, approve it and pay the rewards; everything else that is owed is paid too.

    If HITs show our own pages, --all leaves out work whose page was not finished: name it to pay it. --dry-run does not
    read the marketplace, so it shows only what was collected before.
    """
    from round_manager.services.reviews import approve_work, select_work, split_names

    ours = app.settings.serves_hit_pages
    with open_crowd_context(app) as context:
        task, works = split_names(context.services, names)
        if bool(works) == every:
            raise click.UsageError("name the assignments, or use --all for all work without a decision")
        if dry_run:
            found = select_work(context.services, context.crowd, task=task, assignments=works, our_pages=ours)
            _preview_approval(context, found)
            return
        # First: with wrong keys the marketplace would refuse every payment for good.
        context.account_cents()
        with ProgressBar() as progress:
            collected = context.crowd.collector.run(progress)
            found = select_work(context.services, context.crowd, task=task, assignments=works, our_pages=ours)
            new = approve_work(context.services, context.actor, context.crowd, found.chosen, reason=why)
            paid = context.crowd.payments.run(progress)
    uncovered = len(found.chosen) - new
    data = {"dry_run": False, "collected": asdict(collected), "approved": new, "uncovered": uncovered,
            "left_out": [one.assignment_id for one in found.left_out], "paid": asdict(paid)}  # fmt: skip
    text = f"{count(collected.works, 'new assignment')}, {new} newly approved; {paid_text(paid)}"
    text += unknown_text(collected) + _left_out_text(found.left_out)
    show(data, text if new or paid.rewards else f"{text}; see `outfox crowd status`")
    leave_paid(paid, uncovered)


@click.command()
@click.argument("assignment")
@click.option("--reason", required=True, metavar="TEXT", help="Why; the worker reads it.")
@click.option("--override", is_flag=True, help="Take a rejection back and pay the work; possible for 30 days.")
@DRY_RUN
@data_command
def reject(app: Application, assignment: str, reason: str, override: bool, dry_run: bool) -> None:
    """Reject work, which is then not paid.

    A rejection harms a worker's record everywhere, so it is not the default for bad work: approve it, do not use it,
    and withdraw the worker's qualification with `outfox crowd workers withdraw`.
    """
    from round_manager.services.reviews import ensure_collected, override_rejection, reject_work

    if not reason.strip():
        raise click.UsageError("--reason must not be empty")
    with open_crowd_context(app) as context:
        if dry_run:
            _preview_rejection(context, assignment, reason, override=override)
            return
        with ProgressBar() as progress:
            ensure_collected(context.services, context.crowd, assignment, progress)
        if not override:
            reject_work(context.actor, context.crowd, assignment, reason=reason)
            text = f"{assignment} is rejected and its money is released; --override takes the rejection back"
            show({"assignment": assignment, "status": "rejected", "reason": reason.strip()}, text)
            return
        context.account_cents()
        override_rejection(context.actor, context.crowd, assignment, reason=reason)
        with ProgressBar() as progress:
            paid = context.crowd.payments.run(progress)
    show({"assignment": assignment, "status": "overridden", "paid": asdict(paid)},
         f"the rejection of {assignment} is overridden; {paid_text(paid)}")  # fmt: skip
    leave_paid(paid)


def _left_out_text(left: Sequence["UndecidedWork"]) -> str:
    if not left:
        return ""
    named = ", ".join(one.assignment_id for one in left[:MOST_NAMED]) + (" …" if len(left) > MOST_NAMED else "")
    return f"; left out: {unfinished_text(len(left))} ({named}); {DECIDE}"


def _preview_approval(context: CrowdContext, found: "WorkSelection") -> None:
    from round_manager.services.reviews import price_of

    chosen, price = found.chosen, price_of(context.services, context.crowd, found.chosen)
    columns = ("assignment", "worker", "kind", "reward", "submitted", "page")
    rows = [
        (one.assignment_id, one.worker_id, one.kind, dollars(one.reward_cents), when(one.submitted_at), page_text(one))
        for one in chosen
    ]
    unfinished = sum(one.page_unfinished for one in chosen)
    text = f"would approve {count(len(chosen), 'assignment')} for {dollars(price.cents)} in rewards"
    text += f" and {dollars(price.fee_cents)} in fees"
    text += f", {unfinished_text(unfinished)}" if unfinished else ""
    text += f"{_left_out_text(found.left_out)}; nothing was changed or collected (`outfox crowd status` collects)"
    data = {"dry_run": True, "works": [asdict(one) for one in chosen], "reward_cents": price.cents,
            "fee_cents": price.fee_cents, "left_out": [one.assignment_id for one in found.left_out]}  # fmt: skip
    show(data, Group(limited_table(columns, rows, optional_end=True), text) if rows else text)


def _preview_rejection(context: CrowdContext, assignment: str, reason: str, *, override: bool) -> None:
    from round_manager.services.reviews import preview_rejection

    cents = preview_rejection(context.services, context.crowd, assignment, override=override)
    data: dict[str, Any] = {"dry_run": True, "assignment": assignment, "override": override, "cents": cents}
    rejection = f"reject {assignment} and release {dollars(cents)}, with the fee"
    overriding = f"override the rejection of {assignment} and spend {dollars(cents)}, with the fee"
    show({**data, "reason": reason.strip()}, f"would {overriding if override else rejection}; nothing was changed")


@click.command()
@click.argument("task")
@data_command
def reports(app: Application, task: str) -> None:
    """List what workers reported on a task's pages, and why they skipped a text; the newest first.

    Workers are named as in the task's data. An unconfirmed worker may be anyone who had the HIT's link.
    """
    from round_manager.services.reviews import list_reports

    with app.services() as services:
        found = list_reports(services, task)
    show([asdict(one) for one in found], _listed(found) if found else f"there are no reports about {task}")


def _listed(found: list["WorkerReport"]) -> Group:
    columns = ("when", "worker", "confirmed", "HIT", "kind", "item", "text")
    rows = [
        (when(one.at), one.worker, "yes" if one.confirmed else "no", one.hit_id, one.kind,
         "page" if one.item is None else str(one.item), " ".join(one.text.split()))
        for one in found
    ]  # fmt: skip
    return limited_table(columns, rows)


@click.command()
@click.option(
    "--every",
    type=click.FloatRange(1, 86_400),
    default=60.0,
    metavar="SECONDS",
    help="How often everything unfinished is read without an event.",
)
@click.pass_obj
def follow(app: Application, every: float) -> None:
    """Collect submitted work until Ctrl-C: soon after each event, and at regular intervals.

    Events come from the SQS queue of the setting crowd_queue_url. They are hints: nothing is lost if one does not
    arrive, and nothing is done twice if one arrives twice.
    """
    from round_manager.crowd.collection import CollectionLoop

    events = app.event_queue()
    sources = "events and " if events else ""
    with stopped_by_signals() as stop, open_crowd_context(app) as context:
        context.account_cents()  # Report wrong keys now, and not in a log every minute.
        click.echo(f"following {app.settings.crowd_url}: {sources}{every_text(every)} (press Ctrl-C to stop)")
        CollectionLoop(context.crowd.collector, events, every=every, pause=stop.wait).run(_report)
    click.echo("stopped")


def _report(found: "CollectionResult") -> None:
    parts = [f"{count(found.works, 'new assignment')}"] if found.works else []
    parts += [f"{count(found.finished, 'HIT')} finished"] if found.finished else []
    click.echo(", ".join(parts))
