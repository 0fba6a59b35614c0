"""The rules of a marketplace, in memory: states, money, tokens, qualifications."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from crowd.errors import (
    CrowdError,
    CrowdRefused,
    InsufficientFunds,
    NotOnCrowd,
    TokenExpired,
    TokenMissing,
    WrongCrowdState,
)
from crowd.port import (
    AssignmentState,
    BlockedWorker,
    Comparator,
    CrowdQualification,
    HitOrder,
    HitState,
    HitTerms,
    PaidBonus,
    PostedHit,
    Requirement,
    SubmittedAssignment,
    Token,
)
from crowd.profile import BuiltInQualification
from mturk.profile import MTURK

PAGE = 100
TOKEN_LIFE = timedelta(hours=24)
COMPARE: dict[Comparator, Callable[[int, tuple[int, ...]], bool]] = {
    Comparator.EXISTS: lambda _score, _wanted: True,
    Comparator.EQUAL: lambda score, wanted: score == wanted[0],
    Comparator.NOT_EQUAL: lambda score, wanted: score != wanted[0],
    Comparator.MORE: lambda score, wanted: score > wanted[0],
    Comparator.AT_LEAST: lambda score, wanted: score >= wanted[0],
    Comparator.LESS: lambda score, wanted: score < wanted[0],
    Comparator.AT_MOST: lambda score, wanted: score <= wanted[0],
    Comparator.IN: lambda score, wanted: score in wanted,
    Comparator.NOT_IN: lambda score, wanted: score not in wanted,
}
One = TypeVar("One")


@dataclass
class Hit:
    """A HIT with its submitted work."""

    hit_id: str
    type_id: str
    order: HitOrder
    max_assignments: int
    created_at: datetime
    expires_at: datetime
    # By worker: when the HIT was accepted, and when its time is over.
    held: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    works: dict[str, SubmittedAssignment] = field(default_factory=dict)
    deleted: bool = False

    @property
    def available(self) -> int:
        """Places that can be accepted."""
        return self.max_assignments - len(self.held) - len(self.works)

    @property
    def place_cents(self) -> int:
        """What one assignment costs, with the fee."""
        return MTURK.fees.reward(self.order.terms.reward_cents, self.max_assignments).total_cents

    def count(self, *states: AssignmentState) -> int:
        """Return how many of its assignments are in one of these states."""
        return sum(one.state in states for one in self.works.values())

    def state(self, now: datetime) -> HitState:
        """Return its state."""
        if self.deleted:
            return HitState.DISPOSED
        if self.available and now < self.expires_at:
            return HitState.ASSIGNABLE
        return HitState.UNASSIGNABLE if self.held else HitState.REVIEWABLE

    def cost_cents(self, now: datetime) -> int:
        """Return what was paid and what is reserved for it."""
        places = len(self.works) - self.count(AssignmentState.REJECTED) + len(self.held)
        return self.place_cents * (places + (self.available if now < self.expires_at else 0))

    def told(self, now: datetime) -> PostedHit:
        """Return it as the marketplace lists it."""
        return PostedHit(
            hit_id=self.hit_id,
            type_id=self.type_id,
            group_id=f"GROUP{self.type_id}",
            key=self.order.token.key,
            state=self.state(now),
            reward_cents=self.order.terms.reward_cents,
            max_assignments=self.max_assignments,
            pending=len(self.held),
            available=self.available,
            completed=self.count(AssignmentState.APPROVED, AssignmentState.REJECTED),
            created_at=self.created_at,
            expires_at=self.expires_at,
        )


class Rules:
    """The marketplace's state and rules; every call is counted and can be made to fail."""

    def __init__(self, now: Callable[[], datetime], cents: int) -> None:
        self.calls: Counter[str] = Counter()
        self.countries: dict[str, str] = {}
        self._now = now
        self._money = cents
        self._hits: dict[str, Hit] = {}
        self._types: dict[HitTerms, str] = {}
        self._works: dict[str, Hit] = {}
        self._bonuses: list[PaidBonus] = []
        self._tokens: dict[tuple[str, str], tuple[datetime, str]] = {}
        self._kinds: dict[str, CrowdQualification] = {}
        # By qualification and worker.
        self.scores: dict[tuple[str, str], int] = {}
        self._blocks: dict[str, BlockedWorker] = {}
        self._faults: dict[int, tuple[CrowdError, bool]] = {}
        self._lock = threading.RLock()

    def deposit(self, cents: int) -> None:
        """Add money to the account."""
        self._money += cents

    def fail(self, error: CrowdError, *, call: int = 1, after: bool = False) -> None:
        """Make the n-th call from now fail, before or after it takes effect."""
        self._faults[self.calls.total() + call] = (error, after)

    def forget(self, hit_id: str) -> None:
        """Remove a HIT without a trace."""
        del self._hits[hit_id]

    def delete(self, hit_id: str) -> None:
        """Delete a HIT, as its owner can on the marketplace's own site."""
        self._hit(hit_id).deleted = True

    def grow(self, hit_id: str, more: int) -> None:
        """Add assignments to a HIT, as its owner can on the marketplace's own site."""
        self._hit(hit_id).max_assignments += more

    def forgive(self) -> None:
        """Cancel all planned failures."""
        self._faults.clear()

    @contextmanager
    def _call(self, method: str) -> Iterator[None]:
        with self._lock:
            self.calls[method] += 1
            error, after = self._faults.pop(self.calls.total(), (None, False))
            if error and not after:
                raise error
            self._catch_up()
            yield
            if error:
                raise error

    def _pages(self, method: str, find: Callable[[], list[One]]) -> Iterator[One]:
        with self._call(method):
            found = find()
        yield from found[:PAGE]
        for start in range(PAGE, len(found), PAGE):
            with self._call(method):
                some = found[start : start + PAGE]
            yield from some

    def _catch_up(self) -> None:
        now = self._now()
        for hit in self._hits.values():
            hit.held = {worker: times for worker, times in hit.held.items() if now < times[1]}
            for work in list(hit.works.values()):
                if work.state is AssignmentState.SUBMITTED and work.auto_approve_at and work.auto_approve_at <= now:
                    self._decide(work.assignment_id, AssignmentState.APPROVED, "")

    def _decide(self, assignment_id: str, wanted: AssignmentState, feedback: str) -> None:
        work = self._work(assignment_id)
        if work.state is wanted:
            return
        if work.state is not AssignmentState.SUBMITTED:
            raise WrongCrowdState(f"{assignment_id} is {work.state}")
        decided = replace(work, state=wanted, decided_at=self._now(), feedback=feedback)
        self._works[assignment_id].works[assignment_id] = decided

    def _work(self, assignment_id: str) -> SubmittedAssignment:
        if assignment_id not in self._works:
            raise NotOnCrowd(f"unknown assignment {assignment_id}")
        return self._works[assignment_id].works[assignment_id]

    def _hit(self, hit_id: str) -> Hit:
        if hit_id not in self._hits:
            raise NotOnCrowd(f"unknown HIT {hit_id}")
        return self._hits[hit_id]

    def _kind(self, qualification_id: str) -> CrowdQualification:
        if qualification_id not in self._kinds:
            raise NotOnCrowd(f"unknown qualification {qualification_id}")
        return self._kinds[qualification_id]

    def _check(self, token: Token) -> None:
        if not token.key:
            raise TokenMissing("the token is missing")
        if len(token.key) > MTURK.limits.token_length:
            raise CrowdRefused("that token is too long")
        if not token.protects(self._now(), MTURK.token_lifetime):
            raise TokenExpired(f"{token.key} has expired")

    def _made_by(self, method: str, token: Token) -> str:
        """Return what the token created, while it is remembered."""
        used_at, made = self._tokens.get((method, token.key), (None, ""))
        return made if used_at and self._now() - used_at < TOKEN_LIFE else ""

    def _remember(self, method: str, token: Token, made: str) -> None:
        self._tokens[method, token.key] = (self._now(), made)

    def _available(self) -> int:
        bonuses = sum(MTURK.fees.bonus(one.cents).total_cents for one in self._bonuses)
        return self._money - bonuses - sum(one.cost_cents(self._now()) for one in self._hits.values())

    def _must_afford(self, cents: int) -> None:
        if cents > self._available():
            raise InsufficientFunds(f"{cents} cents are needed and {self._available()} are there")

    def _meets(self, worker_id: str, requirement: Requirement) -> bool:
        if requirement.qualification_id == BuiltInQualification.LOCALE:
            same = self.countries.get(worker_id) in requirement.countries
            return same is (requirement.comparator in (Comparator.IN, Comparator.EQUAL))
        score = self.scores.get((requirement.qualification_id, worker_id))
        if score is None or requirement.comparator is Comparator.DOES_NOT_EXIST:
            return (score is None) is (requirement.comparator is Comparator.DOES_NOT_EXIST)
        return COMPARE[requirement.comparator](score, requirement.values)
