"""Progress of a long operation: a protocol for whatever shows it."""

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

POLL_SECONDS = 0.1
T = TypeVar("T")


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


def show_waiting(progress: Progress, what: str, action: Callable[[], T]) -> T:
    """Run an action in a thread, and show meanwhile that time passes: loading a large library says nothing itself."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(action())
        except BaseException as error:  # noqa: BLE001 - the edge of a thread: raised again below
            errors.append(error)

    progress.start(0, what)
    thread = threading.Thread(target=run, name="shown", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(POLL_SECONDS)
        progress.advance(0)
    if errors:
        raise errors[0]
    progress.finish()
    return results[0]
