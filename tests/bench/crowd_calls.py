"""The number of calls to a marketplace, and the time during which at least one was pending."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mturk.connection import Connection


class Watched:
    """The recorded calls of one connection."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        self._flying = 0
        self._since = 0.0
        self._lock = threading.Lock()

    def watch(self, connection: Connection) -> None:
        """Record every call of the connection's boto3 client from now on."""
        client: Any = connection._client
        really = client._make_api_call

        def seen(operation: str, members: dict[str, Any]) -> Any:
            with self._one(operation):
                return really(operation, members)

        client._make_api_call = seen

    @contextmanager
    def _one(self, operation: str) -> Iterator[None]:
        with self._lock:
            self.counts[operation] += 1
            if self._flying == 0:
                self._since = time.perf_counter()
            self._flying += 1
        try:
            yield
        finally:
            with self._lock:
                self._flying -= 1
                if self._flying == 0:
                    self.seconds += time.perf_counter() - self._since
