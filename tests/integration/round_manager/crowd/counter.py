"""One task with a crowd, all services and a test clock, for tests that post HITs, do work and pay."""

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from crowd.port import AssignmentState
from mturk.profile import MTURK
from round_manager.crowd.collection import Collector
from round_manager.crowd.hit_planning import HitRequest, plan_hits
from round_manager.crowd.hit_posting import HitPoster, PostingResult
from round_manager.crowd.payments import PaymentSender
from round_manager.crowd.reconciliation import Reconciler
from round_manager.crowd.reviews import Rejections, approve, give_bonus
from round_manager.crowd.workers import WorkerAccess
from round_manager.database.store import Store
from round_manager.models import Assignment, EntryKind, EntryState, Hit, HitKind, LedgerEntry, Round, Task
from round_manager.money.budget import BudgetFigures, drift, figures, statement
from tests.fakes.clock import SettableClock
from tests.fakes.crowd import FakeCrowd
from tests.integration.round_manager.stage import Stage, set_stage

OWNER = "owner@test"
DAY = timedelta(days=1)


@dataclass
class Counter:
    """A task, its crowd, the services and the clock."""

    stage: Stage
    store: Store
    crowd: FakeCrowd
    clock: SettableClock
    task: Task
    round: Round
    poster: HitPoster
    collector: Collector
    payments: PaymentSender
    reconciler: Reconciler
    rejections: Rejections
    access: WorkerAccess

    @property
    def stranger(self) -> "Counter":
        """Return the same ledger with the key of another account on the same marketplace."""
        crowd = FakeCrowd(self.clock.now)
        poster = HitPoster(self.store, crowd, self.clock, lambda hit: f"http://pages.test/{hit.public_id.hex}")
        payments = PaymentSender(self.store, crowd, self.clock, actor=OWNER)
        return replace(
            self, crowd=crowd, poster=poster, payments=payments, collector=Collector(self.store, crowd, self.clock)
        )

    def plan(self, hits: int = 1, *, assignments: int = 1, kind: HitKind = HitKind.CREATE) -> list[Hit]:
        now = self.clock.now()
        with self.store.write() as session:
            wish = HitRequest(kind, hits, assignments, now + 7 * DAY)
            return plan_hits(session, session.get_one(Round, self.round.id), wish, self.crowd, now=now)

    def post(self, hits: int = 1, **more: Any) -> PostingResult:
        self.plan(hits, **more)
        return self.poster.run()

    def validate(self) -> None:
        """End the round: it accepts nothing new."""
        with self.store.write() as session:
            round = session.get_one(Round, self.round.id)
            round.status, round.validating_at = round.status.VALIDATING, self.clock.now()

    def posted(self) -> list[str]:
        with self.store.read() as session:
            return [str(one) for one in session.scalars(select(Hit.external_id).order_by(Hit.id)) if one]

    def work(self, worker: str = "W1", *, minutes: int = 10) -> list[str]:
        """Let one worker submit every HIT, with this many minutes for each."""
        done = []
        for hit_id in self.posted():
            self.crowd.accept(hit_id, worker)
            self.clock.advance(timedelta(minutes=minutes))
            done.append(self.crowd.submit(hit_id, worker))
        return done

    def approve(self, ids: Sequence[str]) -> int:
        with self.store.write() as session:
            works = session.scalars(select(Assignment).where(Assignment.external_id.in_(ids))).all()
            return approve(session, works, actor=OWNER, reason="good work", now=self.clock.now())

    def bonus(self, external_id: str, cents: int = 50, reason: str = "Well done.") -> str:
        with self.store.write() as session:
            work = session.scalars(select(Assignment).where(Assignment.external_id == external_id)).one()
            return give_bonus(session, self.crowd, work, cents, reason, actor=OWNER, now=self.clock.now()).key

    def approve_all(self, but: str = "") -> None:
        """Submit, collect, approve and pay every HIT but one."""
        finished = {work.hit_id for hit in self.posted() for work in self.crowd.assignments(hit)}
        for hit_id in self.posted():
            if hit_id != but and hit_id not in finished:
                self.crowd.submit(hit_id, "W1")
        self.collector.run()
        with self.store.read() as session:
            ids = session.scalars(select(Assignment.external_id)).all()
        self.approve(ids)
        self.payments.run()

    def collected(self, hits: int = 1) -> list[str]:
        """Post HITs, let one worker submit them, and collect the work."""
        self.post(hits)
        done = self.work()
        self.collector.run()
        return done

    def states(self, kind: EntryKind = EntryKind.REWARD) -> dict[str, int]:
        wanted = select(LedgerEntry.state, func.count()).where(LedgerEntry.kind == kind).group_by(LedgerEntry.state)
        with self.store.read() as session:
            return {state.value: count for state, count in session.execute(wanted)}

    def entry(self, key: str) -> LedgerEntry:
        with self.store.read() as session:
            return session.scalars(select(LedgerEntry).where(LedgerEntry.key == key)).one()

    def figures(self) -> BudgetFigures:
        with self.store.read() as session:
            return figures(session, self.round)

    def spent_on_market(self) -> int:
        """Return what was paid, fees included, according to the crowd."""
        before = self.crowd.calls.copy()
        total = 0
        for hit in list(self.crowd.hits()):
            fee = MTURK.fees.reward(hit.reward_cents, hit.max_assignments).fee_cents
            approved = list(self.crowd.assignments(hit.hit_id, [AssignmentState.APPROVED]))
            bonuses = list(self.crowd.bonuses(hit_id=hit.hit_id))
            total += len(approved) * (hit.reward_cents + fee)
            total += sum(MTURK.fees.bonus(bonus.cents).total_cents for bonus in bonuses)
        self.crowd.calls = before
        return total

    def check(self) -> None:
        """Check that the ledger adds up by its entries, its stored sums, and the crowd's record."""
        with self.store.read() as session:
            task, round = session.get_one(Task, self.task.id), session.get_one(Round, self.round.id)
            whole, *rounds = statement(session, task, at=self.clock.now() + DAY)
            assert whole.adds_up
            assert all(line.adds_up for line in rounds)
            assert drift(session, task, whole) == 0
            assert drift(session, round, rounds[0]) == 0
            confirmed = session.scalar(
                select(func.sum(LedgerEntry.cents + LedgerEntry.fee_cents)).where(
                    LedgerEntry.state == EntryState.CONFIRMED
                )
            )
            in_doubt = session.scalar(
                select(func.sum(LedgerEntry.cents + LedgerEntry.fee_cents)).where(LedgerEntry.state == EntryState.SENT)
            )
        # Exactly what was paid; where something is still in doubt, at least what was confirmed.
        spent = self.spent_on_market()
        assert (confirmed or 0) <= spent <= (confirmed or 0) + (in_doubt or 0)

    def calls(self) -> Tally[str]:
        return Tally(self.crowd.calls)


def open_counter(store: Store, *, cents: int = 1_000_000, pack: str = "sentiment") -> Counter:
    """The counter of one task."""
    stage = set_stage(store, pack)
    clock = SettableClock()
    crowd = FakeCrowd(clock.now, cents)
    poster = HitPoster(store, crowd, clock, lambda hit: f"http://pages.test/{hit.public_id.hex}")
    payments = PaymentSender(store, crowd, clock, actor=OWNER)
    return Counter(
        stage,
        store,
        crowd,
        clock,
        stage.task,
        stage.round,
        poster,
        Collector(store, crowd, clock),
        payments,
        Reconciler(store, crowd, clock, poster, payments),
        Rejections(store, crowd, clock),
        WorkerAccess(store, crowd, clock),
    )
