"""Reading Label Studio from the web app: soon after a hint, and now and then without one.

All processes of one web app share a folder. A hint is a file in it, so that it does not matter which process was told;
whoever holds the lock reads, and when that process dies another one holds it.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_HINT = ".hint"
_LOCK = "reader.lock"
_log = logging.getLogger(__name__)


class Reader(Protocol):
    """Reads what people did in Label Studio; reading twice does no harm."""

    def tasks(self) -> Sequence[str]:
        """The tasks that there is something to read for."""
        ...

    def read(self, task: str) -> object:
        """Reads what is new in a task's projects."""
        ...


def _tell_nobody(_task: str, _outcome: str) -> None:
    """Where nobody counts."""


class ReadingLoop:
    """Reads in a thread of its own: every task each `every` seconds (0: never), a hinted one `gather` seconds later."""

    def __init__(
        self,
        reader: Reader,
        folder: Path,
        *,
        every: float,
        gather: float = 1.0,
        look: float = 0.2,
        told: Callable[[str, str], None] = _tell_nobody,
    ) -> None:
        self._reader = reader
        self._folder = folder
        self._every = every
        self._gather = gather
        self._look = look
        self._told = told
        self._next = 0.0
        self._failing: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="label-studio", daemon=True)

    def start(self) -> None:
        """From now on it reads, or waits for its turn to."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Begins nothing more; what it is at may take so many seconds."""
        self._stopping.set()
        self._thread.join(timeout)

    def hint(self, task: str) -> None:
        """Something happened in the task; many hints in a row are one."""
        try:
            # Not touched again: the first of many hints says when to read.
            os.close(os.open(self._folder / f"{task}{_HINT}", os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            _log.warning("a hint is lost; it will be found all the same", extra={"data": {"error": error.strerror}})

    def _run(self) -> None:
        with (self._folder / _LOCK).open("w") as lock:
            while not self._stopping.wait(self._look):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue
                for task in self._due():
                    if self._stopping.is_set():
                        break
                    self._read(task)

    def _due(self) -> list[str]:
        due = dict.fromkeys(self._hinted())
        if self._every and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            with self._noted(""):
                due |= dict.fromkeys(self._reader.tasks())
        return list(due)

    def _hinted(self) -> list[str]:
        found = []
        for path in self._folder.glob(f"*{_HINT}"):
            with suppress(OSError):
                # abs: a clock that was set back must not keep a hint waiting.
                if abs(time.time() - path.stat().st_mtime) >= self._gather:
                    # Removed first: what is hinted from now on is read once more.
                    path.unlink()
                    found.append(path.name.removesuffix(_HINT))
        return found

    def _read(self, task: str) -> None:
        # Removed first here too, where its time had come without a hint.
        with suppress(OSError):
            (self._folder / f"{task}{_HINT}").unlink(missing_ok=True)
        with self._noted(task) as noted:
            self._reader.read(task)
        self._told(task, "worked" if noted.worked else "failed")

    def _noted(self, task: str) -> "_Noted":
        return _Noted(task, self._failing)


class _Noted:
    """Tells the log when something begins to fail and when it works again, and not each time in between."""

    def __init__(self, task: str, failing: dict[str, str]) -> None:
        self._task = task
        self._failing = failing
        self.worked = False

    def __enter__(self) -> "_Noted":
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if error is None:
            self.worked = True
            if self._failing.pop(self._task, None):
                _log.info("Label Studio is read again", extra={"data": {"task": self._task}})
            return False
        # What another library's error says can hold what people typed; ours, which know about retrying, never do.
        text = str(error) if hasattr(error, "retry") else type(error).__name__
        if self._failing.get(self._task) != text:
            _log.warning("Label Studio is not read", extra={"data": {"task": self._task, "error": text}})
        self._failing[self._task] = text
        return isinstance(error, Exception)
