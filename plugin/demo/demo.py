"""The demo: Label Studio, a marketplace, the ML backend, the web app and the manager, with one task."""

import sys
import time
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path

from common.clock import Clock
from common.progress import Progress, show_waiting
from ml_backend.artefact import list_versions
from mturk.marketplace.services import accounts, workers
from plugin.demo.colleagues import COLLEAGUES, TITLE
from plugin.demo.gold import add_gold, gold_file
from plugin.demo.home import DemoHome, HomeLock, find_home
from plugin.demo.servers import (
    POLL_SECONDS,
    SECONDS_TO_START,
    LabelStudioStart,
    Report,
    Server,
    Watch,
    demo_server,
)
from plugin.demo.welcome import DemoStatus, Ready, demo_status, shell_program
from plugin.errors import PluginError
from plugin.hints import set_program
from plugin.labelstudio.server import LabelStudioServer
from plugin.marketplace import marketplace_config
from plugin.settings import Settings
from plugin.wiring import Application
from round_manager.database.store import Store
from round_manager.labelstudio.connection import ConnectionOptions
from round_manager.labelstudio.port import BackendAuth
from round_manager.models import RoundStatus
from round_manager.services.context import ServiceContext
from round_manager.services.hits import recruit_workers
from round_manager.services.label_studio import connect_task, push_task
from round_manager.services.manager_runs import last_pass
from round_manager.services.rounds import open_round
from round_manager.services.tasks import create_task, list_rounds
from round_manager.services.workers import mark_simulated
from templates import Pack, find_pack

TASK = "sentiment"
EMAIL = "owner@example.com"
ACCOUNT = "Outfox demo"
VISITOR = "Demo visitor"
SECONDS_BETWEEN_PASSES = 2
# Rounds are small, and models must be measured on more than a handful of rows.
HELD_OUT_SHARE = 0.3
SECONDS_TO_POST = 240.0
VISIT_MINUTES = {"create_minutes": 6, "validate_minutes": 5, "quiz_minutes": 5}


@dataclass(frozen=True)
class DemoOptions:
    """The size of a demo: the verified fooling examples that end a round, and how many workers the quiz is open for.

    Workers on the marketplace whose names do not begin with `crowd_title` are added to them.
    `mode` is how models are trained; `last_round` is the last round that opens automatically, None for no limit. With
    `colleagues`, rounds have the terms of a short visit.
    """

    examples: int
    mode: str
    recruits: int = 0
    last_round: int | None = None
    colleagues: bool = False
    crowd_title: str = TITLE


class DemoFailed(PluginError):
    """A part of the demo cannot do its work."""


class DemoMarketplace:
    """The marketplace behind a demo; no real money is involved."""

    def __init__(self, home: DemoHome, clock: Clock) -> None:
        self._url = home.settings.crowd_url
        self._config = marketplace_config(home.settings, clock, public_url=self._url)

    def open_account(self, home: DemoHome, cents: int) -> DemoHome:
        """Return the home with an access key of the requester's account; create the account if needed."""
        key_id, secret = home.settings.crowd_key_id, home.settings.crowd_key_secret
        with self._config.open() as market:
            if accounts.is_valid_key(market, ACCOUNT, key_id, secret):
                accounts.set_web_app(market, ACCOUNT, home.settings.web_url)
                return home
            opened = accounts.open_account(market, ACCOUNT, deposit_cents=cents)
            accounts.set_web_app(market, ACCOUNT, home.settings.web_url)
        return home.with_key(opened.key.id, opened.key.secret)

    def invite(self, name: str) -> workers.InvitedWorker:
        """Return the worker of this name with a sign-in link; create the worker if needed."""
        with self._config.open() as market:
            known = [one.worker_id for one in workers.list_workers(market) if one.name == name]
            if known:
                return workers.invite_again(market, known[0], self._url)
            return workers.invite_workers(market, [name], self._url)[0]

    def count_others(self, title: str) -> int:
        """Return the number of workers whose names do not begin like this."""
        with self._config.open() as market:
            return sum(not one.name.startswith(title) for one in workers.list_workers(market))


class Demo:
    """Everything that the demo runs; `prepare` starts it, `stop` stops it."""

    def __init__(self, app: Application, port: int, options: DemoOptions) -> None:
        self._home = find_home(app.settings, port)
        set_program(["--config", str(self._home.config)])
        self._clock = app.clock
        self._options = options
        folder = self._home.folder / "label-studio"
        folder.mkdir(exist_ok=True)
        token = self._home.settings.label_studio_token
        self._studio = LabelStudioServer(folder, port, EMAIL, self._home.password, token)
        self._servers: list[Server] = []
        self.pack = demo_pack(options.examples, self._home.settings.templates_path, is_visit=options.colleagues)

    @property
    def settings(self) -> Settings:
        """The settings of its servers."""
        return self._home.settings

    @property
    def app(self) -> Application:
        """The application with the demo's own settings."""
        return Application(self.settings, clock=self._clock)

    @property
    def market(self) -> DemoMarketplace:
        """Its marketplace, with the rights of the marketplace's owner."""
        return DemoMarketplace(self._home, self._clock)

    @property
    def config(self) -> Path:
        """The file with its settings."""
        return self._home.config

    def invite_simulated(self, name: str) -> str:
        """Return a sign-in link for a worker who is marked as simulated wherever people see their work."""
        invited = self.market.invite(name)
        with self.app.services() as services:
            mark_simulated(services, self.app.actor, self.settings.crowd_name, {invited.worker_id: name})
        return invited.link

    def prepare(self, progress: Progress) -> Ready:
        """Start and fill everything; what takes longest runs in parallel."""
        began = time.monotonic()
        # Locked before anything is changed.
        self._lock = HomeLock(self._home.folder)
        self._studio.end_leftover()
        self._studio.check()
        starting = LabelStudioStart(self._studio)
        try:
            version = self._model(progress)
            self._home = self.market.open_account(self._home, self.pack.spec.budget.task_cents)
            backend, web, crowd, manager = self._servers = self._made_servers()
            with self.app.open_store(upgrade=True) as store:
                self._open_round(store, version)
                self._add_gold(store)
                for server in (crowd, backend, web):
                    server.start()
                for server in (crowd, backend, web):
                    server.wait(progress)
                self._recruit(store)
                starting.wait(progress)
                project = self._fill(store, progress)
                self._started_at = self._clock.now()
                manager.start()
                standing = demo_status(ServiceContext(store, self._clock), TASK)
        except BaseException:
            starting.cancel()
            raise
        return self._ready(project, standing, time.monotonic() - began)

    def wait_for_manager(self, progress: Progress) -> None:
        """Wait until the manager has finished a pass, and so has posted the HITs of the round."""
        progress.start(0, "Posting the first paid work (HITs) on the marketplace")
        deadline, manager = time.monotonic() + SECONDS_TO_POST, self._servers[-1]
        with self.app.services() as services:
            while not _has_passed(services, self._started_at):
                manager.check_start(deadline)
                progress.advance(0, "")
                time.sleep(POLL_SECONDS)
        progress.finish()

    def watch(self, report: Report) -> Watch:
        """Return what restarts servers that exit, and reports it."""
        return Watch(self._studio, self._servers, report)

    def stop(self, report: Report = lambda _: None) -> None:
        """Stop everything, the manager first, because it uses the others; `report` gets a message for each."""
        for server in reversed(self._servers):
            if server.wanted:
                report(f"stopping {server.name} …")
            server.stop()
        if self._studio.is_running:
            report("stopping Label Studio …")
        self._studio.stop()

    def _ready(self, project: int, standing: DemoStatus, seconds: float) -> Ready:
        settings = self.settings
        known = {one.version: one.metrics["accuracy"] for one in list_versions(settings.models_path, TASK)}
        # The newest version is not always the target.
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
            invitation=self.market.invite(VISITOR).link,
            archives=settings.archives_location,
            config=str(self._home.config),
            home=str(self._home.folder),
            seconds=seconds,
            task=TASK,
            standing=standing,
            program=shell_program("outfox"),
            python=shell_program(Path(sys.executable).name),
            colleagues=COLLEAGUES if self._options.colleagues else 0,
        )

    def _made_servers(self) -> list[Server]:
        home, settings = self._home, self.settings
        last = ["--rounds", str(self._options.last_round)] if self._options.last_round else []
        return [
            # It serves every task, but only this one must respond before the demo is ready.
            demo_server(home, "ml-backend", url=f"{settings.ml_backend_url}/tasks/{TASK}", auth=settings.backend_auth),
            demo_server(home, "serve", url=settings.web_url),
            demo_server(home, "marketplace", url=settings.crowd_url),
            demo_server(home, "manage", "--every", str(SECONDS_BETWEEN_PASSES), "--mode", self._options.mode, *last),
        ]

    def _model(self, progress: Progress) -> str:
        """Return the newest version; train one if necessary."""
        known = list_versions(self.settings.models_path, TASK)
        if known:
            return known[0].version
        # Imported late: it takes seconds, in which Label Studio is starting already.
        training = show_waiting(progress, "Loading PyTorch", lambda: import_module("ml_backend.training"))
        cache = self.settings.cache_path / "embeddings"
        trained = training.train(
            self.pack, self.settings.models_path, mode=self._options.mode, cache=cache, progress=progress
        )
        return str(trained.manifest.version)

    def _open_round(self, store: Store, version: str) -> None:
        """Create the task and open its first round; the manager opens later ones."""
        context = ServiceContext(store, self._clock)
        create_task(context, self.app.actor, self.pack)
        if all(one.round.status is RoundStatus.DRAFT for one in list_rounds(context, TASK)):
            models = self.app.model_deployment(timeout=SECONDS_TO_START)
            why = f"demo with {version}, the newest model"
            open_round(context, self.app.actor, TASK, models=models, reason=why)

    def _add_gold(self, store: Store) -> None:
        file = gold_file(self._home.folder, self.pack)
        add_gold(ServiceContext(store, self._clock), self.app.actor, file, self.pack)

    def _recruit(self, store: Store) -> None:
        """Post the quiz for all simulated workers and some people, who are more than the round needs."""
        if not self._options.recruits:
            return
        context = ServiceContext(store, self._clock)
        crowd = self.app.connected_crowd(context, self.app.crowd())
        people = self._options.recruits + self.market.count_others(self._options.crowd_title)
        sent = recruit_workers(context, self.app.actor, crowd, TASK, people)
        if sent.problem:
            raise DemoFailed(f"the quiz cannot be posted: {sent.problem}")

    def _fill(self, store: Store, progress: Progress) -> int:
        """Connect the task to Label Studio and fill its projects; return the id of the creation project."""
        progress.start(0, "Filling Label Studio with the sentiment task")
        settings = self.settings
        app = self.app
        context, label_studio = ServiceContext(store, app.clock), app.label_studio()
        auth = BackendAuth(*settings.backend_auth) if settings.backend_auth else None
        options = ConnectionOptions(settings.signing_secrets(), settings.ml_backend_url, auth, settings.web_url)
        connected = connect_task(context, app.actor, label_studio, TASK, options)
        push_task(context, app.actor, label_studio, TASK)
        progress.finish()
        return connected.projects["create"]


def demo_pack(examples: int, own_folder: Path, *, is_visit: bool = False) -> Pack:
    """Return the sentiment task, or the home's own version of it, with rounds short enough to watch.

    In a visit with simulated colleagues, everything that the visitor writes is validated, and work that they accepted
    and left does not hold up the round for long.
    """
    pack = find_pack(TASK, own_folder)
    rounds = pack.spec.rounds.model_copy(update={"target_fooling": examples, "held_out_share": HELD_OUT_SHARE})
    # Only the visitor writes in the demo's Label Studio, and should not have to wait.
    work = pack.spec.work.model_copy(update={"label_studio_minutes": 0, **(VISIT_MINUTES if is_visit else {})})
    validation = pack.spec.validation.model_copy(update={"sample_non_fooling": 1.0} if is_visit else {})
    terms = {"rounds": rounds, "work": work, "validation": validation}
    return replace(pack, spec=pack.spec.model_copy(update=terms))


def _has_passed(context: ServiceContext, since: datetime) -> bool:
    last = last_pass(context)
    return last is not None and last.ran_at >= since
