"""`outfox crowd workers` and `outfox crowd block`: who works, and who may."""

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group

from common.text import count, dollars
from plugin.cli.crowd_context import confirm, open_crowd_context
from plugin.cli.output import MOST_SHOWN, data_command, limited_table, show, table, when
from plugin.cli.parameters import DRY_RUN, WHY, YES
from plugin.cli.progress import ProgressBar
from plugin.errors import PluginError
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.workers import WorkerFigures


class ListsByDefault(click.Group):
    """A group that lists without a command: `workers sentiment` is `workers list sentiment`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` if the first argument is not a command."""
        helps = ctx.help_option_names
        if not args or (args[0] not in self.commands and args[0] not in helps):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ListsByDefault)
def workers() -> None:
    """List workers, or those of a TASK; grant or withdraw a task's qualification; write to workers."""


@workers.command("list")
@click.argument("task", required=False)
@data_command
def list_all(app: Application, task: str | None) -> None:
    """List workers who worked, may work or are blocked, as far as collected; the latest submission first."""
    from round_manager.services.workers import list_workers

    with app.services() as services:
        found = list_workers(services, app.settings.crowd_name, task=task).workers
    empty = "there are no workers yet; `outfox crowd status` reads the marketplace"
    show([asdict(one) for one in found], _listed(found) if found else empty)


@workers.command()
@click.argument("task")
@click.argument("worker_ids", nargs=-1, required=True, metavar="WORKER...")
@WHY
@DRY_RUN
@data_command
def grant(app: Application, task: str, worker_ids: tuple[str, ...], why: str, dry_run: bool) -> None:
    """Grant workers the task's qualification, so that they can accept its HITs; safe to repeat."""
    from round_manager.services.workers import check_task, grant_qualification

    with open_crowd_context(app) as context:
        check_task(context.services, task)
        if dry_run:
            _preview(f"grant the qualification of {task} to", worker_ids)
            return
        with ProgressBar() as progress:
            grant_qualification(
                context.services, context.actor, context.crowd, task, worker_ids, reason=why, progress=progress
            )
    show({"task": task, "granted": list(worker_ids)}, f"{count(len(worker_ids), 'worker')} may work on {task}")


@workers.command()
@click.argument("task")
@click.argument("worker_ids", nargs=-1, required=True, metavar="WORKER...")
@click.option("--reason", required=True, metavar="TEXT", help="Why; the worker reads it.")
@DRY_RUN
@data_command
def withdraw(app: Application, task: str, worker_ids: tuple[str, ...], reason: str, dry_run: bool) -> None:
    """Withdraw the task's qualification: the consequence of bad work, instead of a rejection."""
    from round_manager.services.workers import check_task, withdraw_qualification

    with open_crowd_context(app) as context:
        check_task(context.services, task)
        if dry_run:
            _preview(f"withdraw the qualification of {task} from", worker_ids)
            return
        withdraw_qualification(context.services, context.actor, context.crowd, task, worker_ids, reason=reason)
    text = f"{count(len(worker_ids), 'worker')} can no longer accept HITs of {task}"
    show({"task": task, "withdrawn": list(worker_ids)}, text)


@workers.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@data_command
def names(app: Application, file: Path) -> None:
    """Store what you call workers, from a CSV file with the columns worker_id and name; an empty name removes one.

    `outfox marketplace workers --csv FILE` writes such a file. Names stay in this database: archives and `/data` have
    pseudonyms.
    """
    from round_manager.services.worker_groups import name_workers

    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            rows = list(csv.DictReader(text))
        found = {row["worker_id"].strip(): row["name"] for row in rows}
    except (OSError, UnicodeDecodeError, KeyError, AttributeError, TypeError, csv.Error) as error:
        raise PluginError(f"{file} is not a CSV file with the columns worker_id and name") from error
    with app.services() as services:
        stored = name_workers(services, app.actor, app.settings.crowd_name, found)
    show({"named": stored}, f"stored the names of {count(stored, 'worker')}")


@workers.command()
@click.argument("worker_ids", nargs=-1, metavar="[WORKER]...")
@click.option("--task", metavar="TASK", help="Everyone who worked on this task or may work on it.")
@click.option("--subject", required=True, metavar="TEXT", help="The message's subject.")
@click.option("--text", required=True, metavar="TEXT", help="The message.")
@YES
@DRY_RUN
@data_command
def message(
    app: Application, worker_ids: tuple[str, ...], task: str | None, subject: str, text: str, yes: bool, dry_run: bool
) -> None:
    """Write to workers by id, or to all workers of a task."""
    from round_manager.services.workers import check_message, message_workers, workers_of_task

    if bool(worker_ids) == bool(task):
        raise click.UsageError("name the workers, or use --task")
    check_message(app.crowd_profile.limits, subject, text)
    with open_crowd_context(app) as context:
        recipients = worker_ids or workers_of_task(context.services, context.crowd, task or "")
        if not recipients:
            empty = f"{task} has no workers yet; `outfox crowd status {task}` reads the marketplace"
            show({"workers": []}, empty)
            return
        if dry_run:
            _preview(f"write {subject!r} to", recipients)
            return
        confirm(f"write {subject!r} to {count(len(recipients), 'worker')}?", yes=yes)
        undelivered = message_workers(context.actor, context.crowd, recipients, subject, text)
    result = f"wrote to {count(len(recipients) - len(undelivered), 'worker')}"
    rows = [(one.worker_id, one.reason) for one in undelivered]
    data = {"workers": list(recipients), "undelivered": [asdict(one) for one in undelivered]}
    show(data, Group(result, *([table(("not delivered to", "why"), rows)] if rows else [])))


@click.command()
@click.argument("worker")
@click.option("--reason", default="", show_default=False, metavar="TEXT", help="Why; required for a block.")
@click.option("--lift", is_flag=True, help="Lift the block.")
@DRY_RUN
@data_command
def block(app: Application, worker: str, reason: str, lift: bool, dry_run: bool) -> None:
    """Block a worker from all tasks; submitted work is still paid.

    To exclude a worker from one task only, use `outfox crowd workers withdraw`.
    """
    from round_manager.services.workers import block_worker, is_blocked, unblock_worker

    if not lift and not reason.strip():
        raise click.UsageError("a block needs --reason")
    with open_crowd_context(app) as context:
        before = is_blocked(context.services, context.crowd, worker)
        if dry_run:
            same = "; this is already the case" if before is not lift else ""
            _preview("lift the block of" if lift else "block", (worker,), same)
            return
        change = unblock_worker if lift else block_worker
        change(context.actor, context.crowd, worker, reason=reason)
    text = f"{worker} can work again" if lift else f"{worker} is blocked; --lift lifts the block"
    show({"worker": worker, "blocked": not lift, "before": before}, text)


def _listed(found: Sequence["WorkerFigures"]) -> Group:
    columns = ("worker", "name", "pseudonym", "groups", "approved", "rejected", "to decide", "earned", "owed",
               "hourly pay", "last work", "qualified for", "blocked")  # fmt: skip
    rows = [
        (_named(one), one.name, one.pseudonym, ", ".join(one.groups), one.approved, one.rejected, one.undecided,
         dollars(one.earned_cents), dollars(one.owed_cents),
         "" if one.median_hourly_cents is None else dollars(one.median_hourly_cents), when(one.last_work_at),
         ", ".join(one.qualified_for), one.blocked)
        for one in found
    ]  # fmt: skip
    return limited_table(columns, rows, optional_end=True)


def _named(worker: "WorkerFigures") -> str:
    return f"{worker.worker_id} (simulated)" if worker.simulated else worker.worker_id


def _preview(action: str, worker_ids: tuple[str, ...], rest: str = "") -> None:
    data: dict[str, Any] = {"dry_run": True, "would": action, "workers": list(worker_ids)}
    named = ", ".join(worker_ids[:MOST_SHOWN]) + (" …" if len(worker_ids) > MOST_SHOWN else "")
    show(data, f"would {action} {count(len(worker_ids), 'worker')}: {named}{rest}; nothing was changed")
