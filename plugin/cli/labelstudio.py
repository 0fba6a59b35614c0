"""`outfox labelstudio`: a task's projects in Label Studio, filled and read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from common.text import count
from ml_backend.errors import BackendError
from plugin.cli.auth import backend_auth
from plugin.cli.output import json_option, show
from plugin.cli.parameters import WHOLE_NUMBER
from plugin.cli.progress import ProgressBar
from plugin.cli.rotation import REGISTRY
from plugin.errors import PluginError
from plugin.settings import Settings
from plugin.wiring import Application
from round_manager.errors import RoundManagerError

if TYPE_CHECKING:
    from ml_backend.judge import RegistryJudge
    from plugin.labelstudio.remote import RemoteStudio
    from round_manager.database.store import Store
    from templates import Pack

WRONG, AWAY = 2, 3
# How long rounds are shows in no project; the demo has its own.
TERMS: dict[str, bool | set[str]] = {"rounds": True, "work": {"label_studio_minutes"}}


@click.group()
def labelstudio() -> None:
    """Connect tasks to Label Studio, fill their projects and read what people did there."""


@labelstudio.command()
@click.argument("task")
@click.option(
    "--ml-backend",
    "ml_backend",
    metavar="URL",
    help="Where Label Studio reaches `outfox ml-backend`; an empty text leaves it out. Default: ml_backend_url.",
)
@click.option(
    "--ml-auth",
    "auth_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with the user:password that the ML backend asks for. Default: ml_backend_auth.",
)
@click.option(
    "--web-url",
    metavar="URL",
    help="Where Label Studio reaches `outfox serve`, to hint at changes; empty leaves it out. Default: web_url.",
)
@json_option
@click.pass_obj
def connect(app: Application, task: str, ml_backend: str | None, auth_file: Path | None, web_url: str | None) -> None:
    """Make or update a task's two projects, with the ML backend and webhooks; safe to run again."""
    settings = app.settings
    from common.clock import SystemClock
    from plugin.labelstudio.connecting import Wishes
    from plugin.labelstudio.connecting import connect as connect_task
    from plugin.labelstudio.studio import BackendAuth
    from round_manager.database.store import open_store

    backend = settings.ml_backend_url if ml_backend is None else ml_backend
    auth = backend_auth(settings, auth_file)
    with open_store(settings.database) as store:
        pack = _pack(store, task)
        wishes = Wishes(
            settings.signing_secrets(),
            ml_backend=backend or None,
            auth=BackendAuth(*auth) if auth else None,
            web_url=(settings.web_url if web_url is None else web_url) or None,
        )
        made = connect_task(store, _studio(settings), pack, wishes, SystemClock())
    lines = [
        f"{kind}: {settings.label_studio_url.rstrip('/')}/projects/{number}" for kind, number in made.projects.items()
    ]
    changes = list(made.changes) or ["nothing had to be changed"]
    data = {"task": task, "projects": dict(made.projects), "changes": list(made.changes)}
    show(data, "\n".join([*changes, *lines, f"next: `outfox labelstudio push {task}`"]))


@labelstudio.command()
@click.argument("task")
@json_option
@click.pass_obj
def push(app: Application, task: str) -> None:
    """Send contexts to write for and examples to check; safe to run again, each is there once."""
    settings = app.settings
    from common.clock import SystemClock
    from plugin.labelstudio.pushing import push as push_task
    from round_manager.database.store import open_store

    with open_store(settings.database) as store, ProgressBar() as bar:
        pushed = push_task(store, _studio(settings), task, SystemClock(), _steps(bar, f"{task} goes to Label Studio"))
    text = f"{task}: {pushed.contexts} to write for and {pushed.validations} to check were sent"
    text += f"; {pushed.found} were found there" if pushed.found else ""
    show({"task": task, **vars(pushed)}, text + _cleared_text(pushed.cleared))


@labelstudio.command()
@click.argument("task", required=False)
@click.option("--all", "every", is_flag=True, help="Every task that is connected.")
@click.option("--from-start", is_flag=True, help="Look at everything again, not only at what changed; doubles nothing.")
@REGISTRY
@json_option
@click.pass_obj
def sync(app: Application, task: str | None, every: bool, from_start: bool, where: str | None) -> None:
    """Read what people did since the last time, examples and votes, and show there what the crowd did."""
    settings = app.settings
    from common.clock import SystemClock
    from plugin.labelstudio.crowd_work import show_crowd_work
    from plugin.labelstudio.syncing import sync_task
    from round_manager.database.store import open_store

    if (task is None) == (not every):
        raise click.UsageError("name a task, or give --all for every one")
    studio, judge = _studio(settings), _judge(settings, where)
    rows: list[dict[str, Any]] = []
    errors: list[PluginError | BackendError | RoundManagerError] = []
    with open_store(settings.database) as store:
        for name in [task] if task else _connected(store):
            try:
                synced = sync_task(store, studio, name, judge, SystemClock(), from_start=from_start)
                shown = show_crowd_work(store, studio, name, SystemClock(), until_done=True)
                rows.append({"task": name, **vars(synced), "crowd": vars(shown), "error": None})
            except (PluginError, BackendError, RoundManagerError) as error:
                if not every:
                    raise
                errors.append(error)
                rows.append({"task": name, "error": str(error)})
    nothing = "no task is connected; `outfox labelstudio connect TASK` connects one"
    show(rows[0] if task else rows, "\n".join(_told(row) for row in rows) or nothing)
    if errors:
        raise click.exceptions.Exit(AWAY if any(error.retry for error in errors) else WRONG)


@labelstudio.command()
@click.argument("task", required=False)
@json_option
@click.pass_obj
def status(app: Application, task: str | None) -> None:
    """Show whether Label Studio answers, and each project: backend, webhook, how far it was read, problems."""
    settings = app.settings
    from dataclasses import asdict

    from plugin.cli.labelstudio_status import status_text
    from plugin.labelstudio.status import find_status
    from round_manager.database.store import open_store

    with open_store(settings.database) as store:
        found = find_status(store, _studio(settings), task)
    show(asdict(found), status_text(found))
    if found.error:
        raise click.exceptions.Exit(AWAY if found.retry else WRONG)


@labelstudio.command()
@click.argument("task")
@click.option("--version", metavar="VERSION", help="A model version. Default: the newest in the models folder.")
@click.option(
    "--project",
    type=WHOLE_NUMBER,
    metavar="N",
    help="A project whose tasks have what the model reads. Default: the task's own, about what was submitted there.",
)
@REGISTRY
@json_option
@click.pass_obj
def predictions(app: Application, task: str, version: str | None, project: int | None, where: str | None) -> None:
    """Send what a model version says as predictions with scores; safe to run again, one for each task."""
    settings = app.settings
    from common.clock import SystemClock
    from ml_backend.registry.registry import open_registry
    from ml_backend.targets.loading import load_target
    from plugin.labelstudio.predicting import predict
    from round_manager.database.store import open_store

    registry = open_registry(where or settings.registry_location, settings.cache_path / "models")
    known = registry.versions(task)
    if not (version or known):
        raise PluginError(f"{task} has no model version; `outfox model train {task}` makes one")
    predictor = load_target(registry.fetch(task, version or known[0]))
    with open_store(settings.database) as store, ProgressBar() as bar:
        done = predict(
            store, _studio(settings), task, predictor, SystemClock(),
            project=project, progress=_steps(bar, f"{predictor.version} is asked"),
        )  # fmt: skip
    sent = count(done.sent, "prediction was sent", "predictions were sent")
    text = f"project {done.project}: {sent}, by {predictor.version}"
    lacking = count(done.lacking, "task lacks", "tasks lack")
    rest = f"{count(done.there, 'was', 'were')} there already, {lacking} what the model reads"
    show({"task": task, "version": predictor.version, **vars(done)}, f"{text}; {rest}")


def _studio(settings: Settings) -> "RemoteStudio":
    from plugin.labelstudio.remote import RemoteStudio

    return RemoteStudio(settings.label_studio_url, settings.label_studio_token)


def _judge(settings: Settings, where: str | None) -> "RegistryJudge":
    from ml_backend.judge import RegistryJudge
    from ml_backend.registry.registry import open_registry
    from ml_backend.targets.loading import load_target

    place, cache = where or settings.registry_location, settings.cache_path / "models"
    return RegistryJudge(lambda: open_registry(place, cache), load_target)


def _pack(store: "Store", task: str) -> "Pack":
    from round_manager.specs import spec_of
    from round_manager.tasks.tasks import find_task
    from templates import load_pack

    with store.read() as session:
        found = find_task(session, task)
        spec = spec_of(found)
    pack = load_pack(Path(found.folder))
    if pack.spec.model_dump(exclude=TERMS) != spec.model_dump(exclude=TERMS):
        raise PluginError(
            f"{found.folder} changed since the task was made; run `outfox task create {found.folder}` first"
        )
    return replace(pack, spec=spec)


def _connected(store: "Store") -> list[str]:
    from round_manager.labelstudio.mirror import find_link
    from round_manager.models import ProjectKind
    from round_manager.tasks.tasks import list_tasks

    with store.read() as session:
        return [one.name for one in list_tasks(session) if find_link(session, one.id, ProjectKind.CREATE)]


def _steps(bar: ProgressBar, what: str) -> Callable[[int, int], None]:
    """Shows how many of how many are done."""
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


def _told(row: dict[str, Any]) -> str:
    if row["error"]:
        return f"{row['task']}: {row['error']}"
    made = f"{count(row['examples'], 'example')} and {count(row['votes'], 'vote')}"
    text = f"{row['task']}: {made} from {count(row['read'], 'new annotation')}"
    if row["problems"]:
        text += f"; {row['problems']} became nothing, see `outfox labelstudio status {row['task']}`"
    crowd = row["crowd"]
    if any(crowd.values()):
        more = count(crowd["sent"] + crowd["found"], "piece")
        text += f"; {more} more of the crowd's work shown there"
    if crowd["refused"]:
        text += f", {count(crowd['refused'], 'was', 'were')} refused, see `outfox labelstudio status {row['task']}`"
    if row["left"]:
        text += f"; {row['left']} wait until a round is open: `outfox round open {row['task']}`"
    return text + _cleared_text(row["cleared"])


def _cleared_text(number: int) -> str:
    return f"; {count(number, 'check')} that can take no vote any more taken down" if number else ""
