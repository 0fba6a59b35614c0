"""How training is watched and stopped."""

from collections.abc import Callable
from typing import Protocol

from ml_backend.errors import TrainingCancelled


class Progress(Protocol):
    """Somebody who is told how far training is; each stage starts, advances and finishes."""

    def start(self, total_steps: int, what: str) -> None:
        """A stage of so many steps begins."""
        ...

    def advance(self, steps: int, note: str) -> None:
        """So many more steps are done; the note says how it goes."""
        ...

    def finish(self) -> None:
        """The stage is over, perhaps before its last step."""
        ...


class Watch:
    """One stage's progress, and the place where a wish to stop is heard: between any two steps."""

    def __init__(self, progress: Progress | None, cancel: Callable[[], bool] | None) -> None:
        self._progress = progress
        self._cancel = cancel

    def start(self, total_steps: int, what: str) -> None:
        """A stage begins."""
        self.check()
        if self._progress:
            self._progress.start(total_steps, what)

    def step(self, steps: int = 1, note: str = "") -> None:
        """So many steps are done; raises TrainingCancelled when somebody wants to stop."""
        if self._progress:
            self._progress.advance(steps, note)
        self.check()

    def finish(self) -> None:
        """The stage is over."""
        if self._progress:
            self._progress.finish()

    def check(self) -> None:
        """Raises TrainingCancelled when somebody wants to stop."""
        if self._cancel and self._cancel():
            raise TrainingCancelled("training was cancelled; no model was written")
