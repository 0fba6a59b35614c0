"""The JobRunner port: where trainings and evaluations run, on this machine or on a cluster.

A job itself records its progress, its heartbeat and its result in the database. The runner only starts it, reports
whether it is alive and how it ended, stops it and keeps its log.
"""

import enum
import hashlib
import os
import secrets
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Protocol

# Linux reports the start of a process to the second.
CLOCK_ERROR = timedelta(seconds=2)
PROC = Path("/proc")
# Tokens of jobs that outlive the process that started them begin with this.
DURABLE = "durable-"
# The kinds of jobs.
TRAINING, EVALUATION = "training", "evaluation"


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

    UNKNOWN = "unknown"  # never started, or forgotten by a cluster that was restarted
    RUNNING = "running"  # or waiting for its turn
    SUCCEEDED = "succeeded"
    BUSY = "busy"  # another process was faster, and does the same work
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"  # its cluster has stopped answering, or has forgotten it


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
        return self.outcome not in (JobOutcome.UNKNOWN, JobOutcome.RUNNING)


class JobRunner(Protocol):
    """Runs jobs somewhere: on this machine, or on a cluster."""

    @property
    def durable(self) -> bool:
        """Whether jobs outlive this process, and every process finds them by their tokens."""

    def start(self, request: JobRequest) -> None:
        """Start the job, unless it was started before."""

    def status(self, request: JobRequest) -> JobStatus:
        """Return how the job stands."""

    def stop(self, request: JobRequest) -> None:
        """Ask the job to end, and kill it where it does not."""

    def log(self, request: JobRequest) -> str:
        """Return what the job has printed."""


def next_request(runner: JobRunner, kind: str, task: str, basis: str, mode: str | None = None) -> JobRequest:
    """Return the request for a durable job, whose token follows from a text that identifies what it does.

    A process that was killed, and another one, find the job by it. One that has ended is followed by another.
    """
    for attempt in count(1):
        token = DURABLE + hashlib.sha256(f"{basis} {attempt}".encode()).hexdigest()[:32]
        request = JobRequest(kind, task, mode, token)
        status = runner.status(request)
        if not status.has_ended or status.outcome is JobOutcome.LOST:
            return request
    raise AssertionError("count never ends")


def is_durable(token: str | None) -> bool:
    """Return whether a token is one of a durable job."""
    return token is not None and token.startswith(DURABLE)


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
