"""The JobRunner port: where trainings and evaluations run. A local process today; a cluster can be another runner.

A job itself records its progress, its heartbeat and its result in the database. The runner only starts it, reports
whether it is alive and how it ended, stops it and keeps its log.
"""

import enum
import secrets
from dataclasses import dataclass, field
from typing import Protocol


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
        ...

    def status(self, request: JobRequest) -> JobStatus:
        """Return how the job stands."""
        ...

    def stop(self, request: JobRequest) -> None:
        """Ask the job to end, and kill it where it does not."""
        ...

    def log(self, request: JobRequest) -> str:
        """Return what the job has printed so far."""
        ...
