"""The Label Studio that the settings name, as the manager reads it and fills it."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from common.clock import Clock
from common.text import count
from ml_backend.judge import RegistryJudge
from ml_backend.registry.registry import open_registry
from ml_backend.targets.loading import load_target
from plugin.settings import Settings
from round_manager.database.store import Store
from round_manager.labelstudio.mirror import find_link
from round_manager.models import ProjectKind
from round_manager.tasks.tasks import list_tasks

if TYPE_CHECKING:
    from plugin.labelstudio.following import Course
    from plugin.labelstudio.studio import Studio


class ConnectedStudio:
    """Reads and fills the projects of tasks that are connected to it; models are loaded when first needed."""

    def __init__(self, settings: Settings, store: Store, clock: Clock) -> None:
        place, cache = settings.registry_location, settings.cache_path / "models"
        self._url = settings.label_studio_url.rstrip("/")
        self._token = settings.label_studio_token
        self._store = store
        self._clock = clock
        self._judge = RegistryJudge(lambda: open_registry(place, cache), load_target)
        # What was seen to, so that Label Studio is asked once for each round; what an owner enters after it stays.
        self._followed: dict[str, Course] = {}

    def tasks(self) -> Sequence[str]:
        with self._store.read() as session:
            links = [(task.name, find_link(session, task.id, ProjectKind.CREATE)) for task in list_tasks(session)]
        return [name for name, link in links if link is not None and link.url == self._url]

    def read(self, task: str) -> str:
        from plugin.labelstudio.crowd_work import show_crowd_work
        from plugin.labelstudio.syncing import sync_task

        try:
            found = sync_task(self._store, self._studio, task, self._judge, self._clock)
        finally:
            # A model that cannot be loaded keeps nobody from seeing what the crowd did.
            show_crowd_work(self._store, self._studio, task, self._clock)
        told = ((found.examples, "examples"), (found.votes, "votes"), (found.problems, "that became nothing"))
        parts = [f"{number} {what}" for number, what in told if number]
        done = [f"{', '.join(parts)} from Label Studio"] if parts else []
        return "; ".join([*done, *_cleared_text(found.cleared)])

    def follow(self, task: str) -> str:
        from plugin.labelstudio.following import find_course, follow

        course = find_course(self._store, task)
        if course is None or course == self._followed.get(task):
            return ""
        url = follow(self._store, self._studio, task, course, self._clock)
        self._followed[task] = course
        return f"Label Studio asks the ML backend at {url} now" if url else ""

    def push(self, task: str) -> str:
        from plugin.labelstudio.pushing import push

        sent = push(self._store, self._studio, task, self._clock)
        told = f"{sent.contexts} to write for and {sent.validations} to check sent to Label Studio"
        done = [told] if sent.contexts or sent.validations else []
        return "; ".join([*done, *_cleared_text(sent.cleared)])

    @cached_property
    def _studio(self) -> "Studio":
        # The SDK takes a second to import.
        from plugin.labelstudio.remote import RemoteStudio

        return RemoteStudio(self._url, self._token)


def _cleared_text(number: int) -> list[str]:
    return [f"{count(number, 'check')} that can take no vote any more taken down from Label Studio"] if number else []
