"""The reader of the Label Studio that the settings name."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from common.clock import SystemClock
from ml_backend.judge import RegistryJudge
from ml_backend.registry.registry import open_registry
from ml_backend.targets.loading import load_target
from plugin.lazy_store import LazyStore
from plugin.settings import Settings
from round_manager.labelstudio.mirror import find_link
from round_manager.models import ProjectKind
from round_manager.tasks.tasks import list_tasks

if TYPE_CHECKING:
    from plugin.labelstudio.studio import Studio


class StudioReader:
    """Reads the tasks that are connected to the Label Studio of the settings, and shows what the crowd did there.

    Models are loaded when first needed.
    """

    def __init__(self, settings: Settings, lazy_store: LazyStore) -> None:
        place, cache = settings.registry_location, settings.cache_path / "models"
        self._settings = settings
        self._lazy_store = lazy_store
        self._judge = RegistryJudge(lambda: open_registry(place, cache), load_target)

    def tasks(self) -> Sequence[str]:
        with self._lazy_store.open().read() as session:
            links = [(task.name, find_link(session, task.id, ProjectKind.CREATE)) for task in list_tasks(session)]
        url = self._settings.label_studio_url.rstrip("/")
        return [name for name, link in links if link is not None and link.url == url]

    def read(self, task: str) -> None:
        from plugin.labelstudio.crowd_work import show_crowd_work
        from plugin.labelstudio.syncing import sync_task

        store, clock = self._lazy_store.open(), SystemClock()
        try:
            sync_task(store, self._studio, task, self._judge, clock)
        finally:
            # A model that cannot be loaded keeps nobody from seeing what the crowd did.
            show_crowd_work(store, self._studio, task, clock)

    @cached_property
    def _studio(self) -> "Studio":
        # The SDK takes a second to import, and of several processes only one reads.
        from plugin.labelstudio.remote import RemoteStudio

        return RemoteStudio(self._settings.label_studio_url, self._settings.label_studio_token)
