"""A round for tests that post and submit HITs, vote, pay workers, and advance the round."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from round_manager.crowd.collection import Collector
from round_manager.crowd.hit_planning import HitRequest, plan_hits
from round_manager.crowd.hit_posting import HitPoster
from round_manager.crowd.payments import PaymentSender
from round_manager.crowd.reviews import approve
from round_manager.database.store import Store
from round_manager.loop.lifecycle import Due, begin_validating, close_round, due
from round_manager.loop.waiting import WaitReason, waiting
from round_manager.models import Assignment, AuditEntry, ExampleStatus, Hit, HitKind, Round, RoundStatus, WorkSession
from round_manager.validation.decisions import decide_round
from round_manager.work.validation_work import Judgement
from tests.fakes.crowd import FakeCrowd
from tests.integration.round_manager.work.floor import Floor, lay_floor

OWNER = "owner@test"
DAY = timedelta(days=1)


@dataclass
class Season:
    """One task's open round with its workers, marketplace and payments."""

    floor: Floor
    crowd: FakeCrowd
    poster: HitPoster
    collector: Collector
    payments: PaymentSender

    @property
    def store(self) -> Store:
        return self.floor.store

    @property
    def round(self) -> Round:
        """Return the round as it is now."""
        found: Round = self.floor.one(self.floor.round)
        return found

    @property
    def status(self) -> RoundStatus:
        return self.round.status

    def move(self, step: Callable[..., Round], **more: Any) -> Round:
        """Advance the round by one step, as its owner."""
        with self.store.write() as session:
            chosen = session.get_one(Round, self.floor.round.id)
            return step(session, chosen, actor=OWNER, reason="a test", now=self.floor.now, **more)

    def validate(self) -> Round:
        return self.move(begin_validating)

    def close(self, *, force: bool = False) -> Round:
        return self.move(close_round, force=force)

    def due(self) -> Due | None:
        with self.store.read() as session:
            return due(session, session.get_one(Round, self.floor.round.id), now=self.floor.now)

    def waiting(self) -> list[WaitReason]:
        with self.store.read() as session:
            return waiting(session, session.get_one(Round, self.floor.round.id), now=self.floor.now)

    def plan(self, hits: int = 1, kind: HitKind = HitKind.CREATE, **more: Any) -> list[Hit]:
        """Plan HITs with their money, without sending them."""
        with self.store.write() as session:
            wish = HitRequest(kind, hits, more.get("assignments", 1), self.floor.now + 7 * DAY)
            found = session.get_one(Round, self.floor.round.id)
            return plan_hits(session, found, wish, self.crowd, now=self.floor.now)

    def post(self, hits: int = 1, kind: HitKind = HitKind.CREATE, **more: Any) -> list[Hit]:
        planned = self.plan(hits, kind, **more)
        self.poster.run()
        return [self.floor.one(hit) for hit in planned]

    def take(self, hit: Hit, worker: str, place: int = 1) -> WorkSession:
        """Let a worker accept the HIT and open its page; `place` is the order of submission."""
        self.crowd.accept(str(hit.external_id), worker)
        return self.floor.open(worker, hit=hit, assignment=f"{hit.external_id}W{place}")

    def submit(self, hit: Hit, worker: str, page: WorkSession) -> None:
        """Submit the page and its HIT."""
        self.floor.finish(page)
        assert self.crowd.submit(str(hit.external_id), worker) == page.claimed_assignment

    def check_all(self, *workers: str, label: str) -> None:
        """Post one validation HIT on which each worker judges every item."""
        (hit,) = self.post(1, HitKind.VALIDATE, assignments=len(workers))
        for place, worker in enumerate(workers, 1):
            page = self.take(hit, worker, place)
            self.floor.judge_all(page, Judgement(label=label))
            self.submit(hit, worker, page)

    def pay_day(self, *, decide: bool = True) -> None:
        """Collect, approve, decide and pay everything."""
        self.collector.run()
        with self.store.write() as session:
            approve(session, session.scalars(select(Assignment)).all(), actor=OWNER, reason="good", now=self.floor.now)
        if decide:
            decide_round(self.store, self.round, now=self.floor.now)
        self.payments.run()
        self.collector.run()

    def verified(self, number: int, *, fooled: bool = True) -> None:
        """Add this many validated examples."""
        for _ in range(number):
            self.floor.pending(
                fooled=fooled,
                status=ExampleStatus.VERIFIED,
                gold_label="positive",
                decided_at=self.floor.now,
                votes_wanted=0,
            )

    def history(self) -> list[tuple[str, str, str]]:
        found = self.floor.rows(AuditEntry, AuditEntry.subject == "round")
        return [(entry.actor, entry.action, entry.reason) for entry in found]


def begin_season(store: Store, *, contexts: int = 8, **terms: dict[str, Any]) -> Season:
    """The sentiment task with an open round and a separate marketplace."""
    floor = lay_floor(store, "sentiment", contexts=contexts, **terms)
    crowd = FakeCrowd(floor.clock.now)
    poster = HitPoster(store, crowd, floor.clock, lambda hit: f"http://pages.test/{hit.public_id.hex}")
    payments = PaymentSender(store, crowd, floor.clock, actor=OWNER)
    return Season(floor, crowd, poster, Collector(store, crowd, floor.clock), payments)
