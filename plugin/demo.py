"""The demo: a real Label Studio with the sentiment task in it, and a model trained for that task."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from ml_backend.artefact import list_versions
from ml_backend.training import Progress, train
from plugin.labelstudio.projects import LabelStudio, Project
from plugin.labelstudio.server import LabelStudioServer
from plugin.settings import Settings, stored_secret
from round_manager.store import open_store
from templates import BUILT_IN, Pack, load_pack

TASK = "sentiment"
EMAIL = "owner@example.com"
PASSWORD_BYTES = 8
TOKEN_BYTES = 20


@dataclass(frozen=True)
class Ready:
    """A demo that can be used: where, by whom, with which model, and how long it took to get there."""

    project: Project
    tasks: int
    email: str
    password: str
    version: str
    accuracy: float
    seconds: float


class Demo:
    """Everything that the demo runs; `prepare` starts it, `stop` ends it."""

    def __init__(self, settings: Settings, port: int) -> None:
        self._settings = settings
        home = settings.make_home()
        folder = home / "label-studio"
        folder.mkdir(exist_ok=True)
        # Kept, so that the second start finds the first one's user.
        self._server = LabelStudioServer(
            folder,
            port,
            EMAIL,
            stored_secret(home / "label-studio-password", PASSWORD_BYTES),
            stored_secret(home / "label-studio-token", TOKEN_BYTES),
        )

    def prepare(self, progress: Progress) -> Ready:
        """Starts and fills everything; what takes longest runs beside the rest."""
        began = time.monotonic()
        starting = _Background(self._server)
        try:
            with open_store(self._settings.database, upgrade=True):
                pack = load_pack(BUILT_IN / TASK)
            version, accuracy = self._model(pack, progress)
            starting.wait(progress)
            studio = LabelStudio(self._server.url, self._server.token)
            progress.start(0, "The sentiment task goes into Label Studio")
            project = studio.ensure_project(pack, "create")
            studio.import_contexts(project, pack)
            progress.finish()
        except BaseException:
            starting.give_up()
            raise
        return Ready(
            project,
            len(pack.contexts),
            self._server.email,
            self._server.password,
            version,
            accuracy,
            time.monotonic() - began,
        )

    def stop(self) -> None:
        """Ends what was started."""
        self._server.stop()

    @property
    def log_file(self) -> Path:
        """Where Label Studio writes what it does."""
        return self._server.log_file

    def _model(self, pack: Pack, progress: Progress) -> tuple[str, float]:
        known = list_versions(self._settings.models_path, TASK)
        if known:
            return known[0].version, known[0].metrics["accuracy"]
        cache = self._settings.cache_path / "embeddings"
        trained = train(pack, self._settings.models_path, mode="head", cache=cache, progress=progress)
        return trained.manifest.version, trained.metrics["accuracy"]


class _Background:
    """Label Studio starting in a thread of its own; its error is the waiter's."""

    def __init__(self, server: LabelStudioServer) -> None:
        self._server = server
        self._stage = "Label Studio starts"
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="label-studio-start", daemon=True)
        self._thread.start()

    def wait(self, progress: Progress) -> None:
        """Until it answers."""
        progress.start(0, "Label Studio starts (half a minute the first time)")
        while self._thread.is_alive():
            self._thread.join(0.25)
            progress.advance(0, self._stage)
        progress.finish()
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """Somebody else failed: it need not finish starting."""
        self._server.stop()

    def _run(self) -> None:
        try:
            self._server.start(self._tell)
        except Exception as error:  # noqa: BLE001 - the edge of a thread: the waiter raises it
            self._error = error

    def _tell(self, stage: str, _seconds: float) -> None:
        self._stage = stage
