"""Progress of a long operation: a protocol for whatever shows it."""

from typing import Protocol


class Progress(Protocol):
    """Receives the progress of an operation; each stage starts, advances and finishes."""

    def start(self, total_steps: int, what: str) -> None:
        """Begin a stage of that many steps; 0 means that the number is unknown."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Report that more steps are done."""

    def finish(self) -> None:
        """End the stage, possibly before its last step."""


class NoProgress:
    """Ignores progress."""

    def start(self, total_steps: int, what: str) -> None:
        """Do nothing."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""
