"""A market in a file, at a time that tests set, with a requester, a HIT type and workers."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from mturk.marketplace import hits, people, worker_actions
from mturk.marketplace.market import Market, open_market
from mturk.marketplace.questions import QuestionPage
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import Assignment, Hit, HitType
from tests.fakes.clock import SettableClock

TERMS = hits.TypeTerms(
    title="Fool the model",
    description="Write a sentence.",
    keywords="text, writing,",
    reward_cents=25,
    assignment_seconds=600,
    auto_approve_seconds=86_400,
    requirements=[],
)


class Stage:
    """A market and what is done on it."""

    def __init__(self, market: Market, clock: SettableClock) -> None:
        self.market, self.clock = market, clock
        with market.write() as session:
            self.requester = people.add_requester(session, "Lab", clock.now())
            people.deposit(session, self.requester, 10_000, clock.now())
            self.kind: HitType = hits.find_or_create_type(session, self.requester, TERMS)

    def hit(self, assignments: int = 1, lifetime: int = 3600) -> Hit:
        with self.market.write() as session:
            return hits.create(
                session,
                self.kind,
                QuestionPage("https://example.org/", 0),
                "",
                max_assignments=assignments,
                lifetime_seconds=lifetime,
                annotation=None,
                now=self.clock.now(),
            )

    def worker(self, name: str = "Ann") -> Worker:
        with self.market.write() as session:
            return people.add_worker(session, name, self.clock.now())

    def accept(self, worker: Worker) -> Assignment:
        with self.market.write() as session:
            return worker_actions.accept(session, worker, self.kind.group_id, self.clock.now())

    def give_back(self, worker: Worker, assignment: Assignment) -> None:
        with self.market.write() as session:
            worker_actions.return_assignment(session, worker, assignment.id, self.clock.now())

    def submit(
        self, assignment: Assignment, worker_id: str | None = None, answers: Mapping[str, str] | None = None
    ) -> Assignment:
        with self.market.write() as session:
            return worker_actions.submit(
                session, assignment.id, answers or {"a": "b"}, self.clock.now(), worker_id=worker_id
            )

    def fresh(self, row: Assignment) -> Assignment:
        with self.market.read() as session:
            return session.get_one(Assignment, row.number)

    def seen(self, row: Hit) -> Hit:
        with self.market.read() as session:
            return session.get_one(Hit, row.number)

    def pass_time(self, **step: float) -> None:
        self.clock.advance(timedelta(**step))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    clock = SettableClock()
    with open_market(f"sqlite:///{tmp_path / 'market.db'}", clock) as market:
        yield Stage(market, clock)
