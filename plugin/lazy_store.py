"""A database that is opened on first use."""

import threading
from collections.abc import Callable

from round_manager.database.store import Store, open_store


class LazyStore:
    """Opens the database when a process first needs it.

    A server can start before its database is reachable, and no connection is carried over a fork. While the database
    cannot be opened, each use raises the error that says why.
    """

    def __init__(self, url: str, *, opener: Callable[[str], Store] = open_store) -> None:
        self._url = url
        self._opener = opener
        self._store: Store | None = None
        self._lock = threading.Lock()

    def open(self) -> Store:
        """Return the open store, with a current schema; raise a StoreError otherwise."""
        with self._lock:
            if self._store is None:
                self._store = self._opener(self._url)
            return self._store

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None
