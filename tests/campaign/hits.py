"""HITs on the fake crowd: plan, post, accept, submit, collect, approve and pay, and the ledger that results."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Self

from sqlalchemy import func, select

from crowd.port import AssignmentState
from mturk.profile import MTURK
from round_manager.crowd.hit_planning import HitRequest, plan_hits
from round_manager.crowd.reviews import approve, give_bonus
from round_manager.loop.lifecycle import Due, begin_validating, close_round, due
from round_manager.loop.waiting import WaitReason, waiting
from round_manager.models import Assignment, EntryKind, EntryState, Hit, HitKind, LedgerEntry, Round, Task, WorkSession
from round_manager.money.budget import BudgetFigures, drift, figures, statement
from round_manager.services.context import ConnectedCrowd, connect_crowd
from round_manager.validation.decisions import decide_round
from round_manager.work.validation_work import Judgement
from tests.campaign.base import DAY, OWNER
from tests.campaign.pages import PageWork
from tests.fakes.crowd import FakeCrowd


class HitWork(PageWork):
    """Posts HITs, lets workers submit them, pays, and moves the round on."""

    @cached_property
    def marketplace(self) -> ConnectedCrowd:
        """Return the crowd with what posts, collects and pays through it."""
        return connect_crowd(
            self.services, self.owner, self.crowd, lambda hit: f"http://pages.test/{hit.public_id.hex}"
        )

    def with_other_account(self) -> Self:
        """Return the same campaign with the key of another account on the same marketplace."""
        return replace(self, crowd=FakeCrowd(self.clock.now))

    def move_round(self, step: Callable[..., Round], **more: Any) -> Round:
        """Make one move of the round, as its owner."""
        with self.store.write() as session:
            chosen = session.get_one(Round, self.round_id)
            return step(session, chosen, actor=OWNER, reason="a test", now=self.now, **more)

    def begin_validating(self) -> Round:
        return self.move_round(begin_validating)

    def close_round(self, *, force: bool = False) -> Round:
        """Close the validating round; raise RoundNotReady if it still waits for something."""
        return self.move_round(close_round, force=force)

    def due(self) -> Due | None:
        """Return the round's due move."""
        with self.store.read() as session:
            return due(session, session.get_one(Round, self.round_id), now=self.now)

    def waiting(self) -> list[WaitReason]:
        """Return what the round waits for."""
        with self.store.read() as session:
            return waiting(session, session.get_one(Round, self.round_id), now=self.now)

    def plan_hits(self, hits: int = 1, kind: HitKind = HitKind.CREATE, *, assignments: int = 1) -> list[Hit]:
        """Plan HITs and reserve their money, without sending them."""
        with self.store.write() as session:
            request = HitRequest(kind, hits, assignments, self.now + 7 * DAY)
            return plan_hits(session, session.get_one(Round, self.round_id), request, self.crowd, now=self.now)

    def post_hits(self, hits: int = 1, kind: HitKind = HitKind.CREATE, *, assignments: int = 1) -> list[Hit]:
        planned = self.plan_hits(hits, kind, assignments=assignments)
        self.marketplace.poster.run()
        with self.store.read() as session:
            return [session.get_one(Hit, hit.id) for hit in planned]

    def hit_ids(self) -> list[str]:
        """Return the ids of all posted HITs, oldest first."""
        return [hit.external_id for hit in self.rows(Hit, Hit.external_id.is_not(None))]

    def accept_hit(self, hit: Hit, worker: str, place: int = 1) -> WorkSession:
        """Let a worker accept the HIT and open its page; `place` is the order of submission."""
        self.crowd.accept(str(hit.external_id), worker)
        return self.open_page(worker, hit=hit, assignment=f"{hit.external_id}W{place}")

    def submit_hit(self, hit: Hit, worker: str, page: WorkSession) -> None:
        """Finish the page and submit its HIT."""
        self.finish_page(page)
        assert self.crowd.submit(str(hit.external_id), worker) == page.claimed_assignment

    def submit_all(self, worker: str = "W1", *, minutes: int = 10) -> list[str]:
        """Let one worker accept and submit every HIT, with this many minutes for each; return the assignments."""
        done = []
        for hit_id in self.hit_ids():
            self.crowd.accept(hit_id, worker)
            self.clock.advance(timedelta(minutes=minutes))
            done.append(self.crowd.submit(hit_id, worker))
        return done

    def collected(self, hits: int = 1) -> list[str]:
        """Post HITs, let one worker submit them, and collect the work; return the assignments."""
        self.post_hits(hits)
        done = self.submit_all()
        self.marketplace.collector.run()
        return done

    def validate_all(self, *workers: str, label: str) -> None:
        """Post one validation HIT on which each worker judges every item."""
        (hit,) = self.post_hits(1, HitKind.VALIDATE, assignments=len(workers))
        for place, worker in enumerate(workers, 1):
            page = self.accept_hit(hit, worker, place)
            self.judge_all(page, Judgement(label=label))
            self.submit_hit(hit, worker, page)

    def approve(self, ids: Sequence[str] | None = None) -> int:
        """Approve these assignments, by default all of them."""
        with self.store.write() as session:
            chosen = select(Assignment)
            chosen = chosen if ids is None else chosen.where(Assignment.external_id.in_(ids))
            return approve(session, session.scalars(chosen).all(), actor=OWNER, reason="good work", now=self.now)

    def give_bonus(self, external_id: str, cents: int = 50, reason: str = "Well done.") -> str:
        """Owe a bonus for an assignment; return its key."""
        with self.store.write() as session:
            work = session.scalars(select(Assignment).where(Assignment.external_id == external_id)).one()
            return give_bonus(session, self.crowd, work, cents, reason, actor=OWNER, now=self.now).key

    def submit_and_pay(self, but: str = "") -> None:
        """Let a worker submit every HIT but one, collect, approve and pay."""
        finished = {work.hit_id for hit in self.hit_ids() for work in self.crowd.assignments(hit)}
        for hit_id in self.hit_ids():
            if hit_id != but and hit_id not in finished:
                self.crowd.submit(hit_id, "W1")
        self.marketplace.collector.run()
        self.approve()
        self.marketplace.payments.run()

    def collect_and_pay(self, *, decide: bool = True) -> None:
        """Collect, approve, decide and pay everything."""
        self.marketplace.collector.run()
        self.approve()
        if decide:
            decide_round(self.store, self.round, now=self.now)
        self.marketplace.payments.run()
        self.marketplace.collector.run()

    def ledger_states(self, kind: EntryKind = EntryKind.REWARD) -> dict[str, int]:
        """Return how many ledger entries of a kind are in each state."""
        return dict(Counter(entry.state.value for entry in self.rows(LedgerEntry, LedgerEntry.kind == kind)))

    def ledger_entry(self, key: str) -> LedgerEntry:
        (found,) = self.rows(LedgerEntry, LedgerEntry.key == key)
        return found  # type: ignore[no-any-return]

    def figures(self) -> BudgetFigures:
        with self.store.read() as session:
            return figures(session, session.get_one(Round, self.round_id))

    def crowd_calls(self) -> Counter[str]:
        return Counter(self.crowd.calls)

    def paid_by_crowd(self) -> int:
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

    def check_ledger(self) -> None:
        """Check that the ledger adds up by its entries, its stored sums, and the crowd's record."""
        paid = select(func.sum(LedgerEntry.cents + LedgerEntry.fee_cents))
        with self.store.read() as session:
            task, round = session.get_one(Task, self.task.id), session.get_one(Round, self.round_id)
            whole, *rounds = statement(session, task, at=self.now + DAY)
            assert whole.adds_up
            assert all(line.adds_up for line in rounds)
            assert drift(session, task, whole) == 0
            assert drift(session, round, rounds[0]) == 0
            confirmed = session.scalar(paid.where(LedgerEntry.state == EntryState.CONFIRMED)) or 0
            in_doubt = session.scalar(paid.where(LedgerEntry.state == EntryState.SENT)) or 0
        # Exactly what was paid; where something is still in doubt, at least what was confirmed.
        assert confirmed <= self.paid_by_crowd() <= confirmed + in_doubt
