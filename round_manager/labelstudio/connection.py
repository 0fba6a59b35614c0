"""A task's connection to Label Studio: two projects, their webhooks, and the ML backend of the live round.

While no round is live, the connection points at the task's own address: the model there is most likely the one of the
next round, and no attempt is counted for a round that is over.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.clock import Clock
from common.errors import Hint
from ml_backend.hashing import json_sha256
from round_manager.database.store import Store
from round_manager.labelstudio import projects
from round_manager.labelstudio.port import (
    BackendAuth,
    BackendConnection,
    LabelStudio,
    LabelStudioRefused,
    MlBackendUnreachable,
    Project,
)
from round_manager.labelstudio.tasks import newest_sent
from round_manager.models import LabelStudioLink, ProjectKind, Task
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task
from templates import Pack
from templates.payloads import Template

CONNECTED = "Connected"
# These settings are always restored: without them nothing works, or people see what they must not.
ESSENTIAL = ("label_config", "show_collab_predictions", "maximum_annotations")
_TEMPLATE: dict[ProjectKind, Template] = {ProjectKind.CREATE: "create", ProjectKind.VALIDATE: "validate"}


@dataclass(frozen=True)
class ConnectionOptions:
    """The addresses of the ML backend and of our web app; None leaves the setting in Label Studio as it is."""

    secrets: Sequence[str] = field(repr=False)
    ml_backend: str | None = None
    auth: BackendAuth | None = None
    web_url: str | None = None


@dataclass(frozen=True)
class ConnectedProjects:
    """The ids of the task's projects by their kind, and a sentence for each change that was made."""

    projects: Mapping[str, int]
    changes: tuple[str, ...]


@dataclass(frozen=True)
class BackendRoute:
    """Which backend connection has to serve which round; None for the task itself."""

    project: int
    backend: int
    round: int | None


def connect_projects(
    store: Store, label_studio: LabelStudio, pack: Pack, options: ConnectionOptions, clock: Clock
) -> ConnectedProjects:
    """Create or update the projects of a task; change nothing if nothing differs."""
    with store.read() as session:
        connection = _Connection(store, label_studio, pack, options, clock, find_task(session, pack.spec.name))
    projects = {kind.value: connection.project(kind) for kind in ProjectKind}
    connection.backend()
    return ConnectedProjects(projects, tuple(connection.changes))


def find_route(store: Store, task_name: str) -> BackendRoute | None:
    """Return where the task's backend connection should point, by the database alone; None if it has none."""
    with store.read() as session:
        task = find_task(session, task_name)
        link = projects.find_link(session, task.id, ProjectKind.CREATE)
        live = live_round(session, task.id)
    if link is None or link.ml_backend is None:
        return None
    return BackendRoute(link.project, link.ml_backend, live.number if live else None)


def move_backend(
    store: Store, label_studio: LabelStudio, task_name: str, route: BackendRoute, clock: Clock
) -> str | None:
    """Point the connection at the route's round; return the new address, or None if nothing had to change.

    Only the address of the connection that `connect_projects` made is changed. A connection that its owner edited or
    removed is left alone. The call can be repeated, also by two processes at once.
    """
    _, links = projects.linked_projects(store, label_studio.url, task_name)
    with projects.recording_errors(store, links[ProjectKind.CREATE], task_name, clock):
        mine = next((one for one in label_studio.backends(route.project) if one.id == route.backend), None)
        base = _routed_base(mine.url, task_name) if mine else None
        if mine is None or base is None:
            return None
        url = backend_address(base, task_name, route.round)
        if mine.url.rstrip("/") == url:
            return None
        try:
            label_studio.update_backend(route.project, mine, url, None, interactive=mine.interactive)
        except LabelStudioRefused as error:
            text = f"Label Studio cannot use the ML backend at {url} and still uses {mine.url}; is the backend running?"
            raise _unreachable(f"{text} {error}", task_name) from error
        return url


def backend_address(base: str, task_name: str, number: int | None) -> str:
    """Return a backend's address for a round, or for the task itself."""
    address = f"{base.rstrip('/')}/tasks/{task_name}"
    return address if number is None else f"{address}/rounds/{number}"


@dataclass(frozen=True)
class _Connection:
    store: Store
    label_studio: LabelStudio
    pack: Pack
    options: ConnectionOptions
    clock: Clock
    task: Task
    changes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.task.name

    def project(self, kind: ProjectKind) -> int:
        """Create or update the project of this kind, its settings and its webhook; return its id."""
        wanted = projects.project_settings(self.pack, _TEMPLATE[kind])
        link = self._link(kind)
        project = self._known(link) if link else None
        if link is None or project is None:
            if link is not None:
                self.changes.append(
                    f"project {link.project} was deleted from {link.url}; what was read from it is kept"
                )
            project = self._adopted(wanted) or self._created(wanted)
            with self.store.write() as session:
                link = projects.save_link(session, self.task.id, kind, self.label_studio.url, project.id)
        with projects.recording_errors(self.store, link, self.name, self.clock):
            self._apply_settings(link, project, wanted)
            self._apply_webhook(link)
        return project.id

    def backend(self) -> None:
        """Connect the creation project to the ML backend, at the address of the live round."""
        link = self._link(ProjectKind.CREATE)
        if link is None or (self.options.ml_backend is None and link.ml_backend is None):
            return
        with projects.recording_errors(self.store, link, self.name, self.clock):
            self._apply_backend(link)

    def _link(self, kind: ProjectKind) -> LabelStudioLink | None:
        with self.store.read() as session:
            return projects.find_link(session, self.task.id, kind)

    def _known(self, link: LabelStudioLink) -> Project | None:
        """Return the linked project, if it exists and is still the one that we filled."""
        project = self.label_studio.project(link.project) if link.project > 0 else None
        if project is None or not self._is_ours(link, project):
            return None
        if link.url != self.label_studio.url:
            with self.store.write() as session:
                projects.lock_link(session, link).url = self.label_studio.url
            self.changes.append(f"the address of Label Studio is {self.label_studio.url} now, no longer {link.url}")
        return project

    def _is_ours(self, link: LabelStudioLink, project: Project) -> bool:
        """Whether we filled this project: a Label Studio that was set up anew reuses the ids."""
        with self.store.read() as session:
            newest = newest_sent(session, link)
        if newest is None or newest.external_id is None:
            wanted = projects.project_settings(self.pack, _TEMPLATE[link.kind])
            return project.title == wanted["title"] or _same(project.label_config, wanted["label_config"])
        found = self.label_studio.tasks_after(project.id, after=newest.external_id - 1, size=1).tasks
        keys = [task.key for task in found if task.id == newest.external_id]
        # The owner may have deleted the task; at another address it must be there.
        return keys == [newest.key] if keys or link.url != self.label_studio.url else True

    def _adopted(self, wanted: Mapping[str, Any]) -> Project | None:
        """Return a project that an interrupted call created and did not record."""
        for project in self.label_studio.find_projects(wanted["title"]):
            with self.store.read() as session:
                taken = projects.is_linked(session, self.label_studio.url, project.id)
            if not taken and project.label_config.strip() == wanted["label_config"].strip():
                self.changes.append(f"the existing project {project.id}, `{project.title}`, is used")
                return project
        return None

    def _created(self, wanted: Mapping[str, Any]) -> Project:
        project = self.label_studio.create_project(wanted)
        self.changes.append(f"project {project.id}, `{project.title}`, was created")
        return project

    def _apply_settings(self, link: LabelStudioLink, project: Project, wanted: Mapping[str, Any]) -> None:
        # Once the project exists, its title belongs to the owner.
        settings = {name: value for name, value in wanted.items() if name != "title"}
        sha256 = json_sha256(settings)
        names = ESSENTIAL if link.settings_sha256 == sha256 else tuple(settings)
        differing = {name: settings[name] for name in names if not _same(project.settings.get(name), settings[name])}
        if differing:
            self.label_studio.update_project(project.id, differing)
            self.changes.append(f"project {project.id}: updated {', '.join(differing)}")
        if link.settings_sha256 != sha256:
            with self.store.write() as session:
                projects.lock_link(session, link).settings_sha256 = sha256

    def _apply_webhook(self, link: LabelStudioLink) -> None:
        if self.options.web_url is None:
            return
        wanted = projects.webhook_for(self.options.web_url, self.name, self.options.secrets)
        found = self.label_studio.webhooks(link.project)
        mine = next((one for one in found if one.id == link.webhook), None)
        mine = mine or next((one for one in found if one.webhook.url == wanted.url), None)
        if mine is None:
            mine = self.label_studio.add_webhook(link.project, wanted)
            self.changes.append(f"project {link.project}: created a webhook to {wanted.url}")
        elif mine.webhook != wanted:
            self.label_studio.update_webhook(mine.id, wanted)
            self.changes.append(f"project {link.project}: the webhook is sent to {wanted.url} now")
        if link.webhook != mine.id:
            with self.store.write() as session:
                projects.lock_link(session, link).webhook = mine.id

    def _apply_backend(self, link: LabelStudioLink) -> None:
        found = self.label_studio.backends(link.project)
        known = next((one for one in found if one.id == link.ml_backend), None)
        base = self.options.ml_backend or (_base(known.url) if known else None)
        if base is None:
            return  # The owner removed it.
        with self.store.read() as session:
            # Read last: the manager may have opened a round since we began, and moved the connection already.
            live = live_round(session, self.task.id)
        url = backend_address(base, self.name, live.number if live else None)
        mine = known or next((one for one in found if _base(one.url) == base.rstrip("/")), None)
        try:
            self._save_backend(link, mine, url)
        except LabelStudioRefused as error:
            text = f"Label Studio cannot use the ML backend at {url}; check that it is running and serves {self.name},"
            raise _unreachable(f"{text} and that its address and password are right. {error}", self.name) from error

    def _save_backend(self, link: LabelStudioLink, mine: BackendConnection | None, url: str) -> None:
        auth = self.options.auth
        if mine is None:
            mine = self.label_studio.add_backend(link.project, url, auth)
            self.changes.append(f"project {link.project}: connected the ML backend at {url}")
        elif mine.url != url or not mine.interactive or _needs_password(mine, auth):
            self.label_studio.update_backend(link.project, mine, url, auth)
            self.changes.append(f"project {link.project}: the address of the ML backend is {url} now")
        if link.ml_backend != mine.id:
            with self.store.write() as session:
                projects.lock_link(session, link).ml_backend = mine.id


def _unreachable(text: str, task_name: str) -> MlBackendUnreachable:
    return MlBackendUnreachable(text, status=400, hint=Hint("connect_label_studio", task=task_name))


def _needs_password(mine: BackendConnection, auth: BackendAuth | None) -> bool:
    """Whether to send the password: Label Studio does not return the stored one, but it has just tried it."""
    return auth is not None and (mine.user != auth.user or mine.state != CONNECTED)


def _base(url: str) -> str:
    return url.partition("/tasks/")[0].rstrip("/")


def _routed_base(url: str, task_name: str) -> str | None:
    """Return the base of an address that `backend_address` made for the task; None for any other address."""
    found = re.fullmatch(rf"(.+)/tasks/{re.escape(task_name)}(?:/rounds/\d+)?/?", url)
    return found[1] if found else None


def _same(stored: Any, wanted: Any) -> bool:
    # Label Studio strips texts.
    if isinstance(stored, str) and isinstance(wanted, str):
        return stored.strip() == wanted.strip()
    return bool(stored == wanted)
