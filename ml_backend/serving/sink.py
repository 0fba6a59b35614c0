"""Sinks: where verdicts go to be stored, without a verdict ever waiting for it."""

from dataclasses import dataclass
from typing import Protocol

from ml_backend.serving.attempt_record import AttemptRecord


@dataclass(frozen=True)
class SinkState:
    """How a sink does: how many files of tries wait, what became of the others, and what is wrong now."""

    waiting: int = 0
    delivered: int = 0
    refused: int = 0
    dropped: int = 0
    error: str | None = None


class Sink(Protocol):
    """Takes verdicts to be stored."""

    def put(self, tried: AttemptRecord) -> None:
        """Takes one try; never waits for whoever stores it, never raises."""
        ...

    def state(self) -> SinkState:
        """How the sink does."""
        ...


class NoSink:
    """A Sink that keeps nothing, for a backend that runs on its own."""

    def put(self, tried: AttemptRecord) -> None:
        """Nothing is kept."""

    def state(self) -> SinkState:
        return SinkState()
