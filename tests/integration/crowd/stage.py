"""Both crowds as the contract tests need them: with workers and a clock that the test moves."""

import itertools
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import select

from crowd.errors import CrowdError, RetryPolicy
from crowd.port import BonusOrder, Crowd, HitOrder, HitTerms, PostedHit, SubmittedAssignment, Token
from mturk.client import open_crowd
from mturk.connection import Endpoint
from mturk.marketplace import worker_actions
from mturk.marketplace.errors import MarketError
from mturk.marketplace.tables.people import Grant, GrantStatus, Message, Worker
from mturk.marketplace.tables.work import Assignment
from tests.fakes.clock import SettableClock
from tests.fakes.crowd import FakeCrowd
from tests.fakes.market import MarketServer

FUNDS = 1_000_000
TERMS = HitTerms("Fool the model", "Write a sentence that it gets wrong", ("text", "fun"), 25, 600, 86_400)
_numbers = itertools.count(1)


class Stage(Protocol):
    """A crowd, its clock, and its workers."""

    crowd: Crowd

    def now(self) -> datetime:
        """Return the crowd's current time."""
        ...

    def wait(self, step: timedelta) -> None:
        """Advance the crowd's clock."""
        ...

    def worker(self, country: str = "US") -> str:
        """A new worker."""
        ...

    def accept(self, hit: PostedHit, worker_id: str) -> bool:
        """Let the worker accept the HIT; return whether they could."""
        ...

    def give_back(self, hit: PostedHit, worker_id: str) -> None:
        """Let the worker return the HIT."""
        ...

    def submit(self, hit: PostedHit, worker_id: str, answers: Mapping[str, str] | None = None) -> str:
        """Let the worker submit the HIT, accepting it first if needed; return the assignment's id."""
        ...

    def read(self, worker_id: str) -> list[str]:
        """Return the subjects of the messages that the worker got."""
        ...

    def scores(self, qualification_id: str) -> dict[str, int]:
        """Return the scores of the workers who have the qualification."""
        ...


class Orders:
    """Orders of a test, each with its own token and, by default, its own HIT group."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.crowd = stage.crowd

    def token(self) -> Token:
        """Return a token that was not used before."""
        return Token(f"key-{next(_numbers)}", self.stage.now())

    def terms(self, **more: Any) -> HitTerms:
        """Return the terms of a new group."""
        values = {**vars(TERMS), "title": f"Fool the model {next(_numbers)}", **more}
        return HitTerms(**values)

    def hit(self, **more: Any) -> HitOrder:
        """Return an order for three workers, in a new group."""
        values = {
            "token": self.token(),
            "page_url": "https://outfox.example/hit?task=a&round=1",
            "max_assignments": 3,
            "lifetime_seconds": 7200,
            **more,
        }
        return HitOrder(terms=values.pop("terms", None) or self.terms(), **values)

    def work(self, **more: Any) -> SubmittedAssignment:
        """Return the assignment that a new worker submitted for a new HIT."""
        hit = self.crowd.post(self.hit(**more))
        return self.crowd.assignment(self.stage.submit(hit, self.stage.worker()))

    def bonus(self, work: SubmittedAssignment, **more: Any) -> BonusOrder:
        """Return a bonus order for the worker of an assignment."""
        to = {"worker_id": work.worker_id, "assignment_id": work.assignment_id}
        return BonusOrder(**{"token": self.token(), "cents": 150, "reason": "Well fooled", **to, **more})


class FakeStage:
    """The in-memory crowd."""

    def __init__(self) -> None:
        self._clock = SettableClock()
        self.fake = FakeCrowd(self._clock.now, FUNDS)
        self.crowd: Crowd = self.fake

    def now(self) -> datetime:
        return self._clock.now()

    def wait(self, step: timedelta) -> None:
        self._clock.advance(step)

    def worker(self, country: str = "US") -> str:
        worker_id = f"AWORKER{next(_numbers)}"
        self.fake.countries[worker_id] = country
        return worker_id

    def accept(self, hit: PostedHit, worker_id: str) -> bool:
        return _could(lambda: self.fake.accept(hit.hit_id, worker_id))

    def give_back(self, hit: PostedHit, worker_id: str) -> None:
        self.fake.give_back(hit.hit_id, worker_id)

    def submit(self, hit: PostedHit, worker_id: str, answers: Mapping[str, str] | None = None) -> str:
        return self.fake.submit(hit.hit_id, worker_id, answers)

    def read(self, worker_id: str) -> list[str]:
        return [subject for to, subject, _ in self.fake.messages if to == worker_id]

    def scores(self, qualification_id: str) -> dict[str, int]:
        return {worker: score for (kind, worker), score in self.fake.scores.items() if kind == qualification_id}


class MarketStage:
    """The real marketplace over HTTP, through boto3, with its own requester account."""

    def __init__(self, server: MarketServer, url: str = "", retries: RetryPolicy | None = None) -> None:
        self.server = server
        _, key = server.make_requester(f"Lab {next(_numbers)}", FUNDS)
        self.endpoint = Endpoint(url or server.url, key.id, key.secret, "market")
        self.crowd: Crowd = open_crowd(self.endpoint, retries=retries or RetryPolicy(budget=0), now=self.now)

    def now(self) -> datetime:
        return self.server.clock.now()

    def wait(self, step: timedelta) -> None:
        self.server.clock.advance(step)

    def worker(self, country: str = "US") -> str:
        return self.server.make_worker(f"Worker {next(_numbers)}", country=country).id

    def accept(self, hit: PostedHit, worker_id: str) -> bool:
        return _could(lambda: self.server.accept(self._worker(worker_id), hit.type_id))

    def give_back(self, hit: PostedHit, worker_id: str) -> None:
        with self.server.market.write() as session:
            held = self._held(hit, worker_id)
            assert held is not None
            worker_actions.return_assignment(session, self._worker(worker_id), held.id, self.now())

    def submit(self, hit: PostedHit, worker_id: str, answers: Mapping[str, str] | None = None) -> str:
        held = self._held(hit, worker_id) or self.server.accept(self._worker(worker_id), hit.type_id)
        assert held.hit_id == hit.hit_id, "give the HIT its own group"
        return self.server.submit(held, answers).id

    def read(self, worker_id: str) -> list[str]:
        with self.server.market.read() as session:
            return list(session.scalars(select(Message.subject).where(Message.worker_id == worker_id)))

    def scores(self, qualification_id: str) -> dict[str, int]:
        granted = select(Grant).where(Grant.qualification_id == qualification_id, Grant.status == GrantStatus.GRANTED)
        with self.server.market.read() as session:
            return {one.worker_id: one.score for one in session.scalars(granted)}

    def _worker(self, worker_id: str) -> Worker:
        with self.server.market.read() as session:
            return session.get_one(Worker, worker_id)

    def _held(self, hit: PostedHit, worker_id: str) -> Assignment | None:
        mine = select(Assignment).where(Assignment.hit_id == hit.hit_id, Assignment.worker_id == worker_id)
        with self.server.market.read() as session:
            return session.scalars(mine).one_or_none()


def _could(accept: Callable[[], object]) -> bool:
    try:
        accept()
    except (CrowdError, MarketError):
        return False
    return True
