"""Somebody who watches a long job."""

from typing import Protocol


class Progress(Protocol):
    """Is told how far a job is; each stage starts, advances and finishes."""

    def start(self, total_steps: int, what: str) -> None:
        """A stage of so many steps begins; 0 means that nobody knows how many."""
        ...

    def advance(self, steps: int = 1, note: str = "") -> None:
        """So many more steps are done."""
        ...

    def finish(self) -> None:
        """The stage is over."""
        ...


class Unwatched:
    """Nobody watches."""

    def start(self, total_steps: int, what: str) -> None:
        """Tells nobody."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Tells nobody."""

    def finish(self) -> None:
        """Tells nobody."""
