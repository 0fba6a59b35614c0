"""`outfox submissions`: models that researchers submit for evaluation over HTTP."""

from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from plugin.cli.output import data_command, show, table, when
from plugin.cli.parameters import WHY
from plugin.cli.progress import interrupted_by_sigterm
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.services.submissions import Submitted

MEGABYTE = 1_000_000
MOST_MEGABYTES, MOST_MINUTES, MOST_NUMBER = 1_000_000, 10_080, 100_000


@click.group()
def submissions() -> None:
    """Let researchers submit models, which are evaluated in a sandbox on every round and test suite.

    A submission is a zip of a model's folder (safetensors or ONNX, with its tokenizer) or a file of predictions (CSV or
    Parquet), sent to `/data/TASK/submissions` of `outfox serve` with a data token. `outfox manage` evaluates them.
    """


@submissions.command()
@click.argument("task")
@click.option("--per-day", type=click.IntRange(1, MOST_NUMBER), default=5, help="Submissions of a token in 24 hours.")
@click.option("--queued", type=click.IntRange(1, MOST_NUMBER), default=2, help="Submissions of a token at once.")
@click.option("--mb", type=click.IntRange(1, MOST_MEGABYTES), default=2_000, help="Size of a submission.")
@click.option("--total-mb", type=click.IntRange(1, MOST_MEGABYTES), default=5_000, help="Size of all of a token.")
@click.option("--memory-mb", type=click.IntRange(256, MOST_MEGABYTES), default=4_096, help="Memory of a model.")
@click.option("--minutes", type=click.IntRange(1, MOST_MINUTES), default=60, help="Time of an evaluation.")
@click.option("--axes", multiple=True, metavar="AXIS,…", help="Axes, or `all`. Default: performance,calibration.")
@WHY
@data_command
def allow(
    app: Application,
    task: str,
    per_day: int,
    queued: int,
    mb: int,
    total_mb: int,
    memory_mb: int,
    minutes: int,
    axes: tuple[str, ...],
    why: str,
) -> None:
    """Take submissions for a task within these limits. By default no task takes any.

    It also checks that this machine can isolate the models of others.
    """
    from ml_backend.sandbox.process import check_sandbox
    from round_manager.evaluation.axes import chosen_axes
    from round_manager.services.submissions import Limits, allow_submissions

    measured = ",".join(chosen_axes(tuple(part.strip() for one in axes for part in one.split(",") if part.strip())))
    check_sandbox()
    limits = Limits(per_day, queued, mb * MEGABYTE, total_mb * MEGABYTE, memory_mb, minutes * 60, measured)
    with app.services() as services:
        allow_submissions(services, app.actor, task, limits, reason=why)
    url = f"{app.settings.web_url.rstrip('/')}/data/{task}/submissions"
    lines = [
        f"{task} takes submissions at {url}",
        f"each data token: {per_day} in 24 hours, {queued} at once, {mb:,} MB each, {total_mb:,} MB in total",
        f"each model: {memory_mb:,} MB of memory, {minutes} minutes; measured: {measured.replace(',', ', ')}",
    ]
    show({"task": task, "open": True, "url": url, **vars(limits)}, "\n".join(lines))


@submissions.command()
@click.argument("task")
@WHY
@data_command
def close(app: Application, task: str, why: str) -> None:
    """Take no further submissions for a task; those in the queue are still evaluated."""
    from round_manager.services.submissions import refuse_submissions

    with app.services() as services:
        refuse_submissions(services, app.actor, task, reason=why)
    show({"task": task, "open": False}, f"{task} takes no submissions")


@submissions.command("list")
@click.argument("task")
@data_command
def list_(app: Application, task: str) -> None:
    """List the submissions of a task, newest first."""
    from round_manager.services.submissions import list_submissions, submission_terms

    with app.services() as services:
        found = list_submissions(services, task)
        is_open = submission_terms(services, task) is not None
    rows = [
        (one.row.key, one.row.name, one.row.kind, one.row.state.value, one.token, when(one.row.created_at), _why(one))
        for one in found
    ]
    columns = ("id", "name", "kind", "state", "token", "submitted", "why")
    nothing = f"there are no submissions; {task} takes {'them' if is_open else 'none'}"
    data = {"task": task, "open": is_open, "submissions": [_data(one) for one in found]}
    show(data, table(columns, rows) if rows else nothing)


@submissions.command("show")
@click.argument("task")
@click.argument("key", metavar="ID")
@data_command
def show_(app: Application, task: str, key: str) -> None:
    """Show a submission and its figures."""
    from round_manager.services.submissions import show_submission

    with app.services() as services:
        found = show_submission(services, task, key)
    show(_data(found), _shown(found))


@submissions.command()
@click.argument("task")
@click.argument("keys", metavar="[ID]...", nargs=-1)
@click.option("--token", hidden=True, help="The manager's token for this start.")
@WHY
@data_command
def run(app: Application, task: str, keys: tuple[str, ...], token: str | None, why: str) -> None:
    """Evaluate the submissions of a task until the queue is empty, as `outfox manage` does.

    With IDs, submissions that have ended are evaluated again, for example on a new round; what is stored is not
    measured twice.
    """
    from plugin.jobs.process import BUSY_CODE
    from round_manager.errors import SubmissionsBusy
    from round_manager.services.submission_runs import run_next_submission
    from round_manager.services.submissions import requeue_submission

    done: list[Submitted] = []
    with app.services() as services, interrupted_by_sigterm():
        for key in keys:
            requeue_submission(services, app.actor, task, key, reason=why)
        try:
            while one := run_next_submission(services, app.actor, task, app.submission_ports()):
                done.append(one)
                click.echo(f"{one.row.key} {one.row.name}: {one.row.state.value} {_why(one)}".rstrip(), err=True)
        except SubmissionsBusy as busy:
            if token is None:
                raise
            click.echo(f"outfox: {busy}", err=True)
            raise click.exceptions.Exit(BUSY_CODE) from busy
    rows = [(one.row.key, one.row.name, one.row.state.value, _why(one)) for one in done]
    nothing = "the queue is empty"
    show([_data(one) for one in done], table(("id", "name", "state", "why"), rows) if rows else nothing)


@submissions.command()
@click.argument("task")
@click.argument("key", metavar="ID")
@WHY
@data_command
def cancel(app: Application, task: str, key: str, why: str) -> None:
    """Cancel a submission that waits or is being evaluated."""
    from round_manager.services.submissions import cancel_submission

    with app.services() as services:
        found = cancel_submission(services, app.actor, task, key, reason=why)
    is_over = found.row.finished_at is not None
    show(_data(found), f"{key} {'is cancelled' if is_over else 'is cancelled as soon as its process sees it'}")


@submissions.command()
@click.argument("task")
@click.argument("key", metavar="ID")
@WHY
@data_command
def remove(app: Application, task: str, key: str, why: str) -> None:
    """Remove a submission that has ended: its files, and its results from the leaderboard."""
    from round_manager.services.submissions import remove_submission

    place = app.settings.archives_location
    with app.services() as services:
        found = remove_submission(services, app.actor, app.submitted_files(), place, task, key, reason=why)
    show(_data(found), f"{key} is removed")


def _data(one: "Submitted") -> dict[str, Any]:
    return {**one.as_data(), "token": one.token, "model_id": one.row.model_id}


def _why(one: "Submitted") -> str:
    return f"{one.row.code}: {one.row.message}" if one.row.code else ""


def _shown(one: "Submitted") -> RenderableType:
    row = one.row
    lines = [f"{row.name} ({row.kind}, {row.size:,} bytes) is {row.state.value}; token {one.token}"]
    lines += [_why(one)] if row.code else []
    results = (row.results or {}).get("rows", [])
    if not results:
        return "\n".join(lines)
    rows = [(one["data"], one["axis"], one["metric"], one["n"], f"{one['value']:.1f}") for one in results]
    return Group("\n".join(lines), table(("data", "axis", "metric", "rows", "value"), rows))
