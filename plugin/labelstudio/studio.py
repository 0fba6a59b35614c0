"""Label Studio in our words: what we ask of it, and what it shows us."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

Json = dict[str, Any]

# Where our tasks carry the key by which they are found again.
KEY = "outfox"
# Where a task that only shows crowd work says who did it; no pack has a field of this name, for theirs have no hyphen.
WORKER = "crowd-worker"


@dataclass(frozen=True)
class ProjectSeen:
    """A project as it stands in Label Studio."""

    id: int
    title: str
    label_config: str = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class BackendAuth:
    """The user and password that an ML backend asks for."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class BackendSeen:
    """An ML backend's connection as it stands in Label Studio; the password is not shown."""

    id: int
    url: str
    state: str
    interactive: bool
    user: str
    error: str | None


@dataclass(frozen=True)
class Hook:
    """What a webhook is: where it goes, what it carries and which changes it tells."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    actions: frozenset[str]
    active: bool = True
    payload: bool = False


@dataclass(frozen=True)
class HookSeen:
    """A webhook as it stands in Label Studio."""

    id: int
    hook: Hook


@dataclass(frozen=True)
class TaskSeen:
    """A task as it stands in Label Studio, with what people and models said to it."""

    id: int
    key: str | None
    changed_at: datetime
    data: Mapping[str, Any] = field(repr=False)
    annotations: tuple[Json, ...] = field(repr=False)
    model_versions: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Page:
    """Some tasks, and how many there are in all."""

    tasks: tuple[TaskSeen, ...]
    total: int


class Studio(Protocol):
    """One Label Studio and the user whose token is used; every failure is a LabelStudioError."""

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        ...

    def whoami(self) -> str:
        """Whose token is used; the cheapest way to find out whether it is good."""
        ...

    def project(self, project_id: int) -> ProjectSeen | None:
        """The project, or None where it is gone."""
        ...

    def projects_called(self, title: str) -> list[ProjectSeen]:
        """The projects with exactly this title, the oldest first."""
        ...

    def make_project(self, settings: Mapping[str, Any]) -> ProjectSeen:
        """A new project."""
        ...

    def change_project(self, project_id: int, settings: Mapping[str, Any]) -> None:
        """Changes these settings and no others."""
        ...

    def backends(self, project_id: int) -> list[BackendSeen]:
        """The project's ML backends; Label Studio asks each of them how it is, and that can take a while."""
        ...

    def add_backend(self, project_id: int, url: str, auth: BackendAuth | None) -> BackendSeen:
        """Connects an ML backend with interactive preannotations; refused where the backend does not answer."""
        ...

    def change_backend(
        self, project_id: int, known: BackendSeen, url: str, auth: BackendAuth | None, *, interactive: bool = True
    ) -> None:
        """Moves a connection; without `auth` it keeps the user and password that it has."""
        ...

    def hooks(self, project_id: int) -> list[HookSeen]:
        """The project's webhooks."""
        ...

    def add_hook(self, project_id: int, hook: Hook) -> HookSeen:
        """A new webhook."""
        ...

    def change_hook(self, hook_id: int, hook: Hook) -> None:
        """Makes an existing webhook this one."""
        ...

    def changed_tasks(self, project_id: int, since: datetime | None, *, size: int = 100) -> Page:
        """Tasks for people with annotations that changed at this time or later, the longest unchanged first."""
        ...

    def tasks_changed_at(self, project_id: int, moment: datetime, *, after: int = 0, size: int = 100) -> Page:
        """Tasks for people with annotations that changed at just this time, with greater ids than `after`, by id."""
        ...

    def all_tasks(self, project_id: int, *, after: int = 0, size: int = 100) -> Page:
        """Tasks of the project with a greater id than `after`, by id."""
        ...

    def add_tasks(self, project_id: int, tasks: Sequence[Json]) -> list[int]:
        """Makes tasks, with their annotations where they have some: all or none; their ids, in the same order."""
        ...

    def remove_untouched(self, project_id: int, numbers: Sequence[int]) -> set[int]:
        """Removes those of the project's tasks that nobody has annotated, skipped ones too; those that stay."""
        ...

    def add_predictions(self, project_id: int, predictions: Sequence[Json]) -> None:
        """Stores what a model said, one prediction for each task that is named."""
        ...
