"""Everything that a crowd worker's browser meets, for real: a marketplace with its site, an ML backend with a trained
model, and `outfox serve`, each on a separate address.

    with work_stage(folder) as stage:
        stage.open_task("sentiment", model=teach("sentiment"), work={"tries": 3})
        stage.post("sentiment", HitKind.CREATE)
        page.goto(stage.invite("Ada"))          # signs in; then accept a HIT on stage.market.url
        ...
        stage.collect()                         # what was handed in is read and confirmed
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import requests
from sqlalchemy import select

from common.clock import SystemClock
from ml_backend.registry.registry import open_registry
from ml_backend.targets.loading import load_target
from mturk.marketplace import people
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.market import Market
from mturk.marketplace.tables.people import Worker
from plugin.crowd import HitLinks
from plugin.server_process import free_port
from plugin.settings import Settings
from plugin.wiring import Application
from round_manager.crowd.hit_planning import HitRequest, plan_hits
from round_manager.database.store import Store, open_store
from round_manager.loop.quote import open_round_of
from round_manager.models import Attempt, Example, Hit, HitKind, WorkSession
from round_manager.services.context import ConnectedCrowd, ServiceContext
from round_manager.tasks.tasks import create_task, find_task
from templates import Pack, find_pack
from tests.e2e.taught import give
from tests.fakes.market import MarketServer
from tests.fakes.round_opener import RoundOpener

ROOT = Path(__file__).resolve().parents[5]
PROGRAM = "from plugin.cli import main; main()"
SECRET = "a-secret-that-signs-links-and-verdicts-in-tests"
SECONDS_TO_START = 120.0
SECONDS_BETWEEN_LOOKS = 0.1


@dataclass
class Server:
    """One of our commands as a separate process, always at the same address."""

    arguments: Sequence[str]
    port: int
    environment: dict[str, str] = field(repr=False)
    log: Path
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-c", PROGRAM, *self.arguments, "--port", str(self.port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + SECONDS_TO_START
        while not self._answers():
            assert self._process.poll() is None, self.log.read_text(encoding="utf-8")
            assert time.monotonic() < until, f"{self.arguments[0]} does not answer"
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def ensure(self) -> None:
        """Start it again if it does not answer."""
        if not self._answers():
            self.kill()
            self.start()

    def stop(self) -> None:
        """Stop it gracefully; do nothing if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all of its processes at once, as the kernel does when memory runs out."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, how)
            process.wait(SECONDS_TO_START)

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/health", timeout=5).ok
        except requests.RequestException:
            return False


@dataclass
class WorkStage:
    """The running servers and their data; `web` and `backend` can be stopped, killed and restarted at any time."""

    settings: Settings
    store: Store
    market: MarketServer
    web: Server
    backend: Server
    services: ConnectedCrowd
    clock: SystemClock = field(default_factory=SystemClock)
    _stale: bool = False

    def open_task(
        self,
        name: str,
        *,
        model: Path,
        contexts: int | None = None,
        **terms: dict[str, Any],
    ) -> Pack:
        """A task with a trained model and an open round, on changed terms such as `work={"tries": 3}`.

        The model is the version in the folder; it answers from the next HIT on that is posted.
        """
        built_in = find_pack(name)
        parts = {part: getattr(built_in.spec, part).model_copy(update=values) for part, values in terms.items()}
        pack = replace(built_in, spec=built_in.spec.model_copy(update=parts))
        pack.__dict__["contexts"] = built_in.contexts[:contexts]
        models, cache = self.settings.models_path, self.settings.cache_path
        give(model, models)
        with self.store.write() as session:
            create_task(session, pack, now=self.clock.now())
        place = self.settings.registry_location
        registry = open_registry(place, cache / "models")
        opening = RoundOpener(self.store, registry, place, load_target, self.clock, SECONDS_TO_START)
        opening.open(name, (model.name,), actor="tests", reason="a test")
        # The backend serves the tasks that have a model when it starts.
        self._stale = True
        return pack

    def post(self, name: str, kind: HitKind = HitKind.CREATE, *, hits: int = 1, assignments: int = 1) -> list[Hit]:
        """HITs of the task's open round, on the marketplace."""
        if self._stale:
            self.backend.stop()
            self.backend.start()
            self._stale = False
        now = self.clock.now()
        with self.store.write() as session:
            live = open_round_of(session, find_task(session, name))
            wish = HitRequest(kind, hits, assignments, now + timedelta(days=1))
            planned = plan_hits(session, live, wish, self.services.crowd, now=now)
        sent = self.services.poster.run()
        assert (sent.posted, sent.problem) == (hits, ""), sent
        with self.store.read() as session:
            return [session.get_one(Hit, one.id) for one in planned]

    def qualify_by_quiz(self, name: str) -> None:
        """From now on, HITs to write or check want the task's qualification."""
        with self.store.read() as session:
            task = find_task(session, name)
        self.services.access.qualification(task)

    def worker(self, name: str) -> Worker:
        """A new worker of the marketplace."""
        return self.market.make_worker(name)

    def invite(self, worker: "str | Worker") -> str:
        """Return the link that signs a worker in; a name alone creates a new worker."""
        who = self.worker(worker) if isinstance(worker, str) else worker
        with self.market.market.write() as session:
            return f"{self.market.url}/join/{people.create_link(session, who.id, self.market.clock.now())}"

    def link(self, hit: Hit) -> str:
        """Return the signed address of a HIT's page, without the marketplace's parameters."""
        return HitLinks(self.settings.hit_pages, self.settings.signing_secrets()).url(hit)

    def collect(self) -> int:
        """Read and confirm submitted work from the marketplace; return the number of new assignments."""
        return self.services.collector.run().works

    def examples(self) -> list[Example]:
        return self._all(Example)

    def tries(self) -> list[Attempt]:
        return self._all(Attempt)

    def sessions(self) -> list[WorkSession]:
        return self._all(WorkSession)

    def _all(self, kind: type[Any]) -> list[Any]:
        with self.store.read() as session:
            return list(session.scalars(select(kind).order_by(kind.id)))


@contextmanager
def work_stage(home: Path) -> Iterator[WorkStage]:
    """Run the stage, without tasks and HITs; the backend starts with the first task."""
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        market = stack.enter_context(MarketServer(home / "marketplace.db", app=_site))
        ports = free_port(), free_port()
        settings = Settings(
            home=str(home),
            secret=SECRET,
            ml_backend_url=f"http://127.0.0.1:{ports[0]}",
            ml_backend_auth="studio:not-secret",
            # Another host than the marketplace's, not only another port: browsers keep sites apart, as in real life.
            web_url=f"http://localhost:{ports[1]}",
            crowd_url=market.url,
            crowd_key_id=market.key.id,
            crowd_key_secret=market.key.secret,
        )
        app = Application(settings)
        store = stack.enter_context(open_store(settings.database, upgrade=True))
        chosen = {f"OUTFOX_{name.upper()}": str(value) for name, value in settings.model_dump().items()}
        environment = {**os.environ, **chosen, "PYTHONPATH": str(ROOT)}
        backend = Server(["ml-backend"], ports[0], environment, home / "ml-backend.log")
        web = Server(["serve", "--sync-every", "0"], ports[1], environment, home / "serve.log")
        stack.callback(backend.stop)
        stack.callback(web.stop)
        web.start()
        yield WorkStage(
            settings,
            store,
            market,
            web,
            backend,
            app.connected_crowd(ServiceContext(store, app.clock), app.crowd()),
        )


def _site(market: Market, url: str) -> Any:
    return marketplace_app(market, public_url=url, signing_time=SystemClock().now)
