"""Whatever requesters and workers do, in whatever order: no cent is lost, and no place has two workers."""

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

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
from tests.unit.marketplace.conftest import Stage

FIRST_DEPOSIT = 10_000
DAYS = 300_000
pick = st.integers(min_value=0, max_value=7)


class Promises(RuleBasedStateMachine):
    """One requester who is never rich, a few workers, a few HITs, and time that passes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        clock = SettableClock()
        market = open_market(f"sqlite:///{Path(self.folder.name) / 'market.db'}", clock)
        self.stage = Stage(market, clock)
        self.deposited = FIRST_DEPOSIT
        self.workers = [self.stage.worker(f"W{number}") for number in range(3)]

    def teardown(self) -> None:
        self.stage.market.close()
        self.folder.cleanup()

    @initialize()
    def begin(self) -> None:
        with self.stage.market.write() as session:
            money.move(session, money.available(self.stage.requester.id), "elsewhere", 9_300, "gone", self.now)
        for _ in range(3):
            self.stage.hit(assignments=3, lifetime=DAYS)

    @property
    def now(self) -> datetime:
        return self.stage.clock.now()

    @rule(cents=st.integers(min_value=1, max_value=200))
    def deposit(self, cents: int) -> None:
        with self.stage.market.write() as session:
            people.deposit(session, self.stage.requester, cents, self.now)
        self.deposited += cents

    @rule(assignments=st.integers(min_value=1, max_value=4), lifetime=st.sampled_from([60, DAYS]))
    def create(self, assignments: int, lifetime: int) -> None:
        with suppress(MarketError):
            self.stage.hit(assignments, lifetime)

    @rule(who=pick)
    def accept(self, who: int) -> None:
        self._try(lambda session: worker_actions.accept(session, self._worker(who), self.stage.kind.group_id, self.now))

    @rule(who=pick)
    def work(self, who: int) -> None:
        def both(session: Session) -> None:
            held = worker_actions.accept(session, self._worker(who), self.stage.kind.group_id, self.now)
            worker_actions.submit(session, held.id, {"a": "b"}, self.now)

        self._try(both)

    @rule(who=pick, which=pick)
    def give_back(self, who: int, which: int) -> None:
        def by_the_holder_or_another(session: Session, place: Assignment) -> None:
            holder = session.get(Worker, place.worker_id or "")
            worker = holder if holder and who < 4 else self._worker(who)
            worker_actions.return_assignment(session, worker, place.id, self.now)

        self._on_place(which, AssignmentStatus.ACCEPTED, by_the_holder_or_another)

    @rule(who=pick, which=pick, forged=st.booleans())
    def submit(self, who: int, which: int, forged: bool) -> None:
        worker_id = self._worker(who).id if forged else None
        self._on_place(
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
        def reject_and_override(session: Session, place: Assignment) -> None:
            hit = self._hit_of(session, place)
            if place.status is AssignmentStatus.SUBMITTED:
                assignments.reject(session, place, hit, self.now, "no")
            assignments.override_rejection(session, place, hit, self.now, "after all")

        wanted = AssignmentStatus.REJECTED if which % 2 else AssignmentStatus.SUBMITTED
        self._on_place(which, wanted, reject_and_override)

    @rule(which=pick, who=pick, cents=st.integers(min_value=-1, max_value=60))
    def bonus(self, which: int, who: int, cents: int) -> None:
        def to_the_worker_or_another(session: Session, place: Assignment) -> None:
            worker_id = place.worker_id if place.worker_id and who < 4 else self._worker(who).id
            assignments.send_bonus(session, self._hit_of(session, place), place, worker_id, cents, "good", self.now)

        self._on_place(which, AssignmentStatus.APPROVED, to_the_worker_or_another)

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
        self.stage.pass_time(seconds=seconds)

    @invariant()
    def money_in_is_money_out_plus_balance(self) -> None:
        with self.stage.market.read() as session:
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
            assert balances.get(money.held(self.stage.requester.id), 0) == held
            self._check_what_workers_have(session, balances)

    def _check_what_workers_have(self, session: Session, balances: dict[str, int]) -> None:
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
    def counts_add_up_and_no_place_has_two_workers(self) -> None:
        with self.stage.market.read() as session:
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
        takeable = hit.available > 0 and hit.expires_at > self.now
        if hit.status is HitStatus.DISPOSED:
            assert not hit.pending
            assert not hit.undecided
        else:
            assert (hit.status is HitStatus.ASSIGNABLE) == takeable
            assert takeable or (hit.status is HitStatus.UNASSIGNABLE) == (hit.pending > 0)
        places = hit.pending + hit.undecided + (hit.available if takeable and hit.status != "Disposed" else 0)
        assert hit.held_cents == 30 * places

    def _worker(self, who: int) -> Worker:
        return self.workers[who % len(self.workers)]

    def _hit_of(self, session: Session, place: Assignment) -> Hit:
        return session.scalars(select(Hit).where(Hit.id == place.hit_id)).one()

    def _decide(self, which: int, decide: Callable[..., None], wanted: AssignmentStatus) -> None:
        self._on_place(
            which, wanted, lambda session, one: decide(session, one, self._hit_of(session, one), self.now, "so")
        )

    def _try(self, act: Callable[[Session], object]) -> None:
        """Does it or is refused; anything else is a fault."""
        with suppress(MarketError), self.stage.market.write() as session:
            act(session)

    def _on_place(self, which: int, wanted: AssignmentStatus, act: Callable[[Session, Assignment], object]) -> None:
        """On a place in the state that it takes, or now and then on any."""

        def on_one(session: Session) -> None:
            found = list(session.scalars(select(Assignment).order_by(Assignment.number.desc()).limit(8)))
            fitting = [one for one in found if one.status is wanted]
            if which < 6 and fitting:
                found = fitting
            if found:
                act(session, found[which % len(found)])

        self._try(on_one)

    def _on_hit(self, which: int, act: Callable[[Session, Hit], object]) -> None:
        def on_one(session: Session) -> None:
            found = list(session.scalars(select(Hit).order_by(Hit.number.desc()).limit(8)))
            if found:
                act(session, found[which % len(found)])

        self._try(on_one)


TestPromises = Promises.TestCase
TestPromises.settings = settings(
    max_examples=12, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
