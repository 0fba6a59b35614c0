"""A reader of Label Studio that a test can hold and break."""

import threading
from collections.abc import Sequence


class FakeReader:
    """Knows which tasks it has read, in their order."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.error: Exception | None = None
        self.hold: threading.Event | None = None
        self._got: list[str] = []
        self._changed = threading.Condition()

    def tasks(self) -> Sequence[str]:
        return self.names

    def read(self, task: str) -> None:
        with self._changed:
            self._got.append(task)
            self._changed.notify_all()
        if self.hold is not None:
            assert self.hold.wait(20), "the test did not release the read"
        if self.error is not None:
            raise self.error

    @property
    def got(self) -> list[str]:
        with self._changed:
            return list(self._got)

    def wait_for(self, count: int) -> None:
        """Wait until this many reads have begun."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._got) >= count, 20), f"{len(self._got)} reads, not {count}"
