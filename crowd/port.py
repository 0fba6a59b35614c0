"""The Crowd protocol: what a round needs of a marketplace, whichever one it is.

Every call that creates something or pays someone carries a Token. Within the crowd's token lifetime, a repeated call
with the same token takes effect once. Listings are complete: one iterator reads all pages.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from crowd.profile import BuiltInQualification, CrowdProfile, Price

# The most by which the clocks of two processes, or one clock before and after it was set, are expected to differ.
CLOCK_SKEW = timedelta(hours=2)


@dataclass(frozen=True)
class Token:
    """The ledger's key of a call, and when the call was first sent."""

    key: str
    first_sent_at: datetime

    def protects(self, now: datetime, lifetime: timedelta | None) -> bool:
        """Return whether a repeated call is certain to take effect only once.

        The call may be older than it seems, by as much as clocks differ. If it seems to be in the future by more than
        that, its age is unknown, and it protects nothing.
        """
        return lifetime is not None and -CLOCK_SKEW <= now - self.first_sent_at < lifetime - CLOCK_SKEW


class Comparator(enum.StrEnum):
    """How a worker's score is compared with a requirement."""

    EXISTS = "exists"
    DOES_NOT_EXIST = "does_not_exist"
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    MORE = "more"
    AT_LEAST = "at_least"
    LESS = "less"
    AT_MOST = "at_most"
    IN = "in"
    NOT_IN = "not_in"


class Restriction(enum.StrEnum):
    """What a worker who does not meet a requirement cannot do."""

    ACCEPT = "accept"
    PREVIEW = "preview"
    DISCOVER = "discover"


@dataclass(frozen=True)
class Requirement:
    """What a worker needs to accept a HIT: scores to compare with, or countries such as `US` for the locale."""

    qualification_id: str | BuiltInQualification
    comparator: Comparator
    values: tuple[int, ...] = ()
    countries: tuple[str, ...] = ()
    restriction: Restriction = Restriction.ACCEPT


@dataclass(frozen=True)
class HitTerms:
    """What the HITs of one group have in common."""

    title: str
    description: str
    keywords: tuple[str, ...]
    reward_cents: int
    assignment_seconds: int
    auto_approve_seconds: int
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class HitOrder:
    """One HIT to post: a page of ours, for a number of workers, for a limited time."""

    token: Token
    terms: HitTerms
    page_url: str
    max_assignments: int
    lifetime_seconds: int
    # 0 means the height of the window.
    frame_height: int = 0


class HitState(enum.StrEnum):
    """The status of a HIT on the marketplace."""

    ASSIGNABLE = "assignable"
    UNASSIGNABLE = "unassignable"
    REVIEWABLE = "reviewable"
    REVIEWING = "reviewing"
    DISPOSED = "disposed"


@dataclass(frozen=True)
class PostedHit:
    """A HIT on the marketplace; `key` is the token's key if the HIT is one of ours."""

    hit_id: str
    type_id: str
    group_id: str
    key: str
    state: HitState
    reward_cents: int
    max_assignments: int
    # Accepted and not submitted; not accepted; approved or rejected.
    pending: int
    available: int
    completed: int
    created_at: datetime
    expires_at: datetime

    @property
    def undecided(self) -> int:
        """The number of assignments that were submitted and neither approved nor rejected."""
        return self.max_assignments - self.pending - self.available - self.completed


class AssignmentState(enum.StrEnum):
    """The status of a submitted assignment."""

    SUBMITTED = "submitted"
    APPROVED = "approved"
    REJECTED = "rejected"


@dataclass(frozen=True)
class SubmittedAssignment:
    """What one worker submitted for a HIT; `answers` are keyed by the names of the form's fields."""

    assignment_id: str
    hit_id: str
    worker_id: str
    state: AssignmentState
    accepted_at: datetime
    submitted_at: datetime
    auto_approve_at: datetime | None
    decided_at: datetime | None
    feedback: str
    # Not in the repr: text that people typed must not reach a log.
    answers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class BonusOrder:
    """One bonus to pay to the worker who submitted the assignment; the worker reads the reason."""

    token: Token
    worker_id: str
    assignment_id: str
    cents: int
    reason: str


@dataclass(frozen=True)
class PaidBonus:
    """A bonus that the marketplace lists; `key` is the token's key if the bonus is one of ours."""

    key: str
    worker_id: str
    assignment_id: str
    cents: int
    reason: str
    paid_at: datetime


@dataclass(frozen=True)
class CrowdQualification:
    """A qualification that workers can be granted and HITs can require."""

    qualification_id: str
    name: str
    description: str


@dataclass(frozen=True)
class BlockedWorker:
    """A worker who cannot accept our HITs."""

    worker_id: str
    reason: str


@dataclass(frozen=True)
class UndeliveredMessage:
    """A message that did not reach a worker, and why."""

    worker_id: str
    reason: str


class Crowd(Protocol):
    """A marketplace. Every method raises a CrowdError, whose `retry` says whether trying again can help."""

    @property
    def name(self) -> str:
        """The marketplace's name in our database."""

    @property
    def profile(self) -> CrowdProfile:
        """What this kind of crowd charges, guarantees and accepts."""

    def price(self, terms: HitTerms, max_assignments: int) -> Price:
        """Return the price of one assignment of such a HIT, without calling the marketplace."""

    def bonus_price(self, cents: int) -> Price:
        """Return the price of a bonus, without calling the marketplace."""

    def balance(self) -> int:
        """Return how many cents can be spent now."""

    def post(self, order: HitOrder) -> PostedHit:
        """Post a HIT once; with a token that was used before, return the HIT that it created."""

    def hit(self, hit_id: str) -> PostedHit:
        """Return the current state of one HIT."""

    def hits(self) -> Iterator[PostedHit]:
        """List all HITs that were not deleted, usually the newest first, reading pages as needed."""

    def expire(self, hit_id: str) -> None:
        """Stop other workers from accepting a HIT; a worker who has accepted it may finish."""

    def assignments(self, hit_id: str, states: Sequence[AssignmentState] = ()) -> Iterator[SubmittedAssignment]:
        """List the submitted assignments of a HIT, in the given states or in any."""

    def assignment(self, assignment_id: str) -> SubmittedAssignment:
        """Return one submitted assignment."""

    def approve(self, assignment_id: str, feedback: str = "") -> None:
        """Approve an assignment, which pays the reward; an approved assignment stays as it is."""

    def reject(self, assignment_id: str, reason: str) -> None:
        """Reject an assignment, with a reason for the worker; a rejected assignment stays as it is."""

    def override_rejection(self, assignment_id: str, feedback: str = "") -> None:
        """Approve a rejected assignment, while the marketplace still allows it."""

    def bonus(self, order: BonusOrder) -> None:
        """Pay a bonus, once for each token."""

    def bonuses(self, *, hit_id: str = "", assignment_id: str = "") -> Iterator[PaidBonus]:
        """List the bonuses that were paid for a HIT or for one assignment."""

    def ensure_qualification(self, name: str, description: str) -> CrowdQualification:
        """Return the qualification with this name; create it if it is missing."""

    def grant(self, qualification_id: str, worker_id: str, score: int = 1) -> None:
        """Grant a qualification to a worker, or change the worker's score."""

    def revoke(self, qualification_id: str, worker_id: str, reason: str = "") -> None:
        """Revoke a worker's qualification; nothing happens if the worker does not have it."""

    def block(self, worker_id: str, reason: str) -> None:
        """Stop a worker from accepting our HITs."""

    def unblock(self, worker_id: str, reason: str = "") -> None:
        """Let a blocked worker accept our HITs again."""

    def blocks(self) -> Iterator[BlockedWorker]:
        """List the blocked workers."""

    def notify(self, worker_ids: Sequence[str], subject: str, text: str) -> list[UndeliveredMessage]:
        """Send a message to workers; return the messages that were not delivered."""

    def send_events(self, type_id: str, queue_url: str) -> None:
        """Send the events of a type's HITs to a queue from now on."""


@dataclass(frozen=True)
class ChangedHits:
    """HITs that events named, and the receipts of those events."""

    hit_ids: frozenset[str] = frozenset()
    receipts: tuple[str, ...] = field(default=(), repr=False)


class EventQueue(Protocol):
    """Events of a marketplace. They arrive at least once, in any order, and some never arrive: treat them as hints."""

    def take(self, wait_seconds: int = ...) -> ChangedHits:
        """Wait for events for a limited time and return the HITs that they name; the events stay until `done`."""

    def done(self, changed: ChangedHits) -> None:
        """Delete the events; events that are not deleted arrive again."""
