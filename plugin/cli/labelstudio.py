"""`outfox labelstudio`: connects tasks to Label Studio, fills their projects and reads them."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.errors import CodedError, Hint
from common.text import count
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import REGISTRY, WHOLE_NUMBER, backend_auth
from plugin.cli.progress import ProgressBar
from plugin.hints import command_for
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.labelstudio.connection import ConnectionOptions
    from round_manager.labelstudio.status import LabelStudioStatus, ProjectStatus
    from round_manager.labelstudio.upload_queue import CrowdCounts

WRONG, AWAY = 2, 3


@click.group()
def labelstudio() -> None:
    """Connect tasks to Label Studio, fill their projects and read what people did there."""


@labelstudio.command()
@click.argument("task")
@click.option(
    "--ml-backend",
    "ml_backend",
    metavar="URL",
    help="Address at which Label Studio reaches the ML backend; empty for none. Default: ml_backend_url.",
)
@click.option(
    "--ml-auth",
    "auth_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with user:password of the ML backend. Default: ml_backend_auth.",
)
@click.option(
    "--web-url",
    metavar="URL",
    help="Address at which Label Studio reaches the web app, for webhooks; empty for none. Default: web_url.",
)
@data_command
def connect(app: Application, task: str, ml_backend: str | None, auth_file: Path | None, web_url: str | None) -> None:
    """Create or update a task's two projects, with the ML backend and webhooks; safe to repeat."""
    from round_manager.services.label_studio import connect_task

    options = connection_options(app, ml_backend, auth_file, web_url)
    label_studio = app.label_studio()
    with app.services() as context:
        connected = connect_task(context, app.actor, label_studio, task, options)
    lines = [f"{kind}: {label_studio.url}/projects/{number}" for kind, number in connected.projects.items()]
    changes = list(connected.changes) or ["nothing had to be changed"]
    data = {"task": task, "projects": dict(connected.projects), "changes": list(connected.changes)}
    show(data, "\n".join([*changes, *lines, f"next: `outfox labelstudio push {task}`"]))


def connection_options(
    app: Application, ml_backend: str | None = None, auth_file: Path | None = None, web_url: str | None = None
) -> "ConnectionOptions":
    """Return the addresses and the password that Label Studio gets, by default those of the settings."""
    from round_manager.labelstudio.connection import ConnectionOptions
    from round_manager.labelstudio.port import BackendAuth

    settings = app.settings
    auth = backend_auth(settings, auth_file)
    return ConnectionOptions(
        settings.signing_secrets(),
        ml_backend=(settings.ml_backend_url if ml_backend is None else ml_backend) or None,
        auth=BackendAuth(*auth) if auth else None,
        web_url=(settings.web_url if web_url is None else web_url) or None,
    )


@labelstudio.command()
@click.argument("task")
@data_command
def push(app: Application, task: str) -> None:
    """Send contexts to write for and examples to check; safe to repeat, each becomes one task."""
    from round_manager.services.label_studio import push_task

    with app.services() as context, ProgressBar() as bar:
        sent = push_task(
            context, app.actor, app.label_studio(), task, progress=upload_steps(bar, f"Sending {task} to Label Studio")
        )
    if sent.known and not (sent.contexts or sent.validations or sent.found):
        known = count(sent.known, "task is", "tasks are")
        text = f"{task}: nothing to send; {known} in Label Studio already. A running manager sends them by itself"
    else:
        text = f"{task}: sent {sent.contexts} to write for and {sent.validations} to check"
        text += f"; {sent.found} were there already" if sent.found else ""
    show({"task": task, **vars(sent)}, text + _cleared_text(sent.cleared))


@labelstudio.command()
@click.argument("task", required=False)
@click.option("--all", "every", is_flag=True, help="Every connected task.")
@click.option("--from-start", is_flag=True, help="Read everything again, not only what changed; nothing is doubled.")
@REGISTRY
@data_command
def sync(app: Application, task: str | None, every: bool, from_start: bool, where: str | None) -> None:
    """Read new annotations as examples and votes, and show the crowd's work in Label Studio."""
    from round_manager.services.label_studio import connected_tasks, sync_task

    if (task is None) == (not every):
        raise click.UsageError("name a task, or pass --all for every connected task")
    label_studio, judge = app.label_studio(), app.judge(where)
    rows: list[dict[str, Any]] = []
    errors: list[CodedError] = []
    with app.services() as context:
        for name in [task] if task else connected_tasks(context):
            try:
                synced = sync_task(
                    context, app.actor, label_studio, judge, name, from_start=from_start, until_done=True
                )
                rows.append(
                    {
                        "task": name,
                        **vars(synced.read),
                        "crowd": vars(synced.crowd),
                        "outcomes": synced.outcomes,
                        "error": None,
                    }
                )
            except CodedError as error:
                if not every:
                    raise
                errors.append(error)
                rows.append({"task": name, "error": str(error)})
    nothing = "no task is connected; connect one with `outfox labelstudio connect TASK`"
    show(rows[0] if task else rows, "\n".join(_sync_text(row) for row in rows) or nothing)
    if errors:
        raise click.exceptions.Exit(AWAY if any(error.retry for error in errors) else WRONG)


@labelstudio.command()
@click.argument("task", required=False)
@data_command
def status(app: Application, task: str | None) -> None:
    """Show whether Label Studio responds, and each project: backend, webhook, how far it was read, problems."""
    from round_manager.services.label_studio import label_studio_status

    with app.services() as context:
        found = label_studio_status(context, app.label_studio(), task)
    show(status_data(found), status_text(found))
    if found.error:
        raise click.exceptions.Exit(AWAY if found.retry else WRONG)


@labelstudio.command()
@click.argument("task")
@click.option("--version", metavar="VERSION", help="A model version. Default: the newest in the models folder.")
@click.option(
    "--project",
    type=WHOLE_NUMBER,
    metavar="N",
    help="A project whose tasks have the model's input. Default: the task's own, for what was submitted there.",
)
@REGISTRY
@data_command
def predictions(app: Application, task: str, version: str | None, project: int | None, where: str | None) -> None:
    """Send a model version's answers as predictions with scores; safe to repeat, one for each task."""
    from ml_backend.targets.loading import load_target
    from round_manager.errors import NoModelVersion
    from round_manager.services.label_studio import send_predictions

    registry = app.registry(where)
    known = registry.versions(task)
    if not (version or known):
        raise NoModelVersion(f"{task} has no model version", hint=Hint("train_model", task=task))
    target = load_target(registry.fetch(task, version or known[0]))
    with app.services() as context, ProgressBar() as bar:
        progress = upload_steps(bar, f"Running {target.version}")
        done = send_predictions(
            context, app.actor, app.label_studio(), target, task, project=project, progress=progress
        )
    sent = count(done.sent, "prediction")
    text = f"project {done.project}: sent {sent} of {target.version}"
    rest = f"{done.there} existed already, {count(done.lacking, 'task lacks', 'tasks lack')} the model's input"
    show({"task": task, "version": target.version, **vars(done)}, f"{text}; {rest}")


def upload_steps(bar: ProgressBar, what: str) -> Callable[[int, int], None]:
    """Return a callback that shows how many of how many are done."""
    done_before = -1

    def advance(done: int, total: int) -> None:
        nonlocal done_before
        if done_before < 0 or done < done_before:
            bar.start(total, what)
            done_before = 0
        bar.advance(done - done_before, f"{done} of {total}")
        done_before = done
        if done >= total:
            bar.finish()
            done_before = -1

    return advance


def _sync_text(row: dict[str, Any]) -> str:
    if row["error"]:
        return f"{row['task']}: {row['error']}"
    made = f"{count(row['examples'], 'example')} and {count(row['votes'], 'vote')}"
    text = f"{row['task']}: {made} from {count(row['read'], 'new annotation')}"
    if row["problems"]:
        text += f"; {row['problems']} could not be read, see `outfox labelstudio status {row['task']}`"
    crowd = row["crowd"]
    if crowd["sent"] or crowd["found"]:
        text += f"; uploaded {count(crowd['sent'] + crowd['found'], 'crowd submission')}"
    if crowd["refused"]:
        refused = count(crowd["refused"], "crowd submission was", "crowd submissions were")
        text += f"; {refused} refused, see `outfox labelstudio status {row['task']}`"
    if row["outcomes"]:
        text += f"; wrote {count(row['outcomes'], 'outcome')} back"
    if row["left"]:
        text += f"; {row['left']} wait for an open round: `outfox round open {row['task']}`"
    return text + _cleared_text(row["cleared"])


def _cleared_text(number: int) -> str:
    return f"; deleted {count(number, 'stale check')}" if number else ""


def status_text(found: "LabelStudioStatus") -> RenderableType:
    """Return the status as a page of text."""
    head = f"{found.url} responds as {found.user}" if found.user else str(found.error)
    parts: list[RenderableType] = [head]
    parts += [
        f"{name} is not connected: `{command_for(Hint('connect_label_studio', task=name))}`"
        for name in found.unconnected
    ]
    parts += [
        f"{name} has no open round, so submissions wait: `{command_for(Hint('open_round', task=name))}`"
        for name in found.without_round
    ]
    for one in found.projects:
        parts += ["", table(("", f"{one.task}, to {one.kind}"), _rows(one))]
    return Group(*parts)


def status_data(found: "LabelStudioStatus") -> dict[str, Any]:
    """Return the status as JSON-compatible data."""
    data = asdict(found)
    for one, project in zip(data["projects"], found.projects, strict=True):
        one["hint"] = project.hint.as_data() if project.hint else None
    return data


def _rows(one: "ProjectStatus") -> list[tuple[str, str]]:
    rows = [
        ("project", f"{one.project}, {one.title}"),
        ("ML backend", one.backend),
        ("webhook", one.webhook),
        ("tasks", f"{one.counts.sent:,} sent, {one.counts.unsent:,} to send"),
        ("read until", f"{one.read_until or 'nothing yet'}; {_unread(one.unread)}"),
        ("last sync", str(one.synced_at or "never")),
        ("became", ", ".join(_became(one))),
    ]
    if one.hint:
        rows.append(("to do", f"`{command_for(one.hint)}`"))
    rows += _crowd_rows(one.crowd)
    if one.last_error:
        since, _, text = one.last_error.partition(" ")
        rows.append(("error", f"since {since}: {text}"))
    return rows + [
        (f"annotation {bad.annotation}", f"{bad.changed_at:%Y-%m-%d %H:%M}: {bad.text}") for bad in one.problems
    ]


def _became(one: "ProjectStatus") -> list[str]:
    counts = one.counts
    return [count(counts.examples, "example"), count(counts.votes, "vote"), count(counts.problems, "problem")]


def _crowd_rows(crowd: "CrowdCounts") -> list[tuple[str, str]]:
    rows = [("crowd work", f"{crowd.shown:,} shown, {crowd.waiting:,} to send")]
    if crowd.failure and crowd.next_try:
        rows.append(("", f"next attempt at {crowd.next_try:%Y-%m-%d %H:%M}: {crowd.failure}"))
    if crowd.held:
        held = count(crowd.held, "vote is", "votes are")
        rows.append(("", f"{held} shown once no validator here can be asked about the example"))
    if crowd.refused:
        rows.append(("", f"{count(crowd.refused, 'is', 'are')} refused and retried every hour: {crowd.refusal}"))
    return rows


def _unread(tasks: int | None) -> str:
    return "unread: unknown" if tasks is None else f"{count(tasks, 'task')} changed since"
