"""Where events are sent to."""

from urllib.parse import urlsplit

from mturk.marketplace import events
from mturk.marketplace.errors import MarketError, bad_parameter
from mturk.marketplace.hosts import place_of
from mturk.marketplace.operations.call import Call, Members, Operation
from mturk.marketplace.tables import Subscription

VERSIONS = ("2006-05-05", "2014-08-15")


def update_notification_settings(call: Call, members: Members) -> Members:
    """From now on, events of a HIT type are sent to a queue, or no longer."""
    kind = call.hit_type(members["HITTypeId"])
    subscription = call.session.get(Subscription, kind.id)
    notification = members.get("Notification")
    if notification is None and "Active" not in members:
        raise bad_parameter("either Notification or Active is required")
    if notification is not None:
        _check(notification)
        if subscription is None:
            subscription = Subscription(type_id=kind.id, destination="", transport="", version="", event_types=[])
            call.session.add(subscription)
        subscription.destination, subscription.transport = notification["Destination"], notification["Transport"]
        subscription.version, subscription.event_types = notification["Version"], notification["EventTypes"]
        subscription.active = True
    if subscription is None:
        raise bad_parameter(f"HITType {kind.id} has no Notification yet")
    if "Active" in members:
        subscription.active = members["Active"]
    call.session.flush()
    return {}


def send_test_event_notification(call: Call, members: Members) -> Members:
    """A test event to a queue."""
    notification = members["Notification"]
    _check(notification)
    events.ping(
        call.session,
        call.requester,
        notification["Destination"],
        notification["Version"],
        members["TestEventType"],
        call.now,
    )
    return {}


def _check(notification: Members) -> None:
    if notification["Transport"] != "SQS":
        raise bad_parameter(f"Notification.Transport: {notification['Transport']} is not supported here; use SQS")
    if notification["Version"] not in VERSIONS:
        raise bad_parameter(f"Notification.Version has to be one of {', '.join(VERSIONS)}")
    if not notification["EventTypes"]:
        raise bad_parameter("Notification.EventTypes: name at least one")
    try:
        parts, place = urlsplit(notification["Destination"]), place_of(notification["Destination"])
        fits = (parts.scheme == "https" or place.is_loopback) and bool(parts.path.strip("/"))
    except ValueError:
        fits = False
    if not fits:
        raise MarketError(
            "InvalidTransportEndpoint",
            "Notification.Destination has to be the https:// URL of an SQS queue; http:// is for this machine only",
        )


READS: dict[str, Operation] = {}
WRITES: dict[str, Operation] = {
    "UpdateNotificationSettings": update_notification_settings,
    "SendTestEventNotification": send_test_event_notification,
}
