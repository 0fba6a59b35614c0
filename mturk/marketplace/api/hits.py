"""Operations on HITs, HIT types and the subscriptions to their events."""

from typing import Any

from sqlalchemy import select

from mturk.marketplace import hits, qualifications
from mturk.marketplace.api.call import Call, Members, format_amount, parse_cents
from mturk.marketplace.errors import DuplicateToken, InvalidParameter
from mturk.marketplace.qualifications import BUILT_IN
from mturk.marketplace.questions import external_page
from mturk.marketplace.tables.work import Hit, HitStatus, HitType, Subscription

EVENT_VERSIONS = ("2006-05-05", "2014-08-15")
UNSUPPORTED = ("AssignmentReviewPolicy", "HITReviewPolicy", "HITLayoutId", "HITLayoutParameters")


def create_hit_type(call: Call, members: Members) -> Members:
    """Return the HIT type with these parameters; create it if it does not exist."""
    return {"HITTypeId": _type(call, members).id}


def create_hit(call: Call, members: Members) -> Members:
    """Create a HIT, and its type if needed."""
    _refuse_reused_token(call, members)
    return _create(call, _type(call, members), members)


def create_hit_with_hit_type(call: Call, members: Members) -> Members:
    """Create a HIT of an existing type."""
    _refuse_reused_token(call, members)
    return _create(call, call.hit_type(members["HITTypeId"]), members)


def get_hit(call: Call, members: Members) -> Members:
    """Return a HIT."""
    return {"HIT": hit_members(*call.hit(members["HITId"]))}


def list_hits(call: Call, members: Members) -> Members:
    """List all HITs that were not deleted, the newest first."""
    query = _hits(call).where(Hit.listed)
    return call.page(query, Hit.number, members, key="HITs", render=_row, newest_first=True)


def list_reviewable_hits(call: Call, members: Members) -> Members:
    """List Reviewable HITs, or those marked as Reviewing."""
    query = _hits(call).where(Hit.status == HitStatus(members.get("Status", HitStatus.REVIEWABLE)))
    if "HITTypeId" in members:
        query = query.where(Hit.type_id == call.hit_type(members["HITTypeId"]).id)
    return call.page(query, Hit.number, members, key="HITs", render=_row)


def list_hits_for_qualification_type(call: Call, members: Members) -> Members:
    """List HITs that require a qualification, the newest first."""
    key = members["QualificationTypeId"]
    if key not in BUILT_IN:
        call.qualification(key)
    types = select(HitType.id, HitType.requirements).where(HitType.requester_id == call.requester.id)
    asking = [
        type_id
        for type_id, requirements in call.session.execute(types)
        if any(requirement["QualificationTypeId"] == key for requirement in requirements)
    ]
    query = _hits(call).where(Hit.listed, Hit.type_id.in_(asking))
    return call.page(query, Hit.number, members, key="HITs", render=_row, newest_first=True)


def update_expiration_for_hit(call: Call, members: Members) -> Members:
    """Change when a HIT expires."""
    hit, _ = call.hit(members["HITId"])
    hits.change_expiration(call.session, hit, members["ExpireAt"], call.now)
    return {}


def create_additional_assignments_for_hit(call: Call, members: Members) -> Members:
    """Add assignments to a HIT."""
    call.refuse_used_token(members)
    hit, _ = call.hit(members["HITId"])
    hits.extend(call.session, hit, members["NumberOfAdditionalAssignments"], call.now)
    call.record_token(members, call.request_id)
    return {}


def update_hit_review_status(call: Call, members: Members) -> Members:
    """Mark a HIT as Reviewing, or as Reviewable again."""
    hit, _ = call.hit(members["HITId"])
    hits.set_reviewing(call.session, hit, reviewing=not members.get("Revert", False))
    return {}


def delete_hit(call: Call, members: Members) -> Members:
    """Delete a HIT."""
    hit, _ = call.hit(members["HITId"])
    hits.delete(call.session, hit, call.now)
    return {}


def hit_members(hit: Hit, hit_type: HitType) -> Members:
    """Return a HIT as members of a response; submitted, undecided assignments are in none of the three counts."""
    return {
        "HITId": hit.id,
        "HITTypeId": hit_type.id,
        "HITGroupId": hit_type.group_id,
        "CreationTime": hit.created_at,
        "Title": hit_type.title,
        "Description": hit_type.description,
        "Question": hit.question,
        "Keywords": hit_type.keywords,
        "HITStatus": str(hit.status),
        "MaxAssignments": hit.max_assignments,
        "Reward": format_amount(hit.reward_cents),
        "AutoApprovalDelayInSeconds": hit_type.auto_approve_seconds,
        "Expiration": hit.expires_at,
        "AssignmentDurationInSeconds": hit_type.assignment_seconds,
        "RequesterAnnotation": hit.annotation,
        "QualificationRequirements": hit_type.requirements,
        "HITReviewStatus": "NotReviewed",
        "NumberOfAssignmentsPending": hit.pending,
        "NumberOfAssignmentsAvailable": hit.available,
        "NumberOfAssignmentsCompleted": hit.completed,
    }


def _hits(call: Call) -> Any:
    query = select(Hit, HitType).join(HitType, HitType.id == Hit.type_id)
    return query.where(Hit.requester_id == call.requester.id)


def _row(row: Any) -> Members:
    return hit_members(row[0], row[1])


def _type(call: Call, members: Members) -> HitType:
    terms = hits.TypeTerms(
        title=members["Title"],
        description=members["Description"],
        keywords=members.get("Keywords", ""),
        reward_cents=parse_cents(members["Reward"], "Reward"),
        assignment_seconds=members["AssignmentDurationInSeconds"],
        auto_approve_seconds=members.get("AutoApprovalDelayInSeconds", hits.LONGEST_AUTO_APPROVE),
        requirements=qualifications.check_requirements(call.session, members.get("QualificationRequirements", [])),
    )
    return hits.find_or_create_type(call.session, call.requester, terms)


def _create(call: Call, hit_type: HitType, members: Members) -> Members:
    for name in UNSUPPORTED:
        if name in members:
            raise InvalidParameter(f"{name} is not supported here")
    if "Question" not in members:
        raise InvalidParameter("Question is required")
    hit = hits.create(
        call.session,
        hit_type,
        external_page(members["Question"], call.own_url),
        members["Question"],
        max_assignments=members.get("MaxAssignments", 1),
        lifetime_seconds=members["LifetimeInSeconds"],
        annotation=members.get("RequesterAnnotation"),
        now=call.now,
    )
    call.record_token(members, hit.id)
    return {"HIT": hit_members(hit, hit_type)}


def _refuse_reused_token(call: Call, members: Members) -> None:
    hit_id = call.token_result(members)
    if hit_id is not None:
        raise DuplicateToken(
            "HitAlreadyExists", f'The HIT with ID "{hit_id}" already exists: its token was used before.'
        )


def update_notification_settings(call: Call, members: Members) -> Members:
    """Send the events of a HIT type to a queue, or stop sending them."""
    hit_type = call.hit_type(members["HITTypeId"])
    subscription = call.session.get(Subscription, hit_type.id)
    notification = members.get("Notification")
    if notification is None and "Active" not in members:
        raise InvalidParameter("either Notification or Active is required")
    if notification is not None:
        _check_notification(call, notification)
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
    _check_notification(call, notification)
    hits.enqueue_test_event(
        call.session,
        call.requester,
        notification["Destination"],
        notification["Version"],
        members["TestEventType"],
        call.now,
    )
    return {}


def _check_notification(call: Call, notification: Members) -> None:
    if notification["Transport"] != "SQS":
        raise InvalidParameter(f"Notification.Transport: {notification['Transport']} is not supported here; use SQS")
    if notification["Version"] not in EVENT_VERSIONS:
        raise InvalidParameter(f"Notification.Version has to be one of {', '.join(EVENT_VERSIONS)}")
    if not notification["EventTypes"]:
        raise InvalidParameter("Notification.EventTypes: name at least one")
    call.queues.check_url(notification["Destination"])
