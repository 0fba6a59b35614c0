"""The port to Label Studio: what we ask of it, the records it returns, and its errors.

`plugin.labelstudio.adapter` implements it with Label Studio's SDK, `tests.fakes.label_studio` in memory.

RoundManagerError
├── LabelStudioError              Label Studio cannot do what was asked
│   ├── LabelStudioUnavailable    it does not respond, or fails; retrying can help
│   ├── TokenRejected             the token is missing or not accepted
│   ├── ProjectNotFound           the project was deleted
│   ├── LabelStudioRefused        Label Studio refuses the content of a request
│   ├── NotConnected              the task has no projects in this Label Studio
│   └── MlBackendUnreachable      Label Studio cannot use the ML backend at this address
├── UnreadableAnnotation          an annotation contains nothing that can be stored
└── WaitingForRound               submissions wait until a round of the task is open
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from common.errors import Hint
from round_manager.errors import RoundManagerError

Json = dict[str, Any]

# The key in a task's `meta` that holds our own key for it.
TASK_KEY = "outfox"
# The field in the data of an uploaded crowd submission that names the worker. Field names of packs have no hyphen.
WORKER_FIELD = "crowd-worker"


class LabelStudioError(RoundManagerError):
    """Label Studio cannot do what was asked; `status` is the HTTP status of its answer, if there was one."""

    def __init__(self, message: str, *, status: int | None = None, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class LabelStudioUnavailable(LabelStudioError):
    """Label Studio does not respond, or fails; retrying can help."""

    retry = True


class TokenRejected(LabelStudioError):
    """The token is missing, or Label Studio does not accept it."""

    code = "label_studio_token_rejected"


class ProjectNotFound(LabelStudioError):
    """The project was deleted from Label Studio."""

    code = "label_studio_project_not_found"


class LabelStudioRefused(LabelStudioError):
    """Label Studio refuses the content of a request."""

    code = "label_studio_request_refused"


class NotConnected(LabelStudioError):
    """The task has no projects in this Label Studio."""

    code = "label_studio_not_connected"


class MlBackendUnreachable(LabelStudioError):
    """Label Studio cannot use the ML backend at this address."""

    code = "label_studio_ml_backend_unreachable"
    retry = True


class UnreadableAnnotation(RoundManagerError):
    """An annotation contains nothing that can be stored; the message is for the owner, or for the worker."""


class WaitingForRound(RoundManagerError):
    """The task has no open round, or its round has just changed; submissions are read later."""

    retry = True


@dataclass(frozen=True)
class Project:
    """A project in Label Studio."""

    id: int
    title: str
    label_config: str = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class BackendAuth:
    """The user and password of an ML backend."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class BackendConnection:
    """A project's connection to an ML backend; Label Studio does not return the password."""

    id: int
    url: str
    state: str
    interactive: bool
    user: str
    error: str | None


@dataclass(frozen=True)
class Webhook:
    """Where a webhook is sent, for which actions, and whether the event itself is included."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    actions: frozenset[str]
    active: bool = True
    payload: bool = False


@dataclass(frozen=True)
class ProjectWebhook:
    """A webhook that is stored in Label Studio."""

    id: int
    webhook: Webhook


@dataclass(frozen=True)
class ProjectTask:
    """A task in Label Studio with its annotations, and the model versions that have predictions for it."""

    id: int
    key: str | None
    changed_at: datetime
    data: Mapping[str, Any] = field(repr=False)
    annotations: tuple[Json, ...] = field(repr=False)
    model_versions: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TaskPage:
    """Some tasks, and the number of all that match."""

    tasks: tuple[ProjectTask, ...]
    total: int


class LabelStudio(Protocol):
    """One Label Studio, used with one user's token. Every failure is a LabelStudioError."""

    @property
    def url(self) -> str:
        """The address, without a trailing slash."""

    def whoami(self) -> str:
        """Return the e-mail address of the token's user: the cheapest way to check the token."""

    def project(self, project_id: int) -> Project | None:
        """Return the project; None if it does not exist."""

    def find_projects(self, title: str) -> list[Project]:
        """Return the projects with exactly this title, oldest first."""

    def create_project(self, settings: Mapping[str, Any]) -> Project:
        """Create a project."""

    def update_project(self, project_id: int, settings: Mapping[str, Any]) -> None:
        """Change these settings and no others."""

    def backends(self, project_id: int) -> list[BackendConnection]:
        """Return the project's ML backends. Label Studio checks each of them, which can take a while."""

    def add_backend(self, project_id: int, url: str, auth: BackendAuth | None) -> BackendConnection:
        """Connect an ML backend with interactive preannotations; LabelStudioRefused if the backend does not respond."""

    def update_backend(
        self, project_id: int, known: BackendConnection, url: str, auth: BackendAuth | None, *, interactive: bool = True
    ) -> None:
        """Change a connection's address; without `auth` it keeps its user and password."""

    def webhooks(self, project_id: int) -> list[ProjectWebhook]:
        """Return the project's webhooks."""

    def add_webhook(self, project_id: int, webhook: Webhook) -> ProjectWebhook:
        """Create a webhook."""

    def update_webhook(self, webhook_id: int, webhook: Webhook) -> None:
        """Replace a webhook."""

    def changed_tasks(self, project_id: int, since: datetime | None, *, size: int = 100) -> TaskPage:
        """Return annotated tasks for people that changed at `since` or later, ordered by the time of change."""

    def tasks_changed_at(self, project_id: int, moment: datetime, *, after: int = 0, size: int = 100) -> TaskPage:
        """Return annotated tasks for people that changed exactly then, with ids above `after`, ordered by id."""

    def tasks_after(self, project_id: int, *, after: int = 0, size: int = 100) -> TaskPage:
        """Return tasks with ids above `after`, ordered by id."""

    def add_tasks(self, project_id: int, tasks: Sequence[Json]) -> list[int]:
        """Create tasks, with their annotations if they have any, all or none; return their ids in the same order."""

    def set_values(self, project_id: int, task_id: int, values: Mapping[str, str]) -> bool:
        """Set these values in a task's data and no others; return False if the task does not exist."""

    def skip_for(self, project_id: int, task_id: int, user_id: int) -> bool:
        """Skip a task for a user who has not worked on it, so that they are not asked; False if it does not exist."""

    def delete_unannotated(self, project_id: int, task_ids: Sequence[int]) -> set[int]:
        """Delete those of the tasks that have no annotation, or only skipped ones; return the ids that remain."""

    def add_predictions(self, project_id: int, predictions: Sequence[Json]) -> None:
        """Store predictions, one for each task that they name."""


def id_pages(read: Callable[..., TaskPage], size: int, *, after: int = 0) -> Iterator[TaskPage]:
    """Yield pages of tasks in the order of their ids; `read` gets the last id before the page, and its size."""
    while True:
        page = read(after=after, size=size)
        if page.tasks:
            yield page
        if len(page.tasks) < size:
            return
        after = page.tasks[-1].id
