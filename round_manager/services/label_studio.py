"""Use cases of Label Studio: connect a task, fill its projects, read them, and keep them pointed at the live round."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from common.errors import Hint
from ml_backend.judge import Judge
from ml_backend.targets.target import Target
from round_manager.audit import note
from round_manager.errors import TaskError
from round_manager.labelstudio import connection, projects
from round_manager.labelstudio.crowd_upload import CrowdUpload, upload_crowd_work
from round_manager.labelstudio.outcomes import write_outcomes
from round_manager.labelstudio.port import LabelStudio
from round_manager.labelstudio.predictions import PredictionResult, predict_tasks
from round_manager.labelstudio.push import Progress, PushResult, fill_projects
from round_manager.labelstudio.status import LabelStudioStatus, find_status
from round_manager.labelstudio.sync import SyncResult, read_projects
from round_manager.models import spec_of
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.tasks import find_task
from templates import Pack, load_pack

# No project shows these, and the demo has its own terms.
IGNORED_TERMS: dict[str, bool | set[str]] = {
    "author": True,
    "licence": True,
    "data_licence": True,
    "rounds": True,
    "validation": {"sample_non_fooling"},
    "work": {"create_minutes", "label_studio_minutes", "quiz_minutes", "validate_minutes"},
}


def _no_progress(_done: int, _total: int) -> None:
    """Report nothing."""


class PackChanged(TaskError):
    """The task's pack changed since the task was created or updated."""


@dataclass(frozen=True)
class TaskSync:
    """What was read from a task's projects, what crowd work was uploaded, and how many outcomes were written back."""

    read: SyncResult
    crowd: CrowdUpload
    outcomes: int = 0


def connect_task(
    context: ServiceContext, actor: Actor, label_studio: LabelStudio, task: str, options: connection.ConnectionOptions
) -> connection.ConnectedProjects:
    """Create or update a task's two projects, with webhooks and the ML backend; change nothing if nothing differs."""
    pack = _current_pack(context, task)
    connected = connection.connect_projects(context.store, label_studio, pack, options, context.clock)
    if connected.changes:
        with context.store.write() as session:
            row = find_task(session, task)
            note(
                session,
                "connected",
                row,
                actor=actor.name,
                reason="; ".join(connected.changes),
                now=context.now(),
                of=row,
                after={"label_studio": label_studio.url, "projects": dict(connected.projects)},
            )
    return connected


def push_task(
    context: ServiceContext, actor: Actor, label_studio: LabelStudio, task: str, *, progress: Progress = _no_progress
) -> PushResult:
    """Send contexts to write for and examples to check; each becomes one task in Label Studio.

    Authors skip the checks of their own examples at once.
    """
    sent = fill_projects(context.store, label_studio, task, context.clock, progress)
    write_outcomes(context.store, label_studio, task, context.clock)
    return sent


def sync_task(
    context: ServiceContext,
    actor: Actor,
    label_studio: LabelStudio,
    judge: Judge,
    task: str,
    *,
    from_start: bool = False,
    until_done: bool = False,
) -> TaskSync:
    """Read new annotations as examples and votes, write outcomes back, and upload crowd work.

    `until_done` writes all outcomes and uploads the whole queue.
    """
    store, clock = context.store, context.clock
    try:
        read = read_projects(store, label_studio, task, judge, clock, from_start=from_start)
        outcomes = written = write_outcomes(store, label_studio, task, clock)
        while until_done and written:
            written = write_outcomes(store, label_studio, task, clock)
            outcomes += written
    finally:
        # Even if a model cannot be loaded, crowd work is shown.
        crowd = upload_crowd_work(store, label_studio, task, clock, until_done=until_done)
    return TaskSync(read, crowd, outcomes)


def send_predictions(
    context: ServiceContext,
    actor: Actor,
    label_studio: LabelStudio,
    target: Target,
    task: str,
    *,
    project: int | None = None,
    progress: Progress = _no_progress,
) -> PredictionResult:
    """Store a model version's answers as predictions, one for each task."""
    return predict_tasks(context.store, label_studio, task, target, context.clock, project=project, progress=progress)


def label_studio_status(context: ServiceContext, label_studio: LabelStudio, task: str | None) -> LabelStudioStatus:
    """Return whether Label Studio responds, and the status of one task's projects, or of all."""
    return find_status(context.store, label_studio, task)


def connected_tasks(context: ServiceContext, label_studio: LabelStudio | None = None) -> list[str]:
    """Return the names of the tasks that are connected, to any Label Studio or to this one."""
    return projects.connected_tasks(context.store, label_studio.url if label_studio else None)


class ConnectedLabelStudio:
    """One Label Studio and the tasks that are connected to it, as the web app and the manager keep them in step.

    `context` is called when it is needed, because the web app opens its database late.
    """

    def __init__(
        self, context: Callable[[], ServiceContext], actor: Actor, label_studio: LabelStudio, judge: Judge
    ) -> None:
        self._context = context
        self._actor = actor
        self._label_studio = label_studio
        self._judge = judge
        # Label Studio is contacted once per round; what an owner enters after that stays.
        self._routes: dict[str, connection.BackendRoute] = {}

    def tasks(self) -> list[str]:
        """Return the names of the connected tasks."""
        return connected_tasks(self._context(), self._label_studio)

    def read(self, task: str) -> TaskSync:
        """Read new annotations, and upload crowd work."""
        return sync_task(self._context(), self._actor, self._label_studio, self._judge, task)

    def push(self, task: str) -> PushResult:
        """Send contexts to write for and examples to check."""
        return push_task(self._context(), self._actor, self._label_studio, task)

    def follow(self, task: str) -> str | None:
        """Point the ML backend connection at the live round; return its new address, or None if nothing changed."""
        context = self._context()
        route = connection.find_route(context.store, task)
        if route is None or route == self._routes.get(task):
            return None
        url = connection.move_backend(context.store, self._label_studio, task, route, context.clock)
        self._routes[task] = route
        return url


def _current_pack(context: ServiceContext, task: str) -> Pack:
    with context.store.read() as session:
        found = find_task(session, task)
        spec = spec_of(found)
    pack = load_pack(Path(found.folder))
    if pack.spec.model_dump(exclude=IGNORED_TERMS) != spec.model_dump(exclude=IGNORED_TERMS):
        hint = Hint("update_task", folder=found.folder)
        raise PackChanged(f"{found.folder} changed since the task was created or updated", hint=hint)
    return replace(pack, spec=spec)
