"""The servers that are loaded: a real `outfox serve` and `outfox ml-backend` on one database, with HITs to open."""

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import psutil  # type: ignore[import-untyped]
from sqlalchemy import func, select

from common.clock import SystemClock
from crowd.proof import sign_acceptance
from ml_backend.registry.registry import open_registry
from ml_backend.targets.loading import load_target
from ml_backend.training import train
from mturk.profile import PROOF_PARAMETER
from plugin.crowd import HitLinks
from plugin.server_process import free_port
from plugin.settings import Settings
from round_manager.database.columns import public_id
from round_manager.database.store import Store, open_store
from round_manager.models import Example, Hit, HitKind, HitStatus, Round
from round_manager.tasks.tasks import create_task, find_task
from templates import Pack, find_pack
from tests.e2e.plugin.web.work.stage import ROOT, Server
from tests.e2e.taught import give
from tests.fakes.round_opener import RoundOpener

TASK = "sentiment"
SECRET = "the-secret-of-links-tokens-and-verdicts"
KEY_SECRET = "the-secret-of-the-requesters-key"
MARKET = "http://market.example:7500"
HITS = 6_000
# Pages do not share contexts: there are more of them than HITs.
CONTEXTS = 8_000
# A model of few rows answers as fast as one of many.
EVERY = 4
SECONDS_TO_START = 60.0
HIT_TIME = timedelta(hours=2)


@dataclass
class LoadSite:
    """The running servers; every page that is opened takes a new HIT and a new worker."""

    settings: Settings
    store: Store
    web: Server
    backend: Server
    pack: Pack
    pages: Iterator[str]

    @property
    def port(self) -> int:
        """The port of the web app."""
        return self.web.port

    def serve_seconds(self) -> float:
        """Return the processor seconds of the web app's processes so far."""
        process = self.web._process
        if process is None:
            return 0.0
        parent = psutil.Process(process.pid)
        times = [one.cpu_times() for one in (parent, *parent.children(recursive=True))]
        return float(sum(one.user + one.system for one in times))

    def examples(self) -> int:
        """Return how many examples are stored."""
        with self.store.read() as session:
            return session.scalar(select(func.count()).select_from(Example)) or 0


@contextmanager
def load_site(home: Path, database: str, processes: int | None = None) -> Iterator[LoadSite]:
    """Run the servers on an empty database until the end of the block; `processes` are those of the web app."""
    home.mkdir(parents=True)
    ports = free_port(), free_port()
    settings = Settings(
        home=str(home),
        database_url=database,
        secret=SECRET,
        ml_backend_url=f"http://127.0.0.1:{ports[0]}",
        web_url=f"http://127.0.0.1:{ports[1]}",
        crowd_site_url=MARKET,
        crowd_key_id="AKLOAD",
        crowd_key_secret=KEY_SECRET,
        log_level="warning",
    )
    environment = {f"OUTFOX_{name.upper()}": str(value) for name, value in settings.model_dump().items()}
    environment = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    backend = Server(["ml-backend"], ports[0], environment, home / "ml-backend.log")
    number = [] if processes is None else ["--workers", str(processes)]
    web = Server(["serve", "--sync-every", "0", *number], ports[1], environment, home / "serve.log")
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings.database, upgrade=True))
        pack = _open_round(store, settings)
        pages = _page_addresses(settings, _add_hits(store))
        for server in (backend, web):
            stack.callback(server.stop)
            server.start()
        yield LoadSite(settings, store, web, backend, pack, pages)


def _open_round(store: Store, settings: Settings) -> Pack:
    """Create the task with many contexts, and open its round against a model that is trained now."""
    built_in = find_pack(TASK)
    rounds = built_in.spec.rounds.model_copy(update={"target_fooling": 1_000_000, "context_strategy": "in_order"})
    pack = replace(built_in, spec=built_in.spec.model_copy(update={"rounds": rounds}))
    first = built_in.contexts[0]
    pack.__dict__["contexts"] = tuple(
        replace(first, id=f"load-{number}", fields=dict.fromkeys(first.fields, f"Write about place {number}."))
        for number in range(CONTEXTS)
    )
    clock, place = SystemClock(), settings.registry_location
    model = train(built_in, settings.home_path / "trained", mode="head", rows=built_in.seed[::EVERY]).directory
    give(model, settings.models_path)
    with store.write() as session:
        create_task(session, pack, now=clock.now())
    registry = open_registry(place, settings.cache_path / "models")
    RoundOpener(store, registry, place, load_target, clock, SECONDS_TO_START).open(TASK, (model.name,))
    return pack


def _add_hits(store: Store) -> Sequence[Hit]:
    """Store HITs as if they had been posted."""
    now = SystemClock().now()
    with store.write() as session:
        task = find_task(session, TASK)
        round = session.scalars(select(Round).where(Round.task_id == task.id)).one()
        hits = [
            Hit(
                public_id=public_id(now),
                key=f"load-{number}",
                task_id=task.id,
                round_id=round.id,
                kind=HitKind.CREATE,
                status=HitStatus.ASSIGNABLE,
                marketplace="marketplace",
                external_id=f"H{number}",
                reward_cents=45,
                max_assignments=1,
                assignment_seconds=int(HIT_TIME.total_seconds()),
                created_at=now,
                posted_at=now,
            )
            for number in range(HITS)
        ]
        session.add_all(hits)
    return hits


def _page_addresses(settings: Settings, hits: Sequence[Hit]) -> Iterator[str]:
    """Yield the address of each page as the marketplace's frame has it, with the proof of acceptance."""
    links, now = HitLinks(settings.hit_pages, settings.signing_secrets()), SystemClock().now()
    for number, hit in enumerate(hits):
        told = {
            "assignmentId": f"AS{number}",
            "hitId": str(hit.external_id),
            "workerId": f"W{number}",
            "turkSubmitTo": f"{MARKET}/s/pass-{number}",
        }
        link = urlsplit(links.url(hit))
        signed = {**dict(parse_qsl(link.query)), **told}
        proof = sign_acceptance(signed, [KEY_SECRET], issued_at=now, expires_at=now + HIT_TIME)
        yield f"{link.path}?{urlencode({**signed, PROOF_PARAMETER: proof})}"
    raise RuntimeError(f"more than {HITS} pages are needed; raise HITS")


def sentences(seed: int) -> Iterator[str]:
    """Yield texts that differ from each other."""
    chance = random.Random(seed)
    words = sorted({word for row in find_pack(TASK).seed for word in row.fields["text"].split()})
    while True:
        yield " ".join(chance.sample(words, 14))
