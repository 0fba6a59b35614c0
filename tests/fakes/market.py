"""A real marketplace on loopback: its API over HTTP, its services in process, its clock in the test's hand."""

import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3
from botocore.config import Config
from werkzeug.serving import WSGIRequestHandler, make_server

from common.clock import SystemClock
from mturk.marketplace import people, worker_actions
from mturk.marketplace.api.app import RequesterApi
from mturk.marketplace.market import open_market
from mturk.marketplace.people import KeyPair
from mturk.marketplace.tables.people import Requester, Worker
from mturk.marketplace.tables.work import Assignment, HitType

DEPOSIT_CENTS = 1_000_000


class ShiftedClock:
    """The machine's clock, moved: requests are signed with the real time, so it never stands still."""

    def __init__(self) -> None:
        self.shift = timedelta()

    def now(self) -> datetime:
        """What time it is for the marketplace."""
        return SystemClock().now() + self.shift

    def advance(self, step: timedelta) -> datetime:
        """Let time pass; the new time."""
        self.shift += step
        return self.now()


class MarketServer:
    """A marketplace with one requester who has money; use it as a context manager.

    The market's time is `clock`; signatures are checked at the machine's own time, so that an unmodified client goes on
    working after the clock was moved. With `app`, that WSGI application is served instead of the bare API: it is made
    from the market and the address.
    """

    def __init__(self, database: str | Path, *, deposit_cents: int = DEPOSIT_CENTS, app: Any = None) -> None:
        url = database if isinstance(database, str) else f"sqlite:///{database}"
        self.clock = ShiftedClock()
        self.market = open_market(url, self.clock)
        self._make_app = app or (lambda market, url: RequesterApi(market, url, signing_time=SystemClock().now))
        self.requester: Requester
        self.key: KeyPair
        self.requester, self.key = self.make_requester("Lab", deposit_cents)
        self.url = ""

    def make_requester(self, name: str, deposit_cents: int = DEPOSIT_CENTS) -> tuple[Requester, KeyPair]:
        """Another requester, with money and a key."""
        now = self.market.now()
        with self.market.write() as session:
            requester = people.add_requester(session, name, now)
            key = people.add_key(session, requester, now)
            if deposit_cents:
                people.deposit(session, requester, deposit_cents, now)
        return requester, key

    def make_worker(self, name: str = "Ann", *, country: str = "US", adult: bool = True) -> Worker:
        """A worker who can begin."""
        with self.market.write() as session:
            return people.add_worker(session, name, self.market.now(), country=country, adult=adult)

    def client(self, key: KeyPair | None = None, **options: Any) -> Any:
        """An unmodified boto3 client that does not retry by itself; options go into its Config."""
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

    def accept(self, worker: Worker, type_id: str) -> Assignment:
        """The worker takes some HIT of a type."""
        with self.market.write() as session:
            group_id = session.query(HitType.group_id).where(HitType.id == type_id).scalar()
            return worker_actions.accept(session, worker, str(group_id), self.market.now())

    def submit(self, assignment: Assignment, answers: Mapping[str, str] | None = None) -> Assignment:
        """The holder hands it in."""
        with self.market.write() as session:
            return worker_actions.submit(session, assignment.id, answers or {"answer": "yes"}, self.market.now())

    def work(self, worker: Worker, type_id: str, answers: Mapping[str, str] | None = None) -> Assignment:
        """The worker takes some HIT of a type and hands it in."""
        return self.submit(self.accept(worker, type_id), answers)

    def __enter__(self) -> Self:
        self._server = make_server("127.0.0.1", 0, _nothing, threaded=True, request_handler=_Quiet)
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


def _nothing(_environ: Any, start_response: Any) -> list[bytes]:
    start_response("503 Service Unavailable", [])
    return []


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *arguments: Any) -> None:
        pass
