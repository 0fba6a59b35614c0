"""`outfox model retrain`, `jobs` and `cancel`: train the next version, follow its progress, stop it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group

from common.text import count
from plugin.cli.output import data_command, data_table, show, table
from plugin.cli.parameters import MODE, REGISTRY, TIMEOUT, WHY, task_pack
from plugin.cli.progress import ProgressBar, interrupted_by_sigterm
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.models import TrainingJob
    from round_manager.services.training import RetrainingResult

REFUSED = 2


@click.command()
@click.argument("task")
@MODE
@WHY
@TIMEOUT
@REGISTRY
@click.option("--token", hidden=True, help="The manager's token for this start, by which it finds the job.")
@data_command
def retrain(
    app: Application, task: str, mode: str | None, why: str, timeout: float, where: str | None, token: str | None
) -> None:
    """Train the next version on the seed and every closed round, evaluate it, and rotate it in.

    The new version and those that serve are evaluated on all held-out rows. A version that loses more than
    rounds.guard_points on any set of them, beyond chance, is not rotated in: exit code 2. Safe to run again after a
    crash: trained versions and evaluations are kept. Exit code 3: not every serving process confirmed the rotation; the
    old version stays.
    """
    from round_manager.services.training import retrain as retrain_task

    with app.services() as context, ProgressBar() as progress, interrupted_by_sigterm(), _busy_exit_code(token):
        done = retrain_task(
            context,
            app.actor,
            task_pack(context, app.settings, task),
            app.training_ports(where, timeout),
            mode=mode,
            reason=why,
            token=token,
            progress=progress,
        )
    _show_result(done)
    if not done.rotated:
        click.echo(f"outfox: {done.version} was not rotated in: {done.decision.reason()}", err=True)
        raise click.exceptions.Exit(REFUSED)


@click.command()
@click.argument("task")
@click.option("--last", type=click.IntRange(1, 1000), default=10, help="How many, newest first.")
@data_command
def jobs(app: Application, task: str, last: int) -> None:
    """List the trainings of a task, with the progress of the running one."""
    from round_manager.services.training_supervisor import list_trainings

    with app.services() as context:
        found = list_trainings(context, task, last)
    now = app.clock.now()
    data = [_job_data(one.job, one.version, now) for one in found]
    columns = ("job", "state", "mode", "began", "by", "version", "how far")
    nothing = f"no model of {task} was trained on a round yet; `outfox model retrain {task}` trains one"
    show(data, data_table(data, columns) if data else nothing)


@click.command()
@click.argument("task")
@data_command
def cancel(app: Application, task: str) -> None:
    """Stop the training of a task; the model that serves and the rounds stay as they are."""
    from round_manager.services.training_supervisor import cancel_training

    with app.services() as context:
        job = cancel_training(context, app.actor, task, app.job_runner())
    text = f"the training of {task} on {job.host} stops within seconds"
    if job.finished_at:
        text = f"the training had already ended: {job.reason}"
    show({"task": task, "job": job.id, "state": job.state.value, "host": job.host, "pid": job.pid}, text)


@contextmanager
def _busy_exit_code(token: str | None) -> Iterator[None]:
    """Exit with a special code if another process trains the task and a job runner started this one."""
    from plugin.jobs.process import BUSY_CODE
    from round_manager.errors import TrainingBusy

    try:
        yield
    except TrainingBusy as busy:
        if token is None:
            raise
        click.echo(f"outfox: {busy}", err=True)
        raise click.exceptions.Exit(BUSY_CODE) from busy


def _show_result(done: "RetrainingResult") -> None:
    figures = done.decision.record()["comparisons"]
    sources = [source.model_dump() for source in done.data.sources]
    data = {
        "task": done.task,
        "round": done.round,
        "version": done.version,
        "before": list(done.before),
        "rotated": done.rotated,
        "sources": sources,
        "figures": figures,
        "not_compared": dict(done.decision.not_compared),
    }
    serves = "serves now" if done.rotated else "does not serve"
    learned = ", ".join(f"{count(one['rows'], 'row')} of {_source(one['round'])}" for one in sources)
    rows = [
        [one["dataset"], one["rows"], _points(one["before"]), _points(one["after"]), one["against"], _loss(one)]
        for one in figures
    ]
    compared = table(("held out", "rows", "before", "after", "against", "loss"), rows)
    missing = [f"not compared with {version}: {why}" for version, why in done.decision.not_compared.items()]
    show(data, Group(compared, *missing, f"{done.version} {serves}; it was trained on {learned}"))


def _loss(one: dict[str, Any]) -> str:
    return "" if one["before"] is None else f"{one['low']:.1f} to {one['high']:.1f}"


def _job_data(job: "TrainingJob", version: str | None, now: datetime) -> dict[str, Any]:
    return {
        "job": job.id,
        "state": job.state.value,
        "mode": job.mode,
        "began": f"{job.started_at:%Y-%m-%d %H:%M:%S}",
        "by": job.started_by,
        "version": version or "",
        "how far": _progress_text(job, now),
        "stage": job.stage,
        "steps": job.steps,
        "total": job.total,
        "beat": job.beat_at,
        "cancel_by": job.cancel_by,
        "reason": job.reason,
        "figures": job.figures,
        "finished": job.finished_at,
        "host": job.host,
        "pid": job.pid,
    }


def _progress_text(job: "TrainingJob", now: datetime) -> str:
    from round_manager.learning.training_jobs import has_heartbeat, is_process_gone

    if job.reason:
        return job.reason
    share = f" {job.steps / job.total:.0%}" if job.total else ""
    text = f"{job.stage or 'starting'}{share} {job.note}".rstrip()
    if job.cancel_by:
        text += f"; cancelled by {job.cancel_by}"
    if is_process_gone(job, now=now):
        return f"{text}; interrupted, its process is gone"
    if has_heartbeat(job, now=now):
        return text
    return f"{text}; no heartbeat for {count((now - job.beat_at) // timedelta(minutes=1), 'minute')}"


def _source(number: int | None) -> str:
    return "the seed" if number is None else f"round {number}"


def _points(points: float | None) -> str:
    return "" if points is None else f"{points:.1f}"
