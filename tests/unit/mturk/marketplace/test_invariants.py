"""Whatever requesters and workers do, in any order: no cent is lost, and no assignment has two workers."""

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.marketplace import assignments, hits, money, people, worker_actions
from mturk.marketplace.errors import MarketError
from mturk.marketplace.market import open_market
from mturk.marketplace.tables.people import Account, Movement, Worker
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Bonus, Hit, HitStatus
from mturk.profile import MTURK
from tests.fakes.clock import SettableClock
from tests.fakes.market import StillWorld

FIRST_DEPOSIT = 10_000
DAYS = 300_000
pick = st.integers(min_value=0, max_value=7)


class MarketMachine(RuleBasedStateMachine):
    """One requester with little money, a few workers, a few HITs, and time that passes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        clock = SettableClock()
        market = open_market(f"sqlite:///{Path(self.folder.name) / 'market.db'}", clock)
        self.world = StillWorld(market, clock, deposit_cents=FIRST_DEPOSIT)
        self.deposited = FIRST_DEPOSIT
        self.workers = [self.world.make_worker(f"W{number}") for number in range(3)]

    def teardown(self) -> None:
        self.world.market.close()
        self.folder.cleanup()

    @initialize()
    def start(self) -> None:
        with self.world.market.write() as session:
            money.move(session, money.available(self.world.requester.id), "elsewhere", 9_300, "gone", self.now)
        for _ in range(3):
            hit = self._post(3, DAYS)
        self.group = self.world.group_of(hit.type_id)

    @property
    def now(self) -> datetime:
        return self.world.now

    @rule(cents=st.integers(min_value=1, max_value=200))
    def deposit(self, cents: int) -> None:
        with self.world.market.write() as session:
            people.deposit(session, self.world.requester, cents, self.now)
        self.deposited += cents

    @rule(places=st.integers(min_value=1, max_value=4), lifetime=st.sampled_from([60, DAYS]))
    def create(self, places: int, lifetime: int) -> None:
        with suppress(MarketError):
            self._post(places, lifetime)

    @rule(who=pick)
    def accept(self, who: int) -> None:
        self._try(lambda session: worker_actions.accept(session, self._worker(who), self.group, self.now))

    @rule(who=pick)
    def work(self, who: int) -> None:
        def both(session: Session) -> None:
            held = worker_actions.accept(session, self._worker(who), self.group, self.now)
            worker_actions.submit(session, held.id, {"a": "b"}, self.now)

        self._try(both)

    @rule(who=pick, which=pick)
    def return_one(self, who: int, which: int) -> None:
        def by_the_holder_or_another_worker(session: Session, assignment: Assignment) -> None:
            holder = session.get(Worker, assignment.worker_id or "")
            worker = holder if holder and who < 4 else self._worker(who)
            worker_actions.return_assignment(session, worker, assignment.id, self.now)

        self._on_assignment(which, AssignmentStatus.ACCEPTED, by_the_holder_or_another_worker)

    @rule(who=pick, which=pick, forged=st.booleans())
    def submit(self, who: int, which: int, forged: bool) -> None:
        worker_id = self._worker(who).id if forged else None
        self._on_assignment(
            which,
            AssignmentStatus.ACCEPTED,
            lambda session, one: worker_actions.submit(session, one.id, {"a": "b"}, self.now, worker_id=worker_id),
        )

    @rule(which=pick)
    def approve(self, which: int) -> None:
        self._decide(which, assignments.approve, AssignmentStatus.SUBMITTED)

    @rule(which=pick)
    def reject(self, which: int) -> None:
        self._decide(which, assignments.reject, AssignmentStatus.SUBMITTED)

    @rule(which=pick)
    def override(self, which: int) -> None:
        def reject_and_override(session: Session, assignment: Assignment) -> None:
            hit = self._hit_of(session, assignment)
            if assignment.status is AssignmentStatus.SUBMITTED:
                assignments.reject(session, assignment, hit, self.now, "no")
            assignments.override_rejection(session, assignment, hit, self.now, "after all")

        wanted = AssignmentStatus.REJECTED if which % 2 else AssignmentStatus.SUBMITTED
        self._on_assignment(which, wanted, reject_and_override)

    @rule(which=pick, who=pick, cents=st.integers(min_value=-1, max_value=60))
    def bonus(self, which: int, who: int, cents: int) -> None:
        def to_the_worker_or_another_worker(session: Session, assignment: Assignment) -> None:
            worker_id = assignment.worker_id if assignment.worker_id and who < 4 else self._worker(who).id
            assignments.send_bonus(
                session, self._hit_of(session, assignment), assignment, worker_id, cents, "good", self.now
            )

        self._on_assignment(which, AssignmentStatus.APPROVED, to_the_worker_or_another_worker)

    @rule(which=pick, more=st.integers(min_value=0, max_value=9))
    def extend(self, which: int, more: int) -> None:
        self._on_hit(which, lambda session, hit: hits.extend(session, hit, more, self.now))

    @rule(which=pick, seconds=st.sampled_from([-100, 90, DAYS, DAYS]))
    def move_expiration(self, which: int, seconds: int) -> None:
        at = self.now + timedelta(seconds=seconds)
        self._on_hit(which, lambda session, hit: hits.change_expiration(session, hit, at, self.now))

    @rule(which=pick)
    def delete(self, which: int) -> None:
        self._on_hit(which, lambda session, hit: hits.delete(session, hit, self.now))

    @rule(seconds=st.sampled_from([1, 1, 1, 61, 601, 86_401]))
    def wait(self, seconds: int) -> None:
        self.world.advance(seconds=seconds)

    @invariant()
    def money_in_is_money_out_plus_balance(self) -> None:
        with self.world.market.read() as session:
            balances = {one.name: one.balance_cents for one in session.scalars(select(Account))}
            flow: Counter[str] = Counter()
            for one in session.scalars(select(Movement)):
                flow[one.target] += one.cents
                flow[one.source] -= one.cents
            assert balances == {name: flow[name] for name in balances}
            assert set(flow) <= set(balances)
            assert balances[money.DEPOSITS] == -self.deposited
            assert sum(balances.values()) == 0
            assert all(cents >= 0 for name, cents in balances.items() if name != money.DEPOSITS)
            held = session.scalar(select(func.sum(Hit.held_cents))) or 0
            assert balances.get(money.held(self.world.requester.id), 0) == held
            self._check_workers_balances(session, balances)

    def _check_workers_balances(self, session: Session, balances: dict[str, int]) -> None:
        fees = 0
        for worker in self.workers:
            approved = session.scalar(
                select(func.count()).where(
                    Assignment.worker_id == worker.id, Assignment.status == AssignmentStatus.APPROVED
                )
            )
            paid = list(session.scalars(select(Bonus.cents).where(Bonus.worker_id == worker.id)))
            assert balances.get(money.worker(worker.id), 0) == 25 * (approved or 0) + sum(paid)
            assert session.get_one(Worker, worker.id).approved == approved
            fees += 5 * (approved or 0) + sum(MTURK.fees.bonus(cents).fee_cents for cents in paid)
        assert balances.get(money.FEES, 0) == fees

    @invariant()
    def counts_add_up_and_no_assignment_has_two_workers(self) -> None:
        with self.world.market.read() as session:
            places: dict[str, list[Assignment]] = {}
            for one in session.scalars(select(Assignment)):
                places.setdefault(one.hit_id, []).append(one)
            for hit in session.scalars(select(Hit)):
                mine = places.get(hit.id, [])
                found = Counter(one.status for one in mine)
                assert hit.pending == found[AssignmentStatus.ACCEPTED]
                assert hit.undecided == found[AssignmentStatus.SUBMITTED]
                assert hit.completed == found[AssignmentStatus.APPROVED] + found[AssignmentStatus.REJECTED]
                assert hit.available >= found[AssignmentStatus.FREE]
                workers = [one.worker_id for one in mine if one.worker_id]
                assert len(workers) == len(set(workers)) <= hit.max_assignments
                assert all(one.deadline and one.deadline > self.now for one in mine if one.status == "Accepted")
                self._check_state(hit)

    def _check_state(self, hit: Hit) -> None:
        open_now = hit.available > 0 and hit.expires_at > self.now
        if hit.status is HitStatus.DISPOSED:
            assert not hit.pending
            assert not hit.undecided
        else:
            assert (hit.status is HitStatus.ASSIGNABLE) == open_now
            assert open_now or (hit.status is HitStatus.UNASSIGNABLE) == (hit.pending > 0)
        places = hit.pending + hit.undecided + (hit.available if open_now and hit.status != "Disposed" else 0)
        assert hit.held_cents == 30 * places

    def _post(self, places: int, lifetime: int) -> Hit:
        return self.world.post(places=places, lifetime=lifetime, auto_approve=86_400)

    def _worker(self, who: int) -> Worker:
        return self.workers[who % len(self.workers)]

    def _hit_of(self, session: Session, assignment: Assignment) -> Hit:
        return session.scalars(select(Hit).where(Hit.id == assignment.hit_id)).one()

    def _decide(self, which: int, decide: Callable[..., None], wanted: AssignmentStatus) -> None:
        self._on_assignment(
            which, wanted, lambda session, one: decide(session, one, self._hit_of(session, one), self.now, "so")
        )

    def _try(self, act: Callable[[Session], object]) -> None:
        """Do it or be refused; any other error is a bug."""
        with suppress(MarketError), self.world.market.write() as session:
            act(session)

    def _on_assignment(self, which: int, wanted: AssignmentStatus, act: Callable[[Session, Assignment], Any]) -> None:
        """Act on an assignment in the wanted state, or sometimes on any."""

        def on_one(session: Session) -> None:
            found = list(session.scalars(select(Assignment).order_by(Assignment.number.desc()).limit(8)))
            matching = [one for one in found if one.status is wanted]
            if which < 6 and matching:
                found = matching
            if found:
                act(session, found[which % len(found)])

        self._try(on_one)

    def _on_hit(self, which: int, act: Callable[[Session, Hit], object]) -> None:
        def on_one(session: Session) -> None:
            found = list(session.scalars(select(Hit).order_by(Hit.number.desc()).limit(8)))
            if found:
                act(session, found[which % len(found)])

        self._try(on_one)


TestInvariants = MarketMachine.TestCase
TestInvariants.settings = settings(
    max_examples=12, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
