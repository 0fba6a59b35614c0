"""The three servers in this process, with people and work in them, and secrets that must stay secret."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from common.clock import SystemClock
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.market import open_market
from plugin.web.app import front_page, web_app, work_pages
from plugin.web.data_routes import data_pages
from plugin.web.submission_routes import submission_routes
from plugin.web.work.access import PageLimits
from plugin.wiring import Application
from round_manager.archive.storage import open_archives
from round_manager.database.store import open_store
from round_manager.labelstudio.projects import WEBHOOK_HEADER, webhook_secret
from round_manager.models import HitKind
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import create_token
from templates import find_pack
from tests.campaign import start_campaign, start_closed
from tests.conftest import PACKS
from tests.fakes import calls
from tests.fakes.market import LOOPBACK_QUEUES, SITE, MarketWorld
from tests.fakes.market_pages import csrf
from tests.fuzz.sent import LogWatch, Secrets
from tests.integration.plugin.web.work.work_site import SECRET, Page, WorkSite

TASK, FROZEN = "nli", "sentiment"
OTHER_WORKER = "A1OTHERWORKERSNAME"
OWNER_TOKEN = "5ec4e7a11abe15000000000000000000000cafe5"
INVITATION = "1nv17a710n-0f-the-project"
TYPED = "a perfectly private sentence"
PASSAGE = "Marie Curie discovered polonium and radium in Paris in 1898."
COOKIE = "outfox_worker"


@dataclass(frozen=True)
class World:
    """What requests are made of: applications, known ids by name, valid headers, sound bodies, and the secrets."""

    apps: dict[str, Any]
    routes: dict[str, Any]
    known: dict[str, tuple[str, ...]]
    # Valid headers by server and blueprint or endpoint; those of an empty name are for all others.
    headers: dict[tuple[str, str], tuple[dict[str, str], ...]]
    # JSON bodies by server and endpoint; forms of the site have `form` values.
    bodies: dict[tuple[str, str], tuple[Any, ...]]
    queries: dict[tuple[str, str], tuple[str, ...]]
    secrets: Secrets
    log: LogWatch
    key: Any = field(repr=False, default=None)


@contextmanager
def open_world(folder: Path) -> Iterator[World]:
    """Open the three servers on SQLite in a folder, until the end of the block."""
    home = folder / "planted-home-folder"
    home.mkdir(parents=True)
    url = f"sqlite:///{home / 'outfox.db'}"
    with open_store(url, upgrade=True) as store, LogWatch().watching() as log:
        closed = start_closed(store, FROZEN)
        closed.freeze(open_archives(str(home / "archives")))
        site = WorkSite(start_campaign(store, TASK, contexts=8, validation={"gold_rate": 0.0}), home)
        site.use_machine_clock()
        try:
            with open_market(f"sqlite:///{home / 'marketplace.db'}", SystemClock()) as market:
                yield _world(site, MarketWorld(market), home, log)
        finally:
            site.close()


def _world(site: WorkSite, market: MarketWorld, home: Path, log: LogWatch) -> World:
    seconds = count(0, 10)
    application = Application(site.settings, clock=site.campaign.clock)
    store, clock = application.lazy_store, application.clock
    # Time passes quickly for the limits on calls: refusals for speed would hide everything else.
    pages = (
        front_page(store),
        work_pages(application, PageLimits(lambda: float(next(seconds)))),
        data_pages(site.settings, store, clock),
        submission_routes(store, clock, application.submitted_files(), site.settings.archives_location),
    )
    web = web_app(store, application.attempt_intake(), [SECRET], pages=pages)
    site.web.exchange(web)
    # Rounds other than the open one are answered too.
    site.models.place(TASK, site.predictor)
    backend: Any = site.backend._app
    token = create_token(ServiceContext(site.campaign.store, clock), Actor("ada"), FROZEN, days=1, reason="fuzz").secret
    for author in (OTHER_WORKER, "AUTHOR2"):
        # By default, the text of an example names its author.
        site.campaign.add_example(author, fields=dict.fromkeys(site.campaign.spec.model_input, "A plain sentence."))
    opened = [site.open("W1"), site.open("V1", kind=HitKind.VALIDATE), site.open("Q1", kind=HitKind.QUIZ)]
    market_side = _MarketSide(market)
    worker_site = market.site()
    key = market.key
    return World(
        apps={
            "web": web,
            "ml_backend": backend,
            "marketplace": marketplace_app(
                market.market, public_url=SITE, queues=LOOPBACK_QUEUES, signing_time=SystemClock().now
            ),
        },
        routes={"web": web.url_map, "ml_backend": backend.url_map, "marketplace": worker_site.url_map},
        known={
            "task": (TASK, TASK, FROZEN, *PACKS),
            "name": ("manifest.json", "examples.csv", "examples.parquet", "work.js", "site.css", "front.css"),
            "number": ("1", "2"),
            "round_number": ("1", "2"),
            "item": ("0", "1", "2"),
            "hit": tuple(page.hit.public_id.hex for page in opened),
            **market_side.known,
        },
        headers={
            ("web", "work"): tuple(page.headers for page in opened),
            ("web", "data"): ({"Authorization": f"Bearer {token}"},),
            ("web", "webhook"): ({WEBHOOK_HEADER: webhook_secret([SECRET], TASK)},),
            ("ml_backend", ""): ({"Authorization": "Basic " + b64encode(b"web:pass").decode()},),
            ("marketplace", ""): market_side.headers,
        },
        bodies={**_web_bodies(opened), **_backend_bodies(), **market_side.bodies},
        queries={("web", "work.page"): tuple(_query(site, page) for page in opened)},
        secrets=Secrets(
            answered=[SECRET, str(home), OTHER_WORKER, key.secret, OWNER_TOKEN, INVITATION, market_side.other_login],
            logged=[token, *(page.setup["token"] for page in opened), market_side.login, market_side.link, TYPED],
        ),
        log=log,
        key=key,
    )


def _query(site: WorkSite, page: Page) -> str:
    told = {"assignmentId": f"AS-{page.hit.key}", "hitId": "H", "workerId": "W1", "turkSubmitTo": f"{SITE}/s/a"}
    return site.address(page.hit, **told).partition("?")[2]


def _web_bodies(opened: list[Page]) -> dict[tuple[str, str], tuple[Any, ...]]:
    create, validate, _quiz = opened
    written = {**create.written(TYPED), "active_ms": 900}
    label = validate.site.campaign.spec.label_names[0]
    judged = {"result": validate.result(label=label), "active_ms": 900}
    return {
        ("web", "work.draft"): (written,),
        ("web", "work.tries"): (written, create.fooling()),
        ("web", "work.hand-in"): (written, create.fooling()),
        ("web", "work.skip"): ({"reason": TYPED, "active_ms": 1, **create.mark()},),
        ("web", "work.report"): ({"text": TYPED},),
        ("web", "work.report_page"): ({"text": TYPED},),
        ("web", "work.judgement"): (judged,),
        ("web", "work.quiz"): ({"answers": [0, 1]},),
        ("web", "work.beat"): ({"active_ms": 5},),
        ("web", "attempts"): ({"tries": [{}]},),
        ("web", "webhook"): (_hook(),),
    }


def _hook() -> Any:
    return {
        "action": "ANNOTATION_CREATED",
        "project": {"id": 14, "title": "x", "invite_token": INVITATION},
        "annotation": {"result": [{"value": {"text": [TYPED]}}]},
    }


def _backend_bodies() -> dict[tuple[str, str], tuple[Any, ...]]:
    pack = find_pack(TASK)
    written = calls.writes(pack, TYPED)
    predict = [calls.predict(pack, written), calls.bulk(pack, 3), calls.predict(pack, written, template="validate")]
    qa = find_pack("qa")
    predict.append(calls.predict(qa, calls.selects(qa, PASSAGE, "polonium"), data={"passage": PASSAGE}))
    judged = {"fields": {"premise": "A day.", "hypothesis": TYPED}, "target": "neutral", "holder": "W1"}
    return {
        ("ml_backend", "predict"): tuple(predict),
        ("ml_backend", "setup"): (calls.setup(pack, OWNER_TOKEN),),
        ("ml_backend", "webhook"): (_hook(),),
        ("ml_backend", "judge"): (judged,),
    }


class _MarketSide:
    """A marketplace with HITs, a signed-in worker, and another one whose login must stay secret."""

    def __init__(self, world: MarketWorld) -> None:
        worker, other = world.make_worker("Ann"), world.make_worker("Bob")
        hits = [world.post(f"Fool the model {number}", places=50) for number in range(3)]
        held = world.accept(worker, hits[0].type_id)
        done = world.work(worker, hits[1].type_id)
        browser = world.sign_in(worker)
        self.login = _cookie(browser)
        self.other_login = _cookie(world.sign_in(other))
        self.link = world.link(worker).rpartition("/")[2]
        token = csrf(browser.get("/account").text)
        self.known = {
            "group_id": tuple(world.group_of(hit.type_id) for hit in hits),
            "assignment_id": (held.id, done.id),
            "token": (self.link,),
            "secret": ("s",),
            "HITId": tuple(hit.id for hit in hits),
            "HITTypeId": tuple(hit.type_id for hit in hits),
            "AssignmentId": (done.id, held.id),
            "WorkerId": (worker.id,),
            "WorkerIds": (worker.id,),
        }
        self.headers = ({"Cookie": f"{COOKIE}={self.login}"},)
        form = {"csrf": token, "others": "1", "assignmentId": held.id, "answer": TYPED}
        self.bodies = {("marketplace", "form"): (form, {"csrf": token}, {"assignmentId": held.id})}


def _cookie(browser: Any) -> str:
    found = browser.get_cookie(COOKIE)
    assert found is not None
    return str(found.value)
