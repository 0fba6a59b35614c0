"""A process that posts, collects, approves and pays until all is done, and that can be killed at any time.

Each life plans a few more HITs, so that every life has all kinds of work before it, and goes on from what the database
and the marketplace say; nothing else is remembered.
"""

import json
import sys
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import func, select

from common.clock import SystemClock
from crowd.errors import RetryPolicy
from mturk.client import open_crowd
from mturk.connection import Endpoint
from mturk.event_queue import SqsEventQueue, open_queue
from round_manager.crowd.collection import Collector
from round_manager.crowd.hit_planning import HitRequest, plan_hits
from round_manager.crowd.hit_posting import HitPoster
from round_manager.crowd.payments import PaymentSender
from round_manager.crowd.reconciliation import Reconciler
from round_manager.crowd.reviews import approve, give_bonus
from round_manager.database.store import Store, open_store
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryKind,
    EntryState,
    Hit,
    HitKind,
    LedgerEntry,
    Round,
    RoundStatus,
)

BONUS_CENTS = 7
WHO = "driver"


@dataclass(frozen=True)
class Job:
    """The amount of work, and the addresses."""

    database: str
    marketplace: str
    key_id: str
    key_secret: str
    queue: str
    queue_endpoint: str
    hits: int
    hits_each_life: int


class Driver:
    """One run of the driver."""

    def __init__(self, job: Job, store: Store) -> None:
        self._job = job
        self._store = store
        self._clock = SystemClock()
        endpoint = Endpoint(job.marketplace, job.key_id, job.key_secret, name="market")
        self._crowd = open_crowd(endpoint, retries=RetryPolicy(budget=5, first_pause=0.02, longest_pause=0.2))
        pages = "http://pages.test/hits/{}".format
        self._posting = HitPoster(
            store, self._crowd, self._clock, lambda hit: pages(hit.public_id.hex), queue_url=job.queue
        )
        self._payday = PaymentSender(store, self._crowd, self._clock, actor=WHO)
        self._collecting = Collector(store, self._crowd, self._clock)
        self._reconciler = Reconciler(store, self._crowd, self._clock, self._posting, self._payday)
        self._queue: SqsEventQueue | None = None
        if job.queue:
            self._queue = open_queue(job.queue, endpoint_url=job.queue_endpoint, region="us-east-1")

    def live(self) -> None:
        """Work until everything is done."""
        self._plan()
        while not self._is_done():
            self._reconciler.run()
            self._posting.run()
            self._collect()
            self._decide()
            self._payday.run()

    def _plan(self) -> None:
        now = self._clock.now()
        with self._store.write() as session:
            more = min(self._job.hits_each_life, self._job.hits - (session.scalar(select(func.count(Hit.id))) or 0))
            round = session.scalars(select(Round).where(Round.status == RoundStatus.OPEN)).one()
            if more > 0:
                plan_hits(
                    session, round, HitRequest(HitKind.CREATE, more, 1, now + timedelta(days=2)), self._crowd, now=now
                )

    def _collect(self) -> None:
        if self._queue is not None:
            hints = self._queue.take(0)
            self._collecting.hinted(hints.hit_ids)
            self._queue.done(hints)
        self._collecting.run()

    def _decide(self) -> None:
        """Approve submitted work and give each worker one bonus."""
        now = self._clock.now()
        with self._store.write() as session:
            waiting = session.scalars(select(Assignment).where(Assignment.status == AssignmentStatus.SUBMITTED)).all()
            approve(session, waiting, actor=WHO, reason="all of it is good", now=now)
            given = select(LedgerEntry.assignment_id).where(LedgerEntry.kind == EntryKind.EXTRA)
            without = select(Assignment).where(
                Assignment.id.not_in(given.where(LedgerEntry.assignment_id.is_not(None)))
            )
            for work in session.scalars(without):
                give_bonus(session, self._crowd, work, BONUS_CENTS, "Thank you.", actor=WHO, now=now)

    def _count(self, kind: EntryKind) -> int:
        settled = select(func.count(LedgerEntry.id)).where(
            LedgerEntry.kind == kind, LedgerEntry.state == EntryState.CONFIRMED
        )
        with self._store.read() as session:
            return session.scalar(settled) or 0

    def _is_done(self) -> bool:
        paid = (self._count(EntryKind.REWARD), self._count(EntryKind.EXTRA))
        return paid == (self._job.hits, self._job.hits) and self._reconciler.in_doubt() == 0


def main() -> None:
    """Run the driver once; print when it begins and when all is done."""
    job = Job(**json.loads(sys.argv[1]))
    with open_store(job.database) as store:
        driver = Driver(job, store)
        print("begun", flush=True)
        driver.live()
        print("done", flush=True)


if __name__ == "__main__":
    main()
