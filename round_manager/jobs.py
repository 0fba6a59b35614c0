"""The JobRunner port: where trainings and evaluations run. A local process today; a cluster can be another runner.

A job itself records its progress, its heartbeat and its result in the database. The runner only starts it, reports
whether it is alive and how it ended, stops it and keeps its log.
"""

import enum
import os
import secrets
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

# Linux reports the start of a process to the second.
CLOCK_ERROR = timedelta(seconds=2)
PROC = Path("/proc")


def new_token() -> str:
    """Return a token that identifies one start of a job."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class JobRequest:
    """A job to run: which kind, for which task. The token makes starting it idempotent."""

    kind: str
    task: str
    mode: str | None = None
    token: str = field(default_factory=new_token)


@dataclass(frozen=True)
class JobOwner:
    """The process that trains, and who started it; the token distinguishes this start from every other."""

    actor: str
    host: str
    pid: int
    token: str = field(default_factory=new_token)

    @classmethod
    def this_process(cls, actor: str, token: str | None = None) -> "JobOwner":
        """Return this process as the owner of a job."""
        return cls(actor, socket.gethostname(), os.getpid(), token or new_token())


class JobOutcome(enum.StrEnum):
    """How a job stands, as its runner sees it."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    BUSY = "busy"  # another process was faster, and does the same work
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class JobStatus:
    """How a job stands; `reason` says why it did not succeed, `retry` whether running it again may help."""

    outcome: JobOutcome
    reason: str = ""
    retry: bool = False
    host: str = ""
    pid: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether the job is over."""
        return self.outcome is not JobOutcome.RUNNING


class JobRunner(Protocol):
    """Runs jobs somewhere: on this machine, or on a cluster."""

    def start(self, request: JobRequest) -> None:
        """Start the job, unless it was started before."""

    def status(self, request: JobRequest) -> JobStatus:
        """Return how the job stands."""

    def stop(self, request: JobRequest) -> None:
        """Ask the job to end, and kill it where it does not."""


def is_dead(host: str, pid: int, since: datetime) -> bool:
    """Return whether a process that was started at that time on this machine no longer exists."""
    if host != socket.gethostname():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # Another user's process has that number.
    return _is_another_process(pid, since)


def _is_another_process(pid: int, since: datetime) -> bool:
    """Return whether the process of that number is a zombie, or started later."""
    try:
        # The name, in brackets, may hold anything.
        state, *numbers = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        (booted,) = (line.split()[1] for line in (PROC / "stat").read_text().splitlines() if line.startswith("btime"))
        began = int(booted) + int(numbers[18]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return False  # Not Linux, or the process has just ended; the next call finds out.
    return state == "Z" or datetime.fromtimestamp(began, UTC) > since + CLOCK_ERROR
