"""The demo as a whole: Label Studio, the marketplace, the ML backend, the web app and the manager, with one task."""

import sys
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ml_backend.artefact import list_versions
from plugin.demo.market import VISITOR, DemoMarket
from plugin.demo.place import HomeLock, find_place
from plugin.demo.servers import SECONDS_BETWEEN_LOOKS, SECONDS_TO_START, Server, Tell, Watch, our_server
from plugin.demo.studio import StartingStudio
from plugin.demo.typed import typed_program
from plugin.demo.welcome import Ready, Standing, standing_of
from plugin.errors import PluginError
from plugin.labelstudio.server import LabelStudioServer
from plugin.settings import Settings
from plugin.wiring import Application
from round_manager.database.store import Store
from round_manager.labelstudio.connection import ConnectionOptions
from round_manager.loop.manager_record import last_pass
from round_manager.loop.supply import plan_recruits
from round_manager.models import RoundStatus
from round_manager.progress import Progress
from round_manager.services.context import ServiceContext
from round_manager.services.label_studio import connect_task, push_task
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import create_task, find_task
from templates import Pack, find_pack

TASK = "sentiment"
EMAIL = "owner@example.com"
SECONDS_BETWEEN_PASSES = 2
# A round is small here, and models must be measured on more than a handful of rows.
HELD_OUT_SHARE = 0.3
SECONDS_TO_POST = 240.0


@dataclass(frozen=True)
class DemoTerms:
    """How large a demo is: validated fooling examples that end a round, and for a crowd of how many the quiz is open.

    `mode` is how its models are trained; `last_round` is the last one that opens by itself, None is no end.
    """

    examples: int
    mode: str
    recruits: int = 0
    last_round: int | None = None


class Demo:
    """Everything that the demo runs; `prepare` starts it, `stop` ends it."""

    def __init__(self, app: Application, port: int, terms: DemoTerms) -> None:
        self._place = find_place(app.settings, port)
        self._clock = app.clock
        self._terms = terms
        folder = self._place.home / "label-studio"
        folder.mkdir(exist_ok=True)
        token = self._place.settings.label_studio_token
        self._studio = LabelStudioServer(folder, port, EMAIL, self._place.password, token)
        self._servers: list[Server] = []
        self.pack = demo_pack(terms.examples, self._place.settings.templates_path)

    @property
    def settings(self) -> Settings:
        """What its servers run with."""
        return self._place.settings

    @property
    def app(self) -> Application:
        """The application with the demo's own settings."""
        return Application(self.settings, clock=self._clock)

    @property
    def market(self) -> DemoMarket:
        """Its marketplace, as that one's owner."""
        return DemoMarket(self._place, self._clock)

    def prepare(self, progress: Progress) -> Ready:
        """Starts and fills everything; what takes longest runs beside the rest."""
        began = time.monotonic()
        # Before anything is changed.
        self._lock = HomeLock(self._place.home)
        self._studio.end_leftover()
        self._studio.check()
        starting = StartingStudio(self._studio)
        try:
            version = self._model(progress)
            self._place = self.market.open_account(self._place, self.pack.spec.budget.task_cents)
            backend, web, crowd, manager = self._servers = self._made_servers()
            with self.app.open_store(upgrade=True) as store:
                self._open_round(store, version)
                for server in (crowd, backend, web):
                    server.start()
                for server in (crowd, backend, web):
                    server.wait(progress)
                self._recruit(store)
                starting.wait(progress)
                project = self._fill(store, progress)
                manager.start()
                self._wait_for_a_pass(store, manager, progress)
                standing = standing_of(store, TASK, self._clock)
        except BaseException:
            starting.give_up()
            raise
        return self._ready(project, standing, time.monotonic() - began)

    def watch(self, tell: Tell) -> Watch:
        """Looks after what runs, and tells of deaths."""
        return Watch(self._studio, self._servers, tell)

    def stop(self) -> None:
        """Ends what was started: the manager first, so that it misses nobody."""
        for server in reversed(self._servers):
            server.stop()
        self._studio.stop()

    def _ready(self, project: int, standing: Standing, seconds: float) -> Ready:
        settings = self.settings
        known = {one.version: one.metrics["accuracy"] for one in list_versions(settings.models_path, TASK)}
        # The newest version need not be the one that answers.
        version = next(one for one in (*standing.versions, *known) if one in known)
        return Ready(
            url=f"{self._studio.url}/projects/{project}/data",
            project=project,
            tasks=len(self.pack.contexts),
            email=self._studio.email,
            password=self._studio.password,
            version=version,
            accuracy=known[version],
            backend=f"{settings.ml_backend_url}/tasks/{TASK}",
            marketplace=settings.crowd_url,
            invitation=self.market.invite(VISITOR),
            archives=settings.archives_location,
            config=str(self._place.config),
            home=str(self._place.home),
            seconds=seconds,
            task=TASK,
            standing=standing,
            program=typed_program("outfox"),
            python=typed_program(Path(sys.executable).name),
        )

    def _made_servers(self) -> list[Server]:
        place, settings = self._place, self.settings
        last = ["--rounds", str(self._terms.last_round)] if self._terms.last_round else []
        return [
            # It serves every task, but only this one has to answer before the demo is ready.
            our_server(place, "ml-backend", url=f"{settings.ml_backend_url}/tasks/{TASK}"),
            our_server(place, "serve", url=settings.web_url),
            our_server(place, "marketplace", url=settings.crowd_url),
            our_server(place, "manage", "--every", str(SECONDS_BETWEEN_PASSES), "--mode", self._terms.mode, *last),
        ]

    def _model(self, progress: Progress) -> str:
        """The newest version; trained where there is none."""
        known = list_versions(self.settings.models_path, TASK)
        if known:
            return known[0].version
        progress.start(0, "Loading what trains models")
        # Only now: it takes seconds, in which Label Studio starts already.
        from ml_backend.training import train

        progress.finish()
        cache = self.settings.cache_path / "embeddings"
        trained = train(self.pack, self.settings.models_path, mode=self._terms.mode, cache=cache, progress=progress)
        return trained.manifest.version

    def _open_round(self, store: Store, version: str) -> None:
        """The task, and its first round open; later ones the manager opens."""
        with store.write() as session:
            task = create_task(session, self.pack, now=self._clock.now())
            begun = any(one.status is not RoundStatus.DRAFT for one in list_rounds(session, task))
        if not begun:
            opening = self.app.round_opening(store, timeout=SECONDS_TO_START)
            opening.open(TASK, (), who=self.app.actor.name, why=f"the demo, with {version} as the newest model")

    def _recruit(self, store: Store) -> None:
        """Places in the quiz for a whole crowd, where the round's own need is for fewer people."""
        if not self._terms.recruits:
            return
        services = self.app.crowd_services(store, self.app.crowd())
        with store.read() as session:
            task = find_task(session, TASK)
        services.access.qualification(task)
        with store.write() as session:
            plan_recruits(session, task, services.crowd, self._terms.recruits, now=self._clock.now())
        sent = services.poster.run()
        if sent.problem:
            raise PluginError(f"the quiz cannot be posted: {sent.problem}")

    def _fill(self, store: Store, progress: Progress) -> int:
        """The project for writers."""
        progress.start(0, "The sentiment task goes into Label Studio")
        settings = self.settings
        app = self.app
        context, label_studio = ServiceContext(store, app.clock), app.label_studio()
        options = ConnectionOptions(settings.signing_secrets(), settings.ml_backend_url, None, settings.web_url)
        connected = connect_task(context, app.actor, label_studio, TASK, options)
        push_task(context, label_studio, TASK)
        progress.finish()
        return connected.projects["create"]

    def _wait_for_a_pass(self, store: Store, manager: Server, progress: Progress) -> None:
        """Until the manager has done what there was to do, and posted what an open round needs."""
        progress.start(0, "The manager looks after the round")
        since, deadline = self._clock.now(), time.monotonic() + SECONDS_TO_POST
        while not _passed(store, since):
            manager.check_start(deadline)
            progress.advance(0, "")
            time.sleep(SECONDS_BETWEEN_LOOKS)
        progress.finish()


def demo_pack(examples: int, own_folder: Path) -> Pack:
    """The sentiment task, the home's own if it has one, with rounds that end so early that one can watch it."""
    pack = find_pack(TASK, own_folder)
    rounds = pack.spec.rounds.model_copy(update={"target_fooling": examples, "held_out_share": HELD_OUT_SHARE})
    # Nobody but the visitor writes in the demo's Label Studio, and who watches should not have to wait.
    work = pack.spec.work.model_copy(update={"label_studio_minutes": 0})
    return replace(pack, spec=pack.spec.model_copy(update={"rounds": rounds, "work": work}))


def _passed(store: Store, since: datetime) -> bool:
    with store.read() as session:
        last = last_pass(session)
    return last is not None and last.ran_at >= since
