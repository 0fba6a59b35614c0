"""`outfox crowd workers` and `outfox crowd block`: who works for us, and who may."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group

from common.money import dollars
from common.text import count
from plugin.cli.crowd_context import DRY_RUN, YES, CrowdContext, ask, open_crowd_context
from plugin.cli.crowd_texts import MOST_SHOWN, more_than, when
from plugin.cli.output import json_option, show, table
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.workers import WorkerFigures
    from round_manager.models import Task

LONGEST_SUBJECT = 200
LONGEST_MESSAGE = 4_096


class ListsByDefault(click.Group):
    """A group that lists when it is given no command: `workers sentiment` is `workers list sentiment`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts `list` in front of what begins with no command."""
        helps = ctx.help_option_names
        if not args or (args[0] not in self.commands and args[0] not in helps):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ListsByDefault)
def workers() -> None:
    """List the workers, or those of a TASK; grant or withdraw the right to work on a task; write to workers."""


@workers.command("list")
@click.argument("task", required=False)
@json_option
@click.pass_obj
def list_all(app: Application, task: str | None) -> None:
    """List who worked, may work or is blocked, as far as it was collected; the latest to hand something in first."""
    settings = app.settings
    from round_manager.crowd.workers import worker_figures
    from round_manager.database.store import open_store
    from round_manager.tasks.tasks import find_task, list_tasks

    with open_store(settings.database) as store, store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        found = worker_figures(session, settings.crowd_name, tasks)
    nothing = "nobody has worked yet; `outfox crowd status` reads the marketplace"
    show([asdict(one) for one in found], _listed(found) if found else nothing)


@workers.command()
@click.argument("task")
@click.argument("worker_ids", nargs=-1, required=True, metavar="WORKER...")
@click.option("--why", default="", metavar="TEXT", help="What for; it is kept with the change.")
@DRY_RUN
@json_option
@click.pass_obj
def grant(app: Application, task: str, worker_ids: tuple[str, ...], why: str, dry_run: bool) -> None:
    """Give workers the task's qualification, so that they can take its HITs; safe to run again."""
    settings = app.settings
    with open_crowd_context(settings) as context:
        found = _task(context, task)
        if dry_run:
            _would(f"give the qualification of {task} to", worker_ids)
            return
        with ProgressBar() as progress:
            progress.start(len(worker_ids), "granting")
            for worker in worker_ids:
                context.services.access.grant(found, worker, who=context.who, why=why)
                progress.advance()
            progress.finish()
    show({"task": task, "granted": list(worker_ids)}, f"{count(len(worker_ids), 'worker')} may work on {task}")


@workers.command()
@click.argument("task")
@click.argument("worker_ids", nargs=-1, required=True, metavar="WORKER...")
@click.option("--reason", required=True, metavar="TEXT", help="Why; the worker reads it.")
@DRY_RUN
@json_option
@click.pass_obj
def withdraw(app: Application, task: str, worker_ids: tuple[str, ...], reason: str, dry_run: bool) -> None:
    """Take the task's qualification back: what follows from bad work, in place of a rejection."""
    settings = app.settings
    with open_crowd_context(settings) as context:
        found = _task(context, task)
        if dry_run:
            _would(f"take the qualification of {task} from", worker_ids)
            return
        for worker in worker_ids:
            context.services.access.withdraw(found, worker, who=context.who, why=reason)
    text = f"{count(len(worker_ids), 'worker')} can take no more HITs of {task}"
    show({"task": task, "withdrawn": list(worker_ids)}, text)


@workers.command()
@click.argument("worker_ids", nargs=-1, metavar="[WORKER]...")
@click.option("--task", metavar="TASK", help="Everybody who worked on this task or may work on it.")
@click.option("--subject", required=True, metavar="TEXT", help="The message's subject.")
@click.option("--text", required=True, metavar="TEXT", help="The message.")
@YES
@DRY_RUN
@json_option
@click.pass_obj
def message(
    app: Application, worker_ids: tuple[str, ...], task: str | None, subject: str, text: str, yes: bool, dry_run: bool
) -> None:
    """Write to workers by name, or to all of a task."""
    settings = app.settings
    if bool(worker_ids) == bool(task):
        raise click.UsageError("name the workers, or give --task")
    if not subject.strip() or len(subject) > LONGEST_SUBJECT or not text.strip() or len(text) > LONGEST_MESSAGE:
        raise click.UsageError(
            f"a message has a subject of up to {LONGEST_SUBJECT} characters and a text of up to {LONGEST_MESSAGE}"
        )
    with open_crowd_context(settings) as context:
        reached = worker_ids or _of_task(context, task or "")
        if not reached:
            show(
                {"workers": []}, f"nobody has worked on {task} yet; `outfox crowd status {task}` reads the marketplace"
            )
            return
        if dry_run:
            _would(f"write {subject!r} to", reached)
            return
        ask(f"write {subject!r} to {count(len(reached), 'worker')}?", yes=yes)
        missed = context.crowd.notify(reached, subject, text)
    told = f"wrote to {count(len(reached) - len(missed), 'worker')}"
    rows = [(one.worker_id, one.reason) for one in missed]
    data = {"workers": list(reached), "undelivered": [asdict(one) for one in missed]}
    show(data, Group(told, *([table(("not reached", "why"), rows)] if rows else [])))


@click.command()
@click.argument("worker")
@click.option("--reason", default="", metavar="TEXT", help="Why; needed for a block.")
@click.option("--lift", is_flag=True, help="Lift the block: the worker gets work again.")
@DRY_RUN
@json_option
@click.pass_obj
def block(app: Application, worker: str, reason: str, lift: bool, dry_run: bool) -> None:
    """Give a worker no more work of any task; what they handed in is still paid.

    To keep somebody from one task only, use `outfox crowd workers withdraw`.
    """
    settings = app.settings
    from round_manager.crowd.workers import is_blocked
    from round_manager.errors import CrowdWorkError

    if not lift and not reason.strip():
        raise CrowdWorkError("a block needs a reason; give one with --reason")
    with open_crowd_context(settings) as context:
        with context.store.read() as session:
            before = is_blocked(session, context.crowd.name, worker)
        if dry_run:
            same = "; our books say so already" if before is not lift else ""
            _would("lift the block of" if lift else "block", (worker,), same)
            return
        if lift:
            context.services.access.unblock(worker, who=context.who, why=reason)
        else:
            context.services.access.block(worker, who=context.who, why=reason)
    text = f"{worker} gets work again" if lift else f"{worker} gets no more work; --lift takes it back"
    show({"worker": worker, "blocked": not lift, "before": before}, text)


def _listed(found: list["WorkerFigures"]) -> Group:
    columns = ("worker", "approved", "rejected", "to decide", "earned", "owed", "an hour pays", "last work",
               "qualified for", "blocked")  # fmt: skip
    rows = [
        (one.worker_id, one.approved, one.rejected, one.undecided, dollars(one.earned_cents), dollars(one.owed_cents),
         "" if one.median_hourly_cents is None else dollars(one.median_hourly_cents), when(one.last_work_at),
         ", ".join(one.qualified_for), one.blocked)
        for one in found[:MOST_SHOWN]
    ]  # fmt: skip
    shown = len(columns) if any(one.blocked for one in found) else -1
    return Group(table(columns[:shown], [row[:shown] for row in rows]), *filter(None, [more_than(found)]))


def _would(does: str, worker_ids: tuple[str, ...], rest: str = "") -> None:
    data: dict[str, Any] = {"dry_run": True, "would": does, "workers": list(worker_ids)}
    named = ", ".join(worker_ids[:MOST_SHOWN]) + (" …" if len(worker_ids) > MOST_SHOWN else "")
    show(data, f"would {does} {count(len(worker_ids), 'worker')}: {named}{rest}; nothing was changed")


def _task(context: CrowdContext, name: str) -> "Task":
    from round_manager.tasks.tasks import find_task

    with context.store.read() as session:
        return find_task(session, name)


def _of_task(context: CrowdContext, name: str) -> tuple[str, ...]:
    from round_manager.crowd.workers import worker_figures
    from round_manager.tasks.tasks import find_task

    with context.store.read() as session:
        found = worker_figures(session, context.crowd.name, [find_task(session, name)])
    return tuple(one.worker_id for one in found if one.last_work_at or one.qualified_for)
