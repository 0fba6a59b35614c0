"""Progress and cancellation of a training."""

from collections.abc import Callable

from common.progress import Progress
from ml_backend.errors import TrainingCancelled


class ProgressMonitor:
    """Forwards the progress of a training, and checks between any two steps whether it was cancelled."""

    def __init__(self, progress: Progress | None, cancel: Callable[[], bool] | None) -> None:
        self._progress = progress
        self._cancel = cancel

    def start(self, total_steps: int, what: str) -> None:
        """Begin a stage."""
        self.check()
        if self._progress:
            self._progress.start(total_steps, what)

    def step(self, steps: int = 1, note: str = "") -> None:
        """Report that more steps are done; raise TrainingCancelled if the training was cancelled."""
        if self._progress:
            self._progress.advance(steps, note)
        self.check()

    def finish(self) -> None:
        """End the stage."""
        if self._progress:
            self._progress.finish()

    def check(self) -> None:
        """Raise TrainingCancelled where the training was cancelled."""
        if self._cancel and self._cancel():
            raise TrainingCancelled("training was cancelled; no model was written")
