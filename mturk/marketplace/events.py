"""Events about HITs: stored in the same transaction as the change, delivered later."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from mturk.marketplace.tables.base import entity_id
from mturk.marketplace.tables.people import Requester
from mturk.marketplace.tables.work import Hit, OutgoingEvent, Subscription


def record(session: Session, hit: Hit, kind: str, happened_at: datetime, assignment_id: str | None = None) -> None:
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
