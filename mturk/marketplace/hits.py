"""HITs and their types: made, extended, expired and deleted, with the money that each step holds or gives back."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.text import count
from mturk.marketplace import events, standing
from mturk.marketplace.errors import MarketError, bad_parameter
from mturk.marketplace.ids import entity_id
from mturk.marketplace.questions import Page
from mturk.marketplace.tables import Hit, HitStatus, HitType, Requester
from mturk.profile import MTURK

MOST_ASSIGNMENTS = 1_000_000
SHORTEST_SECONDS, LONGEST_SECONDS = 30, 31_536_000
LONGEST_AUTO_APPROVE = 2_592_000
LARGEST_REWARD_CENTS = 1_000_000
# Control characters, and those that have text run the other way: with them, a title can be seen as another one.
MISLEADING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
BREAKS = re.compile("[\t\n\r]")


@dataclass(frozen=True)
class TypeTerms:
    """What makes a HIT type; the same terms of the same requester are the same type."""

    title: str
    description: str
    keywords: str
    reward_cents: int
    assignment_seconds: int
    auto_approve_seconds: int
    requirements: list[dict[str, Any]]

    def __post_init__(self) -> None:
        within("Title", len(self.title.strip()), 1, 128, "characters")
        within("Description", len(self.description.strip()), 1, 2000, "characters")
        within("Keywords", len(self.keywords), 0, 1000, "characters")
        for name, text in (("Title", self.title), ("Description", self.description), ("Keywords", self.keywords)):
            if MISLEADING.search(text) or (name == "Title" and BREAKS.search(text)):
                raise bad_parameter(
                    f"{name} has characters that cannot be seen or turn the text around; leave them out"
                )
        within("Reward", self.reward_cents, 0, LARGEST_REWARD_CENTS, "cents")
        within("AssignmentDurationInSeconds", self.assignment_seconds, SHORTEST_SECONDS, LONGEST_SECONDS, "seconds")
        within("AutoApprovalDelayInSeconds", self.auto_approve_seconds, 0, LONGEST_AUTO_APPROVE, "seconds")

    @property
    def fingerprint(self) -> str:
        """The same for the same terms."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def within(name: str, value: int, least: int, most: int, unit: str) -> None:
    """Refuses a number that is out of its bounds, by the name that the requester knows."""
    if not least <= value <= most:
        raise bad_parameter(f"{name}: {value} {unit}, it has to be from {least} to {most}")


def ensure_type(session: Session, requester: Requester, terms: TypeTerms) -> HitType:
    """The type with these terms, made where there is none."""
    same = select(HitType).where(HitType.requester_id == requester.id, HitType.fingerprint == terms.fingerprint)
    kind = session.scalars(same).one_or_none()
    if kind is None:
        kind = HitType(
            id=entity_id(),
            group_id=entity_id(),
            requester_id=requester.id,
            fingerprint=terms.fingerprint,
            **asdict(terms),
        )
        session.add(kind)
        session.flush()
    return kind


def create(
    session: Session,
    kind: HitType,
    page: Page,
    question: str,
    *,
    max_assignments: int,
    lifetime_seconds: int,
    annotation: str | None,
    now: datetime,
) -> Hit:
    """A HIT that workers can take at once; all that it can cost is held from now on, or it is refused."""
    within("MaxAssignments", max_assignments, 1, MOST_ASSIGNMENTS, "assignments")
    within("LifetimeInSeconds", lifetime_seconds, SHORTEST_SECONDS, LONGEST_SECONDS, "seconds")
    within("RequesterAnnotation", len(annotation or ""), 0, 255, "characters")
    hit = Hit(
        id=entity_id(),
        requester_id=kind.requester_id,
        type_id=kind.id,
        question=question,
        page_url=page.url,
        frame_height=page.frame_height,
        annotation=annotation,
        max_assignments=max_assignments,
        reward_cents=kind.reward_cents,
        fee_cents=MTURK.fees.reward(kind.reward_cents, max_assignments).fee_cents,
        created_at=now,
        expires_at=now + timedelta(seconds=lifetime_seconds),
        # Before it is in the database, which fills in defaults only then.
        expired=False,
        status=HitStatus.ASSIGNABLE,
        pending=0,
        undecided=0,
        completed=0,
        held_cents=0,
    )
    standing.refresh(session, hit, now)
    session.add(hit)
    events.record(session, hit, "HITCreated", now)
    return hit


def extend(session: Session, hit: Hit, more: int, now: datetime) -> None:
    """More assignments; across ten the fee would change, so a HIT of fewer never grows to ten."""
    _must_exist(hit)
    within("NumberOfAdditionalAssignments", more, 1, MOST_ASSIGNMENTS - hit.max_assignments, "assignments")
    if MTURK.fees.rises_for(hit.max_assignments + more) and not MTURK.fees.rises_for(hit.max_assignments):
        raise MarketError(
            "InvalidMaximumAssignmentsIncrease",
            f"HIT {hit.id} has {count(hit.max_assignments, 'assignment')} and cannot grow to "
            f"{hit.max_assignments + more}: its fee would rise; post another one",
        )
    hit.max_assignments += more
    standing.refresh(session, hit, now)
    events.record(session, hit, "HITExtended", now)
    session.flush()


def change_expiration(session: Session, hit: Hit, expires_at: datetime, now: datetime) -> None:
    """Another end of its lifetime; one in the past is now."""
    _must_exist(hit)
    if expires_at > now + timedelta(seconds=LONGEST_SECONDS):
        raise bad_parameter("ExpireAt: more than a year from now")
    if expires_at <= now:
        if not hit.expired:
            hit.expires_at = now
            standing.expire(session, hit, now)
    else:
        extended = expires_at > hit.expires_at
        hit.expires_at, hit.expired = expires_at, False
        standing.refresh(session, hit, now)
        if extended:
            events.record(session, hit, "HITExtended", now)
    session.flush()


def mark(session: Session, hit: Hit, *, reviewing: bool) -> None:
    """A Reviewable HIT becomes Reviewing, or the other way round; a sign for the requester's own order."""
    needed = HitStatus.REVIEWABLE if reviewing else HitStatus.REVIEWING
    if hit.status is not needed:
        raise MarketError("InvalidHITState", f"HIT {hit.id} is {hit.status}; it would have to be {needed}")
    hit.status = HitStatus.REVIEWING if reviewing else HitStatus.REVIEWABLE
    session.flush()


def delete(session: Session, hit: Hit, now: datetime) -> None:
    """Takes a HIT off the lists when nobody works on it and all its work is decided."""
    _must_exist(hit)
    if hit.status not in (HitStatus.REVIEWABLE, HitStatus.REVIEWING):
        raise MarketError(
            "InvalidHITState",
            f"HIT {hit.id} is {hit.status}; only a Reviewable HIT can be deleted: expire it and wait for its workers",
        )
    if hit.undecided:
        raise MarketError(
            "InvalidHITState",
            f"HIT {hit.id} has {count(hit.undecided, 'submitted assignment')} to be approved or rejected first",
        )
    hit.status, hit.listed, hit.expired = HitStatus.DISPOSED, False, True
    standing.refresh(session, hit, now)
    events.record(session, hit, "HITDisposed", now)
    session.flush()


def _must_exist(hit: Hit) -> None:
    if hit.status is HitStatus.DISPOSED:
        raise MarketError("InvalidHITState", f"HIT {hit.id} was deleted")
