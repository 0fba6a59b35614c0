"""An in-memory Label Studio that behaves like the real one, and that a test can break at any call."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from round_manager.labelstudio.port import (
    TASK_KEY,
    WORKER_FIELD,
    BackendAuth,
    BackendConnection,
    Json,
    LabelStudioError,
    LabelStudioRefused,
    Project,
    ProjectNotFound,
    ProjectTask,
    ProjectWebhook,
    TaskPage,
    Webhook,
)
from tests.fakes.clock import NOON

URL = "http://studio.test"
SECOND = timedelta(seconds=1)


class Killed(BaseException):
    """Raised by a test in place of a killed process."""


class FakeLabelStudio:
    """Projects, tasks, annotations, backends and webhooks in dictionaries; lists every call that changes something."""

    url = URL

    def __init__(self) -> None:
        self.now = NOON
        self.calls: list[str] = []
        self.changes: list[str] = []
        self.down: LabelStudioError | None = None
        # Errors to raise by the name of the call, before or after it takes effect.
        self.before: dict[str, BaseException] = {}
        self.after: dict[str, BaseException] = {}
        self.backend_answers = True
        self.refuses: Callable[[Json], bool] = lambda _task: False
        self.projects: dict[int, dict[str, Any]] = {}
        self.tasks: dict[int, ProjectTask] = {}
        self.homes: dict[int, int] = {}
        self.backend_of: dict[int, list[BackendConnection]] = {}
        self.webhook_of: dict[int, list[ProjectWebhook]] = {}
        self.passwords: dict[int, str] = {}
        self.predictions: list[Json] = []
        self.last: Counter[str] = Counter()

    def whoami(self) -> str:
        self._call("whoami")
        return "owner@example.com"

    def project(self, project_id: int) -> Project | None:
        self._call("project")
        found = self.projects.get(project_id)
        return None if found is None else Project(project_id, found["title"], found["label_config"], dict(found))

    def find_projects(self, title: str) -> list[Project]:
        self._call("find_projects")
        found = [self.project(number) for number in sorted(self.projects)]
        return [one for one in found if one is not None and one.title == title]

    def create_project(self, settings: Mapping[str, Any]) -> Project:
        self._call("create_project", changes=True)
        number = self._next("project")
        # The real one strips texts too.
        self.projects[number] = {**settings, "label_config": settings["label_config"].strip()}
        self._done("create_project")
        found = self.project(number)
        assert found is not None
        return found

    def update_project(self, project_id: int, settings: Mapping[str, Any]) -> None:
        self._call("update_project", changes=True)
        self.projects[project_id] |= settings

    def backends(self, project_id: int) -> list[BackendConnection]:
        self._call("backends")
        return list(self.backend_of.get(project_id, []))

    def add_backend(self, project_id: int, url: str, auth: BackendAuth | None) -> BackendConnection:
        self._call("add_backend", changes=True)
        self._try_backend()
        made = BackendConnection(self._next("backend"), url, "Connected", True, auth.user if auth else "", None)
        self.backend_of.setdefault(project_id, []).append(made)
        self.passwords[made.id] = auth.password if auth else ""
        self._done("add_backend")
        return made

    def update_backend(
        self, project_id: int, known: BackendConnection, url: str, auth: BackendAuth | None, *, interactive: bool = True
    ) -> None:
        self._call("update_backend", changes=True)
        self._try_backend()
        user = auth.user if auth else known.user
        changed = replace(known, url=url, interactive=interactive, state="Connected", user=user)
        if auth:
            self.passwords[known.id] = auth.password
        self.backend_of[project_id] = [changed if one.id == known.id else one for one in self.backend_of[project_id]]
        self._done("update_backend")

    def webhooks(self, project_id: int) -> list[ProjectWebhook]:
        self._call("webhooks")
        return list(self.webhook_of.get(project_id, []))

    def add_webhook(self, project_id: int, webhook: Webhook) -> ProjectWebhook:
        self._call("add_webhook", changes=True)
        made = ProjectWebhook(self._next("webhook"), webhook)
        self.webhook_of.setdefault(project_id, []).append(made)
        self._done("add_webhook")
        return made

    def update_webhook(self, webhook_id: int, webhook: Webhook) -> None:
        self._call("update_webhook", changes=True)
        for project, webhooks in self.webhook_of.items():
            self.webhook_of[project] = [
                ProjectWebhook(webhook_id, webhook) if one.id == webhook_id else one for one in webhooks
            ]

    def changed_tasks(self, project_id: int, since: datetime | None, *, size: int = 100) -> TaskPage:
        self._call("changed_tasks")
        found = [task for task in self._worked_on(project_id) if since is None or task.changed_at >= since]
        found.sort(key=lambda task: task.changed_at)
        return TaskPage(tuple(found[:size]), len(found))

    def tasks_changed_at(self, project_id: int, moment: datetime, *, after: int = 0, size: int = 100) -> TaskPage:
        self._call("tasks_changed_at")
        found = [task for task in self._worked_on(project_id) if task.changed_at == moment and task.id > after]
        return TaskPage(tuple(found[:size]), len(found))

    def tasks_after(self, project_id: int, *, after: int = 0, size: int = 100) -> TaskPage:
        self._call("tasks_after")
        found = [task for task in self._of(project_id) if task.id > after]
        return TaskPage(tuple(found[:size]), len(found))

    def add_tasks(self, project_id: int, tasks: Sequence[Json]) -> list[int]:
        self._call("add_tasks", changes=True)
        if project_id not in self.projects:
            raise ProjectNotFound("answers 404", status=404)
        if any(self.refuses(task) for task in tasks):
            # The real one stores none of the others.
            raise LabelStudioRefused("refuses what was sent with status 400", status=400)
        made = []
        for task in tasks:
            number = self._next("task")
            self.homes[number] = project_id
            self.tasks[number] = ProjectTask(number, task.get("meta", {}).get(TASK_KEY), self.tick(), task["data"], ())
            for one in task.get("annotations", []):
                self.annotate(number, one["result"], user=1, ground_truth=one["ground_truth"])
            made.append(number)
        self._done("add_tasks")
        return made

    def set_values(self, project_id: int, task_id: int, values: Mapping[str, str]) -> bool:
        self._call("set_values", changes=True)
        task = next((one for one in self._of(project_id) if one.id == task_id), None)
        if task is not None:
            self.tasks[task_id] = replace(task, data={**task.data, **values}, changed_at=self.tick())
        self._done("set_values")
        return task is not None

    def skip_for(self, project_id: int, task_id: int, user_id: int) -> bool:
        self._call("skip_for", changes=True)
        task = next((one for one in self._of(project_id) if one.id == task_id), None)
        if task is not None and all(one["completed_by"] != user_id for one in task.annotations):
            self.annotate(task_id, [], user=user_id, was_cancelled=True)
        self._done("skip_for")
        return task is not None

    def delete_unannotated(self, project_id: int, numbers: Sequence[int]) -> set[int]:
        self._call("delete_unannotated", changes=True)
        there = {task.id for task in self._of(project_id) if task.id in numbers}
        stay = {number for number in there if _is_annotated(self.tasks[number])}
        for number in there - stay:
            del self.tasks[number]
        self._done("delete_unannotated")
        return stay

    def add_predictions(self, project_id: int, predictions: Sequence[Json]) -> None:
        self._call("add_predictions", changes=True)
        for one in predictions:
            task = self.tasks[one["task"]]
            self.tasks[task.id] = replace(task, model_versions=task.model_versions | {one["model_version"]})
            self.predictions.append(one)
        self._done("add_predictions")

    def annotate(
        self, task_id: int, result: list[Json], *, user: int = 7, at: datetime | None = None, **more: Any
    ) -> int:
        """Submit an annotation."""
        number = self._next("annotation")
        made = {"id": number, "result": result, "completed_by": user, "was_cancelled": False, "lead_time": 12.5, **more}
        self._put(task_id, {**made, "created_at": self.now.isoformat()}, at)
        return number

    def edit(self, task_id: int, annotation: int, result: list[Json]) -> None:
        """Change an annotation."""
        (old,) = [one for one in self.tasks[task_id].annotations if one["id"] == annotation]
        self._put(task_id, {**old, "result": result}, None)

    def tick(self) -> datetime:
        """Advance the clock by a second."""
        self.now += SECOND
        return self.now

    def numbers(self, project_id: int) -> list[int]:
        """Return the ids of a project's tasks."""
        return [task.id for task in self._of(project_id)]

    def _put(self, task_id: int, annotation: Json, at: datetime | None) -> None:
        when = at or self.tick()
        task = self.tasks[task_id]
        others = tuple(one for one in task.annotations if one["id"] != annotation["id"])
        mine = {**annotation, "updated_at": when.isoformat()}
        self.tasks[task_id] = replace(task, annotations=(*others, mine), changed_at=when)

    def _of(self, project_id: int) -> list[ProjectTask]:
        if project_id not in self.projects:
            raise ProjectNotFound("answers 404", status=404)
        return [task for number, task in sorted(self.tasks.items()) if self.homes[number] == project_id]

    def _worked_on(self, project_id: int) -> list[ProjectTask]:
        for_people = [task for task in self._of(project_id) if not task.data.get(WORKER_FIELD)]
        return [task for task in for_people if _is_annotated(task)]

    def _next(self, kind: str) -> int:
        """Return the next id; like the real one, each kind is numbered from one."""
        self.last[kind] += 1
        return self.last[kind]

    def _try_backend(self) -> None:
        if not self.backend_answers:
            raise LabelStudioRefused("refuses the request: Can't connect to ML backend", status=400)

    def _call(self, name: str, *, changes: bool = False) -> None:
        self.calls.append(name)
        if self.down is not None:
            raise self.down
        if name in self.before:
            raise self.before.pop(name)
        if changes:
            self.changes.append(name)

    def _done(self, name: str) -> None:
        if name in self.after:
            raise self.after.pop(name)


def _is_annotated(task: ProjectTask) -> bool:
    """Whether an annotation was submitted, not skipped."""
    return any(not one["was_cancelled"] for one in task.annotations)
