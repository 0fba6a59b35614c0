"""Health that answers in time: a check runs in a separate thread, and its caller waits for a limited time."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import CodedError, one_line

# Below the second within which a server's health is to be known.
LIMIT_SECONDS = 0.8
# How long a server returns the same result: anyone may ask, and a check writes to the disk.
KEEP_SECONDS = 2.0
RETRY_AFTER = {"Retry-After": "2"}
# What SQLite's write-ahead log may need before it is emptied into the database.
SPARE_BYTES = 4_000_000
_log = logging.getLogger(__name__)


class HealthUnknown(CodedError):
    """The check of this server's health does not end in time."""

    retry = True


class HealthCheckFailed(CodedError):
    """The check of this server's health failed unexpectedly."""

    retry = True


class DiskUnusable(CodedError):
    """The disk is full or read-only."""

    retry = True


@dataclass(frozen=True)
class Health:
    """The outcome of a check: what it found, or the error that it raised."""

    found: Mapping[str, object] = field(default_factory=dict)
    error: CodedError | None = None

    def as_response(self) -> tuple[dict[str, object], int, dict[str, str]]:
        """Return body, status and headers. The body is for anyone: it has no path, host or address."""
        if self.error is None:
            return {"status": "UP", **self.found}, 200, {}
        return {"status": "DOWN", "error": self.error.summary, **self.error.as_data()}, 503, RETRY_AFTER


class HealthCheck:
    """Runs `check`, which returns details or raises a CodedError, in one thread at a time.

    A check that hangs occupies only that thread. Until it ends, callers learn at once that the health is unknown.
    """

    def __init__(
        self, check: Callable[[], Mapping[str, object]], *, limit: float = LIMIT_SECONDS, keep: float = 0.0
    ) -> None:
        self._check = check
        self._limit = limit
        self._keep = keep
        self._lock = threading.Lock()
        self._run: _Run | None = None

    def health(self) -> Health:
        """Return the outcome of a check that runs now or ended less than `keep` seconds ago."""
        run = self._current_run()
        run.ended.wait(max(0.0, run.began + self._limit - time.monotonic()))
        return run.outcome or Health(error=HealthUnknown("the check of the health does not end"))

    def _current_run(self) -> "_Run":
        with self._lock:
            run = self._run
            if run is None or (run.outcome is not None and time.monotonic() >= run.ended_at + self._keep):
                run = self._run = _Run()
                threading.Thread(target=self._perform, args=(run,), name="health", daemon=True).start()
            return run

    def _perform(self, run: "_Run") -> None:
        try:
            outcome = Health(found=self._check())
        except CodedError as error:
            # The message may name paths and hosts, so it is for the log only.
            _log.warning("unhealthy", extra={"data": {"code": error.code, "error": one_line(error)}})
            outcome = Health(error=error)
        except Exception as error:  # noqa: BLE001 - a thread's edge: whatever it is, the server is not healthy
            _log.error("the health check failed", extra={"data": {"error": type(error).__name__}})
            outcome = Health(error=HealthCheckFailed(type(error).__name__))
        run.ended_at = time.monotonic()
        run.outcome = outcome
        run.ended.set()


@dataclass(eq=False)
class _Run:
    """One run of a check; it has no outcome before it has ended."""

    began: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event)
    ended_at: float = 0.0
    outcome: Health | None = None


def check_disk(folder: Path, file: Path | None = None) -> None:
    """Raise DiskUnusable if the folder, or a file in it, cannot be written, or if hardly any space is left."""
    for path, needed in ((folder, os.W_OK | os.X_OK), (file, os.W_OK)):
        if path is not None and path.exists() and not os.access(path, needed):
            raise DiskUnusable(f"{path} cannot be written; check its permissions")
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        raise DiskUnusable(f"{folder} cannot be used: {error.strerror}") from error
    free = disk.f_bavail * disk.f_frsize
    if free < SPARE_BYTES:
        raise DiskUnusable(f"the disk of {folder} has only {free:,} bytes left; free some space")
