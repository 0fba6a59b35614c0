"""The composition root: builds every adapter from the settings, for the CLI, the web app, the manager and the demo.

Nothing is imported, opened or contacted before it is used, so that `outfox --help` stays fast.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from common.clock import Clock, SystemClock
from plugin.operator import operator_name
from plugin.settings import Settings

if TYPE_CHECKING:
    from crowd.port import Crowd, EventQueue
    from crowd.profile import CrowdProfile
    from crowd.retries import RetryPolicy
    from ml_backend.registry.registry import Registry
    from plugin.crowd import CrowdServices
    from round_manager.archive.storage import Archives
    from round_manager.database.store import Store
    from round_manager.services.context import Actor, ServiceContext


class Application:
    """One running process of Outfox: its settings, its clock, and the adapters that the settings describe."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()

    @cached_property
    def actor(self) -> "Actor":
        """The user who runs this process, as the audit log names them."""
        from round_manager.services.context import Actor

        return Actor(operator_name())

    @contextmanager
    def open_store(self, *, upgrade: bool = False) -> "Iterator[Store]":
        """Open the database; close it at the end of the block."""
        from round_manager.database.store import open_store
        from round_manager.tasks.affordability import FEES

        info = {FEES: self.crowd_profile.fees}
        with open_store(self.settings.database, upgrade=upgrade, info=info) as store:
            yield store

    @contextmanager
    def services(self, *, upgrade: bool = False) -> "Iterator[ServiceContext]":
        """Open the database for use cases; close it at the end of the block."""
        from round_manager.services.context import ServiceContext

        with self.open_store(upgrade=upgrade) as store:
            yield ServiceContext(store, self.clock)

    @cached_property
    def crowd_profile(self) -> "CrowdProfile":
        """What the crowd that the settings name charges, guarantees and accepts; available without access keys."""
        from plugin.crowd import crowd_profile

        return crowd_profile(self.settings)

    def event_queue(self) -> "EventQueue | None":
        """Return the queue to which the marketplace sends events, if there is one."""
        from plugin.crowd import event_queue

        return event_queue(self.settings)

    def crowd(self, retries: "RetryPolicy | None" = None) -> "Crowd":
        """Return the marketplace that the settings name; nothing is sent to it yet."""
        from plugin.crowd import crowd_of

        return crowd_of(self.settings, retries)

    def crowd_services(self, store: "Store", crowd: "Crowd") -> "CrowdServices":
        """Return what posts, collects, pays and reconciles on that marketplace."""
        from plugin.crowd import crowd_services

        return crowd_services(self.settings, store, crowd, self.clock)

    def registry(self) -> "Registry":
        """Return the registry of model versions."""
        from ml_backend.registry.registry import open_registry

        return open_registry(self.settings.registry_location, self.settings.cache_path / "models")

    def archives(self) -> "Archives":
        """Return the place where frozen rounds are kept."""
        from round_manager.archive.storage import open_archives

        return open_archives(self.settings.archives_location)
