"""Events: what happened to HITs, written with the change itself and delivered later."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from mturk.marketplace.ids import entity_id
from mturk.marketplace.tables import Hit, OutgoingEvent, Requester, Subscription


def record(session: Session, hit: Hit, kind: str, happened_at: datetime, assignment_id: str | None = None) -> None:
    """Puts an event into the outbox, where somebody wants to know of such."""
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
    """Who wants to know, looked up once in a transaction: in the one that subscribes, nothing else happens."""
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
    """A message in MTurk's own form, to be delivered at least once."""
    body = {
        "EventDocId": entity_id(),
        "EventDocVersion": version,
        "CustomerId": requester_id,
        "Events": list(events),
    }
    session.add(OutgoingEvent(destination=destination, body=json.dumps(body), made_at=now, due_at=now))


def ping(session: Session, requester: Requester, destination: str, version: str, kind: str, now: datetime) -> None:
    """A test event, with ids that are nobody's."""
    event = {
        "EventType": kind,
        "EventTimestamp": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "HITId": entity_id(),
        "HITTypeId": entity_id(),
    }
    if kind.startswith("Assignment"):
        event["AssignmentId"] = entity_id()
    enqueue(session, requester.id, destination, version, [event], now)
