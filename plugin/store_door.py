"""A store that is opened by the process that uses it, as soon as it can be."""

import threading
from collections.abc import Callable

from round_manager.database.store import Store, open_store


class StoreDoor:
    """Opens the store when it is first needed, once; while it cannot be opened, each use says why.

    A process that serves can so begin before its database, and connections are never carried over a fork.
    """

    def __init__(self, url: str, *, open_at: Callable[[str], Store] = open_store) -> None:
        self._url = url
        self._open = open_at
        self._store: Store | None = None
        self._lock = threading.Lock()

    def store(self) -> Store:
        """The store, with tables that fit, or an error of round_manager."""
        with self._lock:
            if self._store is None:
                self._store = self._open(self._url)
            return self._store

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None
