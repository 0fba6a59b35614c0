"""`outfox model retrain` and its companions: the next version, how far it is, and no more of it."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group

from common.text import count
from plugin.cli.output import json_option, show, table
from plugin.cli.progress import ProgressBar
from plugin.cli.rotation import REGISTRY, TIMEOUT, WHY
from plugin.operator import operator_name
from plugin.settings import Settings
from plugin.wiring import Application
from templates import Pack, find_pack, load_pack

if TYPE_CHECKING:
    from plugin.retraining import Retrained
    from round_manager.models import TrainingJob

REFUSED = 2


@click.command()
@click.argument("task")
@click.option(
    "--mode", type=click.Choice(["full", "head"]), help="full: fine-tune; head: seconds. Default: the task's."
)
@WHY
@TIMEOUT
@REGISTRY
@click.option("--token", hidden=True, help="The manager's word for this start, by which it finds the job.")
@json_option
@click.pass_obj
def retrain(
    app: Application, task: str, mode: str | None, why: str, timeout: float, where: str | None, token: str | None
) -> None:
    """Train the next version on the seed and every closed round, measure it, and rotate it in.

    It is measured, like the version that answers, on everything that is held out. One that loses more than
    rounds.guard_points anywhere is not rotated in: exit code 2. Safe to run again after a crash: what was trained and
    measured is kept. Exit code 3: not every serving process confirmed the rotation; the old version goes on.
    """
    settings = app.settings
    from common.clock import SystemClock
    from ml_backend.footprint import footprint
    from ml_backend.registry.registry import open_registry
    from ml_backend.targets.loading import load_target
    from plugin.retraining import Retraining
    from plugin.workshop import LocalWorkshop
    from round_manager.database.store import open_store
    from round_manager.learning.jobs import Trainer, new_token

    place = where or settings.registry_location
    with open_store(settings.database) as store, ProgressBar() as progress, _ended_by_terminate(), _told_who(token):
        retraining = Retraining(
            store,
            open_registry(place, settings.cache_path / "models"),
            place,
            LocalWorkshop(settings.models_path, settings.cache_path / "embeddings"),
            load_target,
            SystemClock(),
            timeout,
            progress,
            footprint,
        )
        pack = pack_of(settings, task)
        trainer = Trainer(operator_name(), socket.gethostname(), os.getpid(), token or new_token())
        done = retraining.retrain(pack, mode=mode, trainer=trainer, why=why)
    _show(done)
    if not done.rotated:
        click.echo(f"outfox: {done.version} is not rotated in: {done.acceptance.reason()}", err=True)
        raise click.exceptions.Exit(REFUSED)


@click.command()
@click.argument("task")
@click.option("--last", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many, newest first.")
@json_option
@click.pass_obj
def jobs(app: Application, task: str, last: int) -> None:
    """Show the trainings of a task: how far the running one is, and how the others ended."""
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.learning.jobs import list_jobs
    from round_manager.learning.versions import names_of
    from round_manager.tasks.tasks import find_task

    with open_store(settings.database) as store, store.read() as session:
        found = list_jobs(session, find_task(session, task), last)
        names = names_of(session, [job.model_version_id for job in found if job.model_version_id])
    now = SystemClock().now()
    data = [_told(job, names.get(job.model_version_id or 0), now) for job in found]
    columns = ("job", "state", "mode", "began", "by", "version", "how far")
    nothing = f"no model of {task} was trained on a round yet; `outfox model retrain {task}` does it"
    show(data, table(columns, [[one[column] for column in columns] for one in data]) if data else nothing)


@click.command()
@click.argument("task")
@json_option
@click.pass_obj
def cancel(app: Application, task: str) -> None:
    """Stop the training of a task; the model that answers and the rounds stay as they are."""
    settings = app.settings
    from common.clock import SystemClock
    from plugin.cancellation import cancel_training
    from round_manager.database.store import open_store

    with open_store(settings.database) as store:
        job = cancel_training(store, task, who=operator_name(), clock=SystemClock())
    text = f"the training of {task} on {job.host} stops within seconds"
    if job.finished_at:
        text = f"there was nothing to stop: {job.reason}"
    show({"task": task, "job": job.id, "state": job.state.value, "host": job.host, "pid": job.pid}, text)


def pack_of(settings: Settings, name: str) -> Pack:
    """The pack that the task was made from, else the one of its name."""
    from round_manager.database.store import open_store
    from round_manager.tasks.tasks import find_task

    with open_store(settings.database) as store, store.read() as session:
        folder = Path(find_task(session, name).folder)
    return load_pack(folder) if (folder / "task.yaml").is_file() else find_pack(name, settings.templates_path)


@contextmanager
def _ended_by_terminate() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, so that the job can be told to be over."""
    if current_thread() is not main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _told_who(token: str | None) -> Iterator[None]:
    """A manager hears by the exit code that somebody else trains the task: that is no failure of its own."""
    from plugin.training_process import SOMEBODY_ELSE
    from round_manager.errors import TrainingBusy

    try:
        yield
    except TrainingBusy as busy:
        if token is None:
            raise
        click.echo(f"outfox: {busy}", err=True)
        raise click.exceptions.Exit(SOMEBODY_ELSE) from busy


def _show(done: "Retrained") -> None:
    figures = done.acceptance.record()["comparisons"]
    sources = [source.model_dump() for source in done.data.sources]
    data = {
        "task": done.task,
        "round": done.round,
        "version": done.version,
        "before": list(done.before),
        "rotated": done.rotated,
        "sources": sources,
        "figures": figures,
        "not_compared": dict(done.acceptance.not_compared),
    }
    answers = "answers now" if done.rotated else "does not answer"
    learned = ", ".join(f"{count(one['rows'], 'row')} of {_place(one['round'])}" for one in sources)
    rows = [[one["dataset"], one["rows"], _points(one["before"]), _points(one["after"])] for one in figures]
    compared = table(("held out", "rows", "before", "after"), rows)
    told = [f"it was not compared with {version}: {why}" for version, why in done.acceptance.not_compared.items()]
    show(data, Group(compared, *told, f"{done.version} {answers}; it learned {learned}"))


def _told(job: "TrainingJob", version: str | None, now: datetime) -> dict[str, Any]:
    return {
        "job": job.id,
        "state": job.state.value,
        "mode": job.mode,
        "began": f"{job.started_at:%Y-%m-%d %H:%M:%S}",
        "by": job.started_by,
        "version": version or "",
        "how far": _how_far(job, now),
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


def _how_far(job: "TrainingJob", now: datetime) -> str:
    from round_manager.learning.jobs import is_heard_of
    from round_manager.learning.liveness import is_gone

    if job.reason:
        return job.reason
    share = f" {job.steps / job.total:.0%}" if job.total else ""
    text = f"{job.stage or 'it begins'}{share} {job.note}".rstrip()
    if job.cancel_by:
        text += f"; {job.cancel_by} wants it to stop"
    if is_gone(job, now=now):
        return f"{text}; interrupted, its process is gone"
    if is_heard_of(job, now=now):
        return text
    return f"{text}; not heard of for {count((now - job.beat_at) // timedelta(minutes=1), 'minute')}"


def _place(number: int | None) -> str:
    return "the seed" if number is None else f"round {number}"


def _points(points: float | None) -> str:
    return "" if points is None else f"{points:.1f}"
