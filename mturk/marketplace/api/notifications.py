"""Operations on event subscriptions."""

from urllib.parse import urlsplit

from mturk.marketplace import events
from mturk.marketplace.api.call import Call, Members, Operation
from mturk.marketplace.errors import InvalidEndpoint, InvalidParameter
from mturk.marketplace.tables.work import Subscription
from mturk.marketplace.urls import parse_host

VERSIONS = ("2006-05-05", "2014-08-15")


def update_notification_settings(call: Call, members: Members) -> Members:
    """Send the events of a HIT type to a queue, or stop sending them."""
    hit_type = call.hit_type(members["HITTypeId"])
    subscription = call.session.get(Subscription, hit_type.id)
    notification = members.get("Notification")
    if notification is None and "Active" not in members:
        raise InvalidParameter("either Notification or Active is required")
    if notification is not None:
        _check_notification(notification)
        if subscription is None:
            subscription = Subscription(type_id=hit_type.id, destination="", transport="", version="", event_types=[])
            call.session.add(subscription)
        subscription.destination, subscription.transport = notification["Destination"], notification["Transport"]
        subscription.version, subscription.event_types = notification["Version"], notification["EventTypes"]
        subscription.active = True
    if subscription is None:
        raise InvalidParameter(f"HITType {hit_type.id} has no Notification yet")
    if "Active" in members:
        subscription.active = members["Active"]
    call.session.flush()
    return {}


def send_test_event_notification(call: Call, members: Members) -> Members:
    """Send a test event to a queue."""
    notification = members["Notification"]
    _check_notification(notification)
    events.enqueue_test_event(
        call.session,
        call.requester,
        notification["Destination"],
        notification["Version"],
        members["TestEventType"],
        call.now,
    )
    return {}


def _check_notification(notification: Members) -> None:
    if notification["Transport"] != "SQS":
        raise InvalidParameter(f"Notification.Transport: {notification['Transport']} is not supported here; use SQS")
    if notification["Version"] not in VERSIONS:
        raise InvalidParameter(f"Notification.Version has to be one of {', '.join(VERSIONS)}")
    if not notification["EventTypes"]:
        raise InvalidParameter("Notification.EventTypes: name at least one")
    try:
        parts, host = urlsplit(notification["Destination"]), parse_host(notification["Destination"])
        valid = (parts.scheme == "https" or host.is_loopback) and bool(parts.path.strip("/"))
    except ValueError:
        valid = False
    if not valid:
        raise InvalidEndpoint(
            "Notification.Destination has to be the https:// URL of an SQS queue; http:// is for this machine only",
        )


READS: dict[str, Operation] = {}
WRITES: dict[str, Operation] = {
    "UpdateNotificationSettings": update_notification_settings,
    "SendTestEventNotification": send_test_event_notification,
}
