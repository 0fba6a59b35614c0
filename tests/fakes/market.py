"""The builder of marketplaces for tests: a real market with a requester who has money, in process or over HTTP."""

import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3
from botocore.config import Config
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import make_url, select
from sqlalchemy.orm import Session
from werkzeug.serving import WSGIRequestHandler, make_server

from common.clock import Clock, SystemClock
from mturk.marketplace import assignments, hits, people, worker_actions
from mturk.marketplace.api.app import RequesterApi
from mturk.marketplace.destinations import LOOPBACK, QueueNetworks
from mturk.marketplace.hits import TypeTerms
from mturk.marketplace.market import Market, open_market
from mturk.marketplace.people import KeyPair
from mturk.marketplace.questions import QuestionPage
from mturk.marketplace.site.app import worker_site
from mturk.marketplace.tables.people import Message, Requester, Worker
from mturk.marketplace.tables.work import Assignment, Hit, HitType
from tests.fakes.clock import SettableClock
from tests.fakes.market_pages import csrf

DEPOSIT_CENTS = 1_000_000
SITE = "http://127.0.0.1:7500"
PAGE = "http://127.0.0.1:9/task?part=3"
TITLE = "Fool the model"
# Queues in tests are on this machine.
LOOPBACK_QUEUES = QueueNetworks(LOOPBACK)


class MarketWorld:
    """A market with one requester who has money, and what requesters and workers do in it."""

    def __init__(self, market: Market, *, deposit_cents: int = DEPOSIT_CENTS) -> None:
        self.market = market
        self.requester, self.key = self.make_requester("Lab", deposit_cents)
        self._sites: dict[str, Flask] = {}

    @property
    def now(self) -> datetime:
        return self.market.now()

    def make_requester(self, name: str, deposit_cents: int = DEPOSIT_CENTS) -> tuple[Requester, KeyPair]:
        """Add money and an access key to a requester, who is created if needed."""
        with self.market.write() as session:
            requester = people.find_requester(session, name) or people.add_requester(session, name, self.now)
            key = people.add_key(session, requester, self.now)
            if deposit_cents:
                people.deposit(session, requester, deposit_cents, self.now)
        return requester, key

    def make_worker(self, name: str = "Ann", *, country: str = "US", adult: bool = True) -> Worker:
        """Add a worker."""
        with self.market.write() as session:
            return people.add_worker(session, name, self.now, country=country, adult=adult)

    def post(
        self,
        title: str = TITLE,
        *,
        cents: int = 25,
        places: int = 1,
        seconds: int = 600,
        lifetime: int = 5 * 86_400,
        auto_approve: int = 7 * 86_400,
        requirements: list[dict[str, Any]] | None = None,
        description: str = "Write a sentence.",
        keywords: str = "text, writing,",
        page_url: str = PAGE,
        frame_height: int = 0,
    ) -> Hit:
        """Post a HIT with this many assignments."""
        terms = TypeTerms(title, description, keywords, cents, seconds, auto_approve, requirements or [])
        with self.market.write() as session:
            return hits.create(
                session,
                hits.find_or_create_type(session, self.requester, terms),
                QuestionPage(page_url, frame_height),
                "<ExternalQuestion/>",
                max_assignments=places,
                lifetime_seconds=lifetime,
                annotation=None,
                now=self.now,
            )

    def hit(self, hit_id: str) -> Hit:
        """Return a HIT as it is now."""
        with self.market.read() as session:
            return session.scalars(select(Hit).where(Hit.id == hit_id)).one()

    def group_of(self, type_id: str) -> str:
        """Return the group of a HIT type."""
        with self.market.read() as session:
            return session.scalars(select(HitType.group_id).where(HitType.id == type_id)).one()

    def accept(self, worker: Worker, type_id: str) -> Assignment:
        """Let the worker accept a HIT of this type."""
        group_id = self.group_of(type_id)
        with self.market.write() as session:
            return worker_actions.accept(session, worker, group_id, self.now)

    def submit(
        self, assignment: Assignment, answers: Mapping[str, str] | None = None, *, worker_id: str | None = None
    ) -> Assignment:
        """Submit an accepted assignment."""
        with self.market.write() as session:
            found = answers or {"answer": "yes"}
            return worker_actions.submit(session, assignment.id, found, self.now, worker_id=worker_id)

    def work(self, worker: Worker, type_id: str, answers: Mapping[str, str] | None = None) -> Assignment:
        """Let the worker accept and submit a HIT of this type."""
        return self.submit(self.accept(worker, type_id), answers)

    def return_assignment(self, worker: Worker, assignment: Assignment) -> None:
        """Let the worker return an assignment."""
        with self.market.write() as session:
            worker_actions.return_assignment(session, worker, assignment.id, self.now)

    def assignment(self, assignment_id: str) -> Assignment:
        """Return an assignment as it is now."""
        with self.market.read() as session:
            return session.scalars(select(Assignment).where(Assignment.id == assignment_id)).one()

    def approve(self, assignment_id: str, feedback: str = "") -> None:
        """Approve a submitted assignment."""
        with self.market.write() as session:
            assignments.approve(session, *_with_hit(session, assignment_id), self.now, feedback)

    def reject(self, assignment_id: str, feedback: str) -> None:
        """Reject a submitted assignment."""
        with self.market.write() as session:
            assignments.reject(session, *_with_hit(session, assignment_id), self.now, feedback)

    def bonus(self, assignment_id: str, cents: int, reason: str) -> None:
        """Pay a bonus for an assignment."""
        with self.market.write() as session:
            assignment, hit = _with_hit(session, assignment_id)
            assignments.send_bonus(session, hit, assignment, str(assignment.worker_id), cents, reason, self.now)

    def message(self, worker: Worker, subject: str, text: str) -> None:
        """Send a message to a worker."""
        with self.market.write() as session:
            requester_id, worker_id = self.requester.id, worker.id
            session.add(
                Message(requester_id=requester_id, worker_id=worker_id, subject=subject, text=text, sent_at=self.now)
            )

    def link(self, worker: Worker, life: timedelta = people.INVITATION_LIFE) -> str:
        """Return the path of a new sign-in link."""
        with self.market.write() as session:
            return f"/join/{people.create_link(session, worker.id, self.now, life)}"

    def site(self, public_url: str = SITE) -> Flask:
        """Return the worker site."""
        if public_url not in self._sites:
            self._sites[public_url] = worker_site(self.market, public_url)
        return self._sites[public_url]

    def sign_in(self, worker: Worker) -> FlaskClient:
        """Return a browser in which the worker is signed in."""
        browser = self.site().test_client()
        link = self.link(worker)
        response = browser.post(link, data={"csrf": csrf(browser.get(link).text)})
        assert response.status_code == 303, response.text
        return browser


class StillWorld(MarketWorld):
    """A market whose time only passes when a test says so."""

    def __init__(self, market: Market, clock: SettableClock, *, deposit_cents: int = DEPOSIT_CENTS) -> None:
        self.clock = clock
        super().__init__(market, deposit_cents=deposit_cents)

    def advance(self, **step: float) -> None:
        """Let time pass."""
        self.clock.advance(timedelta(**step))


def new_market(url: str, clock: Clock) -> Market:
    """Open a market at a database URL; a new SQLite file is a copy, because creating the tables takes longer."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        file = Path(str(parsed.database))
        if not file.exists():
            file.write_bytes(_market_without_rows())
    return open_market(url, clock)


@cache
def _market_without_rows() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "marketplace.db"
        open_market(f"sqlite:///{file}", SystemClock()).close()
        return file.read_bytes()


@contextmanager
def open_world(url: str, *, deposit_cents: int = DEPOSIT_CENTS) -> Iterator[StillWorld]:
    """Open a market at a database URL, with time standing still."""
    clock = SettableClock()
    with new_market(url, clock) as market:
        yield StillWorld(market, clock, deposit_cents=deposit_cents)


class ShiftedClock:
    """The system clock plus a shift: it never stands still, because requests are signed with the real time."""

    def __init__(self) -> None:
        self.shift = timedelta()

    def now(self) -> datetime:
        """Return the shifted time."""
        return SystemClock().now() + self.shift

    def advance(self, step: timedelta) -> datetime:
        """Let time pass; return the new time."""
        self.shift += step
        return self.now()


class MarketServer(MarketWorld):
    """A market served over HTTP on loopback; use it as a context manager.

    The market's time is `clock`; signatures are checked at the system's time, so that an unmodified client keeps
    working after the clock was moved. `app` creates another WSGI application than the API from the market and the URL.
    """

    def __init__(self, database: str | Path, *, deposit_cents: int = DEPOSIT_CENTS, app: Any = None) -> None:
        url = database if isinstance(database, str) else f"sqlite:///{database}"
        self.clock = ShiftedClock()
        clock: Clock = self.clock
        super().__init__(new_market(url, clock), deposit_cents=deposit_cents)
        self._make_app = app or (
            lambda market, url: RequesterApi(market, url, queues=LOOPBACK_QUEUES, signing_time=SystemClock().now)
        )
        self.url = ""

    def client(self, key: KeyPair | None = None, **options: Any) -> Any:
        """Return an unmodified boto3 client without retries; options go into its Config."""
        key = key or self.key
        settings: dict[str, Any] = {"retries": {"total_max_attempts": 1}, **options}
        return boto3.client(
            "mturk",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=key.id,
            aws_secret_access_key=key.secret,
            config=Config(**settings),
        )

    def __enter__(self) -> Self:
        self._server = make_server("127.0.0.1", 0, _unavailable, threaded=True, request_handler=_QuietHandler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._server.app = self._make_app(self.market, self.url)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.market.close()


def _with_hit(session: Session, assignment_id: str) -> tuple[Assignment, Hit]:
    found = select(Assignment, Hit).join(Hit, Hit.id == Assignment.hit_id).where(Assignment.id == assignment_id)
    assignment, hit = session.execute(found).one()
    return assignment, hit


def _unavailable(_environ: Any, start_response: Any) -> list[bytes]:
    start_response("503 Service Unavailable", [])
    return []


class _QuietHandler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *arguments: Any) -> None:
        pass
