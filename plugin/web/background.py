"""The background threads of the web app: housekeeping for worker pages, and reading Label Studio.

All processes of one web app share a folder. The process that holds a lock in it does the work; if it dies, another one
takes over. Web apps on other machines do the same work, which is idempotent.
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

from round_manager.crowd.workers import WorkerAccess, grant_passed_quizzes
from round_manager.services.context import ServiceContext
from round_manager.services.work import end_overdue_work, forget_addresses

HOUSEKEEPING_SECONDS = 10.0
_HINT = ".hint"
_log = logging.getLogger(__name__)


class AnnotationReader(Protocol):
    """Reads new annotations from Label Studio; reading twice changes nothing."""

    def tasks(self) -> Sequence[str]:
        """Return the tasks that are connected to Label Studio."""

    def read(self, task: str) -> object:
        """Read what is new in a task's projects."""


class _LockedLoop:
    """A thread that calls `step` at an interval while its process holds a lock file."""

    def __init__(self, name: str, lock: Path, interval: float) -> None:
        self._lock = lock
        self._interval = interval
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Start no further step; wait up to `timeout` seconds for the current one."""
        self._stopping.set()
        self._thread.join(timeout)

    def step(self) -> None:
        """Do the work once."""
        raise NotImplementedError

    def _run(self) -> None:
        with self._lock.open("w") as lock:
            while not self._stopping.wait(self._interval):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue
                self.step()


class Housekeeping(_LockedLoop):
    """Ends overdue pages and leases, deletes old addresses, and grants qualifications to workers who passed a quiz.

    Without `access` to the marketplace, no qualification is granted.
    """

    def __init__(
        self,
        context: Callable[[], ServiceContext],
        marketplace: str,
        access: Callable[[], WorkerAccess] | None,
        folder: Path,
        interval: float = HOUSEKEEPING_SECONDS,
    ) -> None:
        super().__init__("workers-upkeep", folder / "workers.lock", interval)
        self._context = context
        self._marketplace = marketplace
        self._access = access
        self._failures = _FailureLog("workers have to wait for their qualification")

    @property
    def failing(self) -> str:
        """The error of the last step; empty if it succeeded."""
        return self._failures.of("")

    def once(self) -> int:
        """End overdue work, delete old addresses and grant qualifications; return how many were granted."""
        context = self._context()
        end_overdue_work(context)
        forget_addresses(context)
        return grant_passed_quizzes(context.store, self._marketplace, self._access) if self._access else 0

    def step(self) -> None:
        """Do the work once, and log failures."""
        self._failures.attempt("", self.once)


class ReadingLoop(_LockedLoop):
    """Reads Label Studio: each task every `every` seconds (0: never), a hinted task `gather` seconds after its hint.

    A hint is a file in the shared folder, so it does not matter which process received the webhook.
    """

    def __init__(
        self,
        reader: AnnotationReader,
        folder: Path,
        *,
        every: float,
        gather: float = 1.0,
        look: float = 0.2,
        count: Callable[[str, str], None] = lambda _task, _outcome: None,
    ) -> None:
        super().__init__("label-studio", folder / "reader.lock", look)
        self._reader = reader
        self._folder = folder
        self._every = every
        self._gather = gather
        self._count = count
        self._next = 0.0
        self._failures = _FailureLog("Label Studio is not read", "Label Studio is read again")

    def hint(self, task: str) -> None:
        """Record that something happened in a task; many hints in a row count as one."""
        try:
            # Not touched again: the first of many hints decides when to read.
            os.close(os.open(self._folder / f"{task}{_HINT}", os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            _log.warning("a hint is lost; the next read finds the work", extra={"data": {"error": error.strerror}})

    def step(self) -> None:
        """Read every task that is due."""
        for task in self._due():
            if self._stopping.is_set():
                break
            self._read(task)

    def _due(self) -> list[str]:
        due = dict.fromkeys(self._hinted())
        if self._every and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            found: list[str] = []
            self._failures.attempt("", lambda: found.extend(self._reader.tasks()))
            due |= dict.fromkeys(found)
        return list(due)

    def _hinted(self) -> list[str]:
        found = []
        for path in self._folder.glob(f"*{_HINT}"):
            with suppress(OSError):
                # abs: a clock that was set back must not delay a hint.
                if abs(time.time() - path.stat().st_mtime) >= self._gather:
                    # Removed first: a hint that arrives from now on causes another read.
                    path.unlink()
                    found.append(path.name.removesuffix(_HINT))
        return found

    def _read(self, task: str) -> None:
        # Removed first here too, if the task was due without a hint.
        with suppress(OSError):
            (self._folder / f"{task}{_HINT}").unlink(missing_ok=True)
        worked = self._failures.attempt(task, lambda: self._reader.read(task))
        self._count(task, "worked" if worked else "failed")


class _FailureLog:
    """Logs when something starts to fail and when it works again, but not each time in between."""

    def __init__(self, failed: str, works_again: str = "") -> None:
        self._failed = failed
        self._works_again = works_again
        self._failing: dict[str, str] = {}

    def of(self, task: str) -> str:
        """Return the last error of a task; empty if it succeeded."""
        return self._failing.get(task, "")

    def attempt(self, task: str, act: Callable[[], object]) -> bool:
        """Call `act` and return whether it succeeded."""
        data = {"task": task} if task else {}
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the edge of a thread: the next attempt may succeed
            # Another library's message can contain what people typed; ours, which have `retry`, never do.
            text = str(error) if hasattr(error, "retry") else type(error).__name__
            if self.of(task) != text:
                _log.warning(self._failed, extra={"data": {**data, "error": text}})
            self._failing[task] = text
            return False
        if self._failing.pop(task, None) and self._works_again:
            _log.info(self._works_again, extra={"data": data})
        return True
