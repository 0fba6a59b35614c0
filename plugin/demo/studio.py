"""Label Studio, started in a thread of its own: half a minute in which everything else can be done."""

import threading

from plugin.labelstudio.server import LabelStudioServer
from round_manager.progress import Progress

SECONDS_BETWEEN_LOOKS = 0.25


class StartingStudio:
    """A Label Studio that is starting; its error is the waiter's."""

    def __init__(self, server: LabelStudioServer) -> None:
        self._server = server
        self._stage = "Label Studio starts"
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="label-studio-start", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it answers, or never will."""
        return not self._thread.is_alive()

    @property
    def error(self) -> BaseException | None:
        """Why it never will."""
        return self._error

    def wait(self, progress: Progress) -> None:
        """Until it answers."""
        progress.start(0, "Label Studio starts (half a minute the first time)")
        while not self.is_over:
            self._thread.join(SECONDS_BETWEEN_LOOKS)
            progress.advance(0, self._stage)
        progress.finish()
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """Somebody else failed: it need not finish starting."""
        self._server.stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._server.start(self._tell)
        except Exception as error:  # noqa: BLE001 - the edge of a thread: the waiter raises it
            self._error = error

    def _tell(self, stage: str, _seconds: float) -> None:
        self._stage = stage
