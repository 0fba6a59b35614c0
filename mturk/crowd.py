"""The crowd, in our words: what a round needs of a marketplace, whoever runs it.

Every call that creates or pays carries a Token, and done again with the same one it is done once. Listings are whole:
however many pages the marketplace cuts them into, one iterator goes through all of them.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

# How long a marketplace remembers a token, and how long we rely on that.
TOKEN_LIFE = timedelta(hours=24)
TOKEN_MARGIN = timedelta(hours=1)
CLOCK_SKEW = timedelta(minutes=5)
LONGEST_TOKEN = 64


@dataclass(frozen=True)
class Token:
    """The ledger's key of a call, and when it was first sent: done again within a day, the call is done once."""

    key: str
    first_sent_at: datetime

    def protects(self, now: datetime) -> bool:
        """Whether the marketplace surely still remembers it; one from the future was sent by a clock that jumped."""
        return -CLOCK_SKEW <= now - self.first_sent_at < TOKEN_LIFE - TOKEN_MARGIN


class Comparator(enum.StrEnum):
    """How a worker's score is held against a requirement."""

    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    EQUAL = "EqualTo"
    NOT_EQUAL = "NotEqualTo"
    MORE = "GreaterThan"
    AT_LEAST = "GreaterThanOrEqualTo"
    LESS = "LessThan"
    AT_MOST = "LessThanOrEqualTo"
    IN = "In"
    NOT_IN = "NotIn"


class Guarded(enum.StrEnum):
    """What a worker who does not meet a requirement cannot do."""

    ACCEPT = "Accept"
    PREVIEW = "PreviewAndAccept"
    DISCOVER = "DiscoverPreviewAndAccept"


class BuiltIn(enum.StrEnum):
    """Qualifications that every marketplace of this protocol keeps by itself."""

    APPROVAL_RATE = "000000000000000000L0"
    HITS_APPROVED = "00000000000000000040"
    LOCALE = "00000000000000000071"
    ADULT = "00000000000000000060"


@dataclass(frozen=True)
class Requirement:
    """What a worker must have to take a HIT: scores to compare with, or for the locale countries such as `US`."""

    qualification_id: str
    comparator: Comparator
    values: tuple[int, ...] = ()
    countries: tuple[str, ...] = ()
    guarded: Guarded = Guarded.ACCEPT


@dataclass(frozen=True)
class Terms:
    """What the HITs of one group have in common; workers find them by it."""

    title: str
    description: str
    keywords: tuple[str, ...]
    reward_cents: int
    assignment_seconds: int
    auto_approve_seconds: int
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class HitOrder:
    """One HIT to post: a page of ours in the marketplace's frame, for so many workers, for so long."""

    token: Token
    terms: Terms
    page_url: str
    max_assignments: int
    lifetime_seconds: int
    # 0: as high as the window allows.
    frame_height: int = 0


class HitState(enum.StrEnum):
    """Where a HIT is on the marketplace."""

    ASSIGNABLE = "assignable"
    UNASSIGNABLE = "unassignable"
    REVIEWABLE = "reviewable"
    REVIEWING = "reviewing"
    DISPOSED = "disposed"


@dataclass(frozen=True)
class PostedHit:
    """A HIT as it stands on the marketplace; `key` is the token's, where it is one of ours."""

    hit_id: str
    type_id: str
    group_id: str
    key: str
    state: HitState
    reward_cents: int
    max_assignments: int
    # Taken by workers and not handed in; still to be taken; approved or rejected.
    pending: int
    available: int
    completed: int
    created_at: datetime
    expires_at: datetime

    @property
    def undecided(self) -> int:
        """Handed in, and neither approved nor rejected."""
        return self.max_assignments - self.pending - self.available - self.completed


class WorkState(enum.StrEnum):
    """Where a piece of work is that was handed in."""

    SUBMITTED = "submitted"
    APPROVED = "approved"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Work:
    """What one worker handed in for a HIT; answers by the names of the form's fields."""

    assignment_id: str
    hit_id: str
    worker_id: str
    state: WorkState
    accepted_at: datetime
    submitted_at: datetime
    auto_approve_at: datetime | None
    decided_at: datetime | None
    feedback: str
    # Not in the repr: what people typed must not reach a log.
    answers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class BonusOrder:
    """One bonus to pay to whoever handed in the assignment; the reason is for them to read."""

    token: Token
    worker_id: str
    assignment_id: str
    cents: int
    reason: str


@dataclass(frozen=True)
class PaidBonus:
    """A bonus as the marketplace tells it; `key` is the token's, where it is one of ours."""

    key: str
    worker_id: str
    assignment_id: str
    cents: int
    reason: str
    paid_at: datetime


@dataclass(frozen=True)
class QualificationKind:
    """Something that workers can be granted and HITs can ask for."""

    qualification_id: str
    name: str
    description: str


@dataclass(frozen=True)
class Holder:
    """A worker who holds a qualification."""

    worker_id: str
    score: int
    granted_at: datetime


@dataclass(frozen=True)
class Blocked:
    """A worker who gets no work of ours."""

    worker_id: str
    reason: str


@dataclass(frozen=True)
class Undelivered:
    """A worker whom a message did not reach, and why."""

    worker_id: str
    reason: str


@dataclass(frozen=True)
class Price:
    """What one assignment costs: what the worker gets, and what the marketplace takes on top."""

    cents: int
    fee_cents: int

    @property
    def total_cents(self) -> int:
        """Both together."""
        return self.cents + self.fee_cents


class Crowd(Protocol):
    """A marketplace; every method raises a CrowdError that says whether trying again helps."""

    @property
    def name(self) -> str:
        """What the marketplace is called in our database."""
        ...

    def price(self, terms: Terms, max_assignments: int) -> Price:
        """What one assignment of such a HIT costs; asks nobody."""
        ...

    def bonus_price(self, cents: int) -> Price:
        """What a bonus costs; asks nobody."""
        ...

    def balance(self) -> int:
        """Cents that can be spent now."""
        ...

    def post(self, order: HitOrder) -> PostedHit:
        """The HIT, posted once; with a token that was used before, the one that it made."""
        ...

    def hit(self, hit_id: str) -> PostedHit:
        """One HIT as it stands."""
        ...

    def hits(self) -> Iterator[PostedHit]:
        """All HITs that were not deleted, usually the newest first; lazily, so that whoever has seen enough stops."""
        ...

    def extend(self, token: Token, hit_id: str, more: int) -> None:
        """So many more assignments, once; a HIT of fewer than ten never grows to ten."""
        ...

    def expire(self, hit_id: str) -> None:
        """Nobody else can take it from now on; who has it may finish."""
        ...

    def delete(self, hit_id: str) -> None:
        """Takes a HIT off the list, when all its work is decided."""
        ...

    def works(self, hit_id: str, states: Sequence[WorkState] = ()) -> Iterator[Work]:
        """What was handed in for a HIT; in any state when none is named."""
        ...

    def work(self, assignment_id: str) -> Work:
        """One piece of work that was handed in."""
        ...

    def approve(self, assignment_id: str, feedback: str = "") -> None:
        """Pays the reward; what is approved already stays so."""
        ...

    def reject(self, assignment_id: str, reason: str) -> None:
        """Pays nothing, for a reason that the worker reads; what is rejected already stays so."""
        ...

    def override_rejection(self, assignment_id: str, feedback: str = "") -> None:
        """Approves after all what was rejected; possible for 30 days."""
        ...

    def bonus(self, order: BonusOrder) -> None:
        """Pays a bonus, once for each token."""
        ...

    def bonuses(self, *, hit_id: str = "", assignment_id: str = "") -> Iterator[PaidBonus]:
        """The bonuses that were paid for a HIT or for one assignment."""
        ...

    def ensure_qualification(self, name: str, description: str) -> QualificationKind:
        """The qualification of that name, made where there is none."""
        ...

    def grant(self, qualification_id: str, worker_id: str, score: int = 1) -> None:
        """Gives a worker the qualification, or another score in it."""
        ...

    def revoke(self, qualification_id: str, worker_id: str, reason: str = "") -> None:
        """Takes it back; who does not hold it stays without."""
        ...

    def holders(self, qualification_id: str) -> Iterator[Holder]:
        """Who holds it now."""
        ...

    def block(self, worker_id: str, reason: str) -> None:
        """This worker gets no work of ours any more."""
        ...

    def unblock(self, worker_id: str, reason: str = "") -> None:
        """This worker gets work again."""
        ...

    def blocks(self) -> Iterator[Blocked]:
        """Who is blocked."""
        ...

    def notify(self, worker_ids: Sequence[str], subject: str, text: str) -> list[Undelivered]:
        """Sends a message to workers; whom it did not reach is told."""
        ...

    def send_events(self, type_id: str, queue_url: str) -> None:
        """From now on, what happens to the HITs of a type is also told to a queue."""
        ...
