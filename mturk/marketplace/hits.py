"""HITs and HIT types: create, extend, expire and delete them, hold the money that they can cost, record their events.

An event is stored in the same transaction as the change, and delivered later.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.text import count
from mturk.marketplace import money
from mturk.marketplace.errors import InvalidParameter, InvalidState
from mturk.marketplace.questions import QuestionPage
from mturk.marketplace.tables.base import entity_id
from mturk.marketplace.tables.people import Requester
from mturk.marketplace.tables.work import Hit, HitStatus, HitType, OutgoingEvent, Subscription
from mturk.profile import MTURK

MOST_ASSIGNMENTS = 1_000_000
SHORTEST_SECONDS, LONGEST_SECONDS = 30, 31_536_000
LONGEST_AUTO_APPROVE = 2_592_000
LARGEST_REWARD_CENTS = 1_000_000
# Control characters and direction marks, which can make a title look like a different one.
MISLEADING_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
LINE_BREAKS = re.compile("[\t\n\r]")


@dataclass(frozen=True)
class TypeTerms:
    """The parameters of a HIT type; equal terms of one requester are the same type."""

    title: str
    description: str
    keywords: str
    reward_cents: int
    assignment_seconds: int
    auto_approve_seconds: int
    requirements: list[dict[str, Any]]

    def __post_init__(self) -> None:
        check_range("Title", len(self.title.strip()), 1, 128, "characters")
        check_range("Description", len(self.description.strip()), 1, 2000, "characters")
        check_range("Keywords", len(self.keywords), 0, 1000, "characters")
        for name, text in (("Title", self.title), ("Description", self.description), ("Keywords", self.keywords)):
            if MISLEADING_CHARACTERS.search(text) or (name == "Title" and LINE_BREAKS.search(text)):
                raise InvalidParameter(f"{name} contains control characters or text direction marks; remove them")
        check_range("Reward", self.reward_cents, 0, LARGEST_REWARD_CENTS, "cents")
        check_range(
            "AssignmentDurationInSeconds", self.assignment_seconds, SHORTEST_SECONDS, LONGEST_SECONDS, "seconds"
        )
        check_range("AutoApprovalDelayInSeconds", self.auto_approve_seconds, 0, LONGEST_AUTO_APPROVE, "seconds")

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for equal terms."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def check_range(name: str, value: int, least: int, most: int, unit: str) -> None:
    """Refuse a number outside its range; `name` is the parameter's name in the API."""
    if not least <= value <= most:
        raise InvalidParameter(f"{name}: {value} {unit} is out of range; it has to be from {least} to {most}")


def find_or_create_type(session: Session, requester: Requester, terms: TypeTerms) -> HitType:
    """Return the type with these terms; create it if it does not exist."""
    same = select(HitType).where(HitType.requester_id == requester.id, HitType.fingerprint == terms.fingerprint)
    hit_type = session.scalars(same).one_or_none()
    if hit_type is None:
        hit_type = HitType(
            id=entity_id(),
            group_id=entity_id(),
            requester_id=requester.id,
            fingerprint=terms.fingerprint,
            **asdict(terms),
        )
        session.add(hit_type)
        session.flush()
    return hit_type


def create(
    session: Session,
    hit_type: HitType,
    page: QuestionPage,
    question: str,
    *,
    max_assignments: int,
    lifetime_seconds: int,
    annotation: str | None,
    now: datetime,
) -> Hit:
    """Create a HIT that workers can accept at once; hold everything that it can cost."""
    check_range("MaxAssignments", max_assignments, 1, MOST_ASSIGNMENTS, "assignments")
    check_range("LifetimeInSeconds", lifetime_seconds, SHORTEST_SECONDS, LONGEST_SECONDS, "seconds")
    check_range("RequesterAnnotation", len(annotation or ""), 0, 255, "characters")
    hit = Hit(
        id=entity_id(),
        requester_id=hit_type.requester_id,
        type_id=hit_type.id,
        question=question,
        page_url=page.url,
        frame_height=page.frame_height,
        annotation=annotation,
        max_assignments=max_assignments,
        reward_cents=hit_type.reward_cents,
        fee_cents=MTURK.fees.reward(hit_type.reward_cents, max_assignments).fee_cents,
        created_at=now,
        expires_at=now + timedelta(seconds=lifetime_seconds),
        # Set here because column defaults are applied only when the row is inserted.
        expired=False,
        status=HitStatus.ASSIGNABLE,
        pending=0,
        undecided=0,
        completed=0,
        held_cents=0,
    )
    update_state(session, hit, now)
    session.add(hit)
    record_event(session, hit, "HITCreated", now)
    return hit


def extend(session: Session, hit: Hit, more: int, now: datetime) -> None:
    """Add assignments, unless that would raise the fee of those already posted."""
    _check_not_deleted(hit)
    check_range("NumberOfAdditionalAssignments", more, 1, MOST_ASSIGNMENTS - hit.max_assignments, "assignments")
    if MTURK.fees.rises_for(hit.max_assignments + more) and not MTURK.fees.rises_for(hit.max_assignments):
        raise InvalidState(
            "InvalidMaximumAssignmentsIncrease",
            f"HIT {hit.id} has {count(hit.max_assignments, 'assignment')} and cannot grow to "
            f"{hit.max_assignments + more}: its fee would rise; post another HIT",
        )
    hit.max_assignments += more
    update_state(session, hit, now)
    record_event(session, hit, "HITExtended", now)
    session.flush()


def change_expiration(session: Session, hit: Hit, expires_at: datetime, now: datetime) -> None:
    """Change when a HIT expires; a time in the past expires it now."""
    _check_not_deleted(hit)
    if expires_at > now + timedelta(seconds=LONGEST_SECONDS):
        raise InvalidParameter("ExpireAt: more than a year from now")
    if expires_at <= now:
        if not hit.expired:
            hit.expires_at = now
            expire(session, hit, now)
    else:
        extended = expires_at > hit.expires_at
        hit.expires_at, hit.expired = expires_at, False
        update_state(session, hit, now)
        if extended:
            record_event(session, hit, "HITExtended", now)
    session.flush()


def set_reviewing(session: Session, hit: Hit, *, reviewing: bool) -> None:
    """Set a Reviewable HIT to Reviewing, or back; the mark is for the requester only."""
    needed = HitStatus.REVIEWABLE if reviewing else HitStatus.REVIEWING
    if hit.status is not needed:
        raise InvalidState("InvalidHITState", f"HIT {hit.id} is {hit.status}; it has to be {needed}")
    hit.status = HitStatus.REVIEWING if reviewing else HitStatus.REVIEWABLE
    session.flush()


def delete(session: Session, hit: Hit, now: datetime) -> None:
    """Delete a HIT that no worker holds and whose work is all decided."""
    _check_not_deleted(hit)
    if hit.status not in (HitStatus.REVIEWABLE, HitStatus.REVIEWING):
        raise InvalidState(
            "InvalidHITState",
            f"HIT {hit.id} is {hit.status}; only a Reviewable HIT can be deleted: expire it and wait for its workers",
        )
    if hit.undecided:
        raise InvalidState(
            "InvalidHITState",
            f"HIT {hit.id} has {count(hit.undecided, 'submitted assignment')} to be approved or rejected first",
        )
    hit.status, hit.listed, hit.expired = HitStatus.DISPOSED, False, True
    update_state(session, hit, now)
    record_event(session, hit, "HITDisposed", now)
    session.flush()


def _check_not_deleted(hit: Hit) -> None:
    if hit.status is HitStatus.DISPOSED:
        raise InvalidState("InvalidHITState", f"HIT {hit.id} was deleted")


def update_state(session: Session, hit: Hit, now: datetime) -> None:
    """Update the status and the hold of a HIT from its counts; refuse if the balance does not cover the hold."""
    _hold(session, hit, now)
    before, hit.status = hit.status, _status(hit)
    if hit.status is HitStatus.REVIEWABLE and before is not HitStatus.REVIEWABLE:
        record_event(session, hit, "HITReviewable", now)


def expire(session: Session, hit: Hit, now: datetime) -> None:
    """Expire a HIT: it can no longer be accepted, but workers who hold it may finish."""
    hit.expired = True
    record_event(session, hit, "HITExpired", min(now, hit.expires_at))
    update_state(session, hit, now)


def _status(hit: Hit) -> HitStatus:
    if hit.status is HitStatus.DISPOSED:
        return hit.status
    if hit.available and not hit.expired:
        return HitStatus.ASSIGNABLE
    if hit.pending:
        return HitStatus.UNASSIGNABLE
    return HitStatus.REVIEWING if hit.status is HitStatus.REVIEWING else HitStatus.REVIEWABLE


def _hold(session: Session, hit: Hit, now: datetime) -> None:
    """Hold what can still be owed: for accepted, undecided and available assignments."""
    places = hit.pending + hit.undecided + (0 if hit.expired else hit.available)
    needed = places * (hit.reward_cents + hit.fee_cents)
    free, held = money.available(hit.requester_id), money.held(hit.requester_id)
    if needed > hit.held_cents:
        money.move(session, free, held, needed - hit.held_cents, "hold", now, hit_id=hit.id)
    elif needed < hit.held_cents:
        money.move(session, held, free, hit.held_cents - needed, "release", now, hit_id=hit.id)
    hit.held_cents = needed


def record_event(
    session: Session, hit: Hit, kind: str, happened_at: datetime, assignment_id: str | None = None
) -> None:
    """Store an event, if the HIT type has a subscription for it."""
    subscription = _subscription(session, hit.type_id)
    if subscription is None or not subscription.active or kind not in subscription.event_types:
        return
    event = {
        "EventType": kind,
        "EventTimestamp": happened_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "HITId": hit.id,
        "HITTypeId": hit.type_id,
        **({"AssignmentId": assignment_id} if assignment_id else {}),
    }
    enqueue(session, hit.requester_id, subscription.destination, subscription.version, [event], happened_at)


def _subscription(session: Session, type_id: str) -> Subscription | None:
    """Return the subscription, read once per transaction; the transaction that subscribes changes nothing else."""
    known: dict[str, Subscription | None] = session.info.setdefault("subscriptions", {})
    if type_id not in known:
        with session.no_autoflush:
            known[type_id] = session.get(Subscription, type_id)
    return known[type_id]


def enqueue(
    session: Session,
    requester_id: str,
    destination: str,
    version: str,
    events: Sequence[dict[str, str]],
    now: datetime,
) -> None:
    """Store a message in MTurk's format, to be delivered at least once."""
    body = {
        "EventDocId": entity_id(),
        "EventDocVersion": version,
        "CustomerId": requester_id,
        "Events": list(events),
    }
    session.add(OutgoingEvent(destination=destination, body=json.dumps(body), made_at=now, due_at=now))


def enqueue_test_event(
    session: Session, requester: Requester, destination: str, version: str, kind: str, now: datetime
) -> None:
    """Store a test event with random ids."""
    event = {
        "EventType": kind,
        "EventTimestamp": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "HITId": entity_id(),
        "HITTypeId": entity_id(),
    }
    if kind.startswith("Assignment"):
        event["AssignmentId"] = entity_id()
    enqueue(session, requester.id, destination, version, [event], now)
