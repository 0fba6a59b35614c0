"""The demo: a real Label Studio with the sentiment task in it, and a model that answers whoever writes there."""

import fcntl
import os
import sys
import threading
import time
from dataclasses import dataclass, replace

from ml_backend.artefact import list_versions
from ml_backend.predictor import load_predictor
from ml_backend.registry.registry import open_registry
from ml_backend.training import Progress, train
from plugin.child import Child, is_up
from plugin.errors import PluginError
from plugin.labelstudio.connecting import Wishes, connect
from plugin.labelstudio.pushing import push
from plugin.labelstudio.remote import RemoteStudio
from plugin.labelstudio.server import HOST, LabelStudioServer
from plugin.operator import operator_name
from plugin.round_opening import RoundOpening
from plugin.serving import free_port
from plugin.settings import PREFIX, Settings, stored_secret
from round_manager.clock import SystemClock
from round_manager.store import Store, open_store
from round_manager.tasks import create_task
from templates import BUILT_IN, Pack, load_pack

TASK = "sentiment"
EMAIL = "owner@example.com"
PASSWORD_BYTES = 8
TOKEN_BYTES = 20
LOCK = "demo.lock"
SECONDS_TO_START = 120.0
SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Ready:
    """A demo that can be used: where, by whom, with which model, and how long it took to get there."""

    url: str
    project: int
    tasks: int
    email: str
    password: str
    version: str
    accuracy: float
    backend: str
    seconds: float


class Demo:
    """Everything that the demo runs; `prepare` starts it, `stop` ends it."""

    def __init__(self, settings: Settings, port: int) -> None:
        home = settings.make_home()
        folder = home / "label-studio"
        folder.mkdir(exist_ok=True)
        # Kept, so that the second start finds the first one's user.
        self._studio = LabelStudioServer(
            folder,
            port,
            EMAIL,
            stored_secret(home / "label-studio-password", PASSWORD_BYTES),
            stored_secret(home / "label-studio-token", TOKEN_BYTES),
        )
        self._settings = replace(
            settings,
            label_studio_url=self._studio.url,
            label_studio_token=self._studio.token,
            ml_backend_url=f"http://{HOST}:{free_port()}",
            web_url=f"http://{HOST}:{free_port()}",
        )
        self._backend = self._server(self._settings.ml_backend_url, "ml-backend", "--tasks", TASK)
        self._web = self._server(self._settings.web_url, "serve")

    def prepare(self, progress: Progress) -> Ready:
        """Starts and fills everything; what takes longest runs beside the rest."""
        began = time.monotonic()
        # Before anything is changed.
        self._take_home()
        self._studio.check()
        starting = _Background(self._studio)
        try:
            pack = load_pack(BUILT_IN / TASK)
            version, accuracy = self._model(pack, progress)
            with open_store(self._settings.database, upgrade=True) as store:
                self._open_round(store, pack, version)
                self._backend.start()
                self._web.start()
                starting.wait(progress)
                _wait_until_up(self._backend, self._settings.ml_backend_url, progress)
                _wait_until_up(self._web, self._settings.web_url, progress)
                project, tasks = self._fill(store, pack, progress)
        except BaseException:
            starting.give_up()
            raise
        return Ready(
            f"{self._studio.url}/projects/{project}/data",
            project,
            tasks,
            self._studio.email,
            self._studio.password,
            version,
            accuracy,
            f"{self._settings.ml_backend_url}/tasks/{TASK}",
            time.monotonic() - began,
        )

    def stop(self) -> None:
        """Ends what was started."""
        for server in (self._backend, self._web, self._studio):
            server.stop()

    def _take_home(self) -> None:
        """This home is this demo's until the process ends."""
        self._lock = (self._settings.home_path / LOCK).open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            home = self._settings.home_path
            raise PluginError(f"a demo runs in {home} already; end it first, or choose another --home") from error

    def _model(self, pack: Pack, progress: Progress) -> tuple[str, float]:
        known = list_versions(self._settings.models_path, TASK)
        if known:
            return known[0].version, known[0].metrics["accuracy"]
        cache = self._settings.cache_path / "embeddings"
        trained = train(pack, self._settings.models_path, mode="head", cache=cache, progress=progress)
        return trained.manifest.version, trained.metrics["accuracy"]

    def _open_round(self, store: Store, pack: Pack, version: str) -> None:
        clock, place = SystemClock(), self._settings.registry_place
        with store.write() as session:
            create_task(session, pack, now=clock.now())
        registry = open_registry(place, self._settings.cache_path / "models")
        opening = RoundOpening(store, registry, place, load_predictor, clock, SECONDS_TO_START)
        # A round that an earlier demo opened keeps its model.
        opening.open(TASK, (), who=operator_name(), why=f"the demo, with {version} as the newest model")

    def _fill(self, store: Store, pack: Pack, progress: Progress) -> tuple[int, int]:
        """The project for writers, and how many tasks it holds."""
        progress.start(0, "The sentiment task goes into Label Studio")
        settings, clock = self._settings, SystemClock()
        studio = RemoteStudio(settings.label_studio_url, settings.label_studio_token)
        wishes = Wishes(settings.signing_secrets(), settings.ml_backend_url, None, settings.web_url)
        connected = connect(store, studio, pack, wishes, clock)
        push(store, studio, TASK, clock)
        progress.finish()
        return connected.projects["create"], len(pack.contexts)

    def _server(self, url: str, name: str, *arguments: str) -> Child:
        settings, home = self._settings, self._settings.home_path
        chosen = {
            f"{PREFIX}HOME": str(home),
            f"{PREFIX}LABEL_STUDIO_URL": settings.label_studio_url,
            f"{PREFIX}LABEL_STUDIO_TOKEN": settings.label_studio_token,
            f"{PREFIX}ML_BACKEND_URL": settings.ml_backend_url,
            f"{PREFIX}ML_BACKEND_AUTH": "",
            f"{PREFIX}WEB_URL": settings.web_url,
        }
        command = [sys.executable, "-c", "from plugin.cli import main; main()", name]
        command += ["--port", url.rpartition(":")[2], *arguments]
        return Child(command, {**os.environ, **chosen}, home, home / f"{name}.log")


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


def _wait_until_up(server: Child, url: str, progress: Progress) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    progress.start(0, f"{server.log_file.stem} starts")
    while not is_up(url):
        if not server.lives or time.monotonic() > deadline:
            raise PluginError(f"{server.log_file.stem} does not come up; the end of its log:\n{server.last_words()}")
        progress.advance(0, "")
        time.sleep(SECONDS_BETWEEN_LOOKS)
    progress.finish()
