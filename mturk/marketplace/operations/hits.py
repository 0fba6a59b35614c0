"""HITs and HIT types."""

from typing import Any

from sqlalchemy import select

from mturk.marketplace import hits, requirements, tokens
from mturk.marketplace.errors import DuplicateToken, bad_parameter
from mturk.marketplace.operations.call import Call, Members, Operation, amount, cents
from mturk.marketplace.qualifying import BUILT_IN
from mturk.marketplace.questions import external_page
from mturk.marketplace.tables import Hit, HitStatus, HitType

NOT_HERE = ("AssignmentReviewPolicy", "HITReviewPolicy", "HITLayoutId", "HITLayoutParameters")


def create_hit_type(call: Call, members: Members) -> Members:
    """The type with these parameters; the same ones are the same type."""
    return {"HITTypeId": _type(call, members).id}


def create_hit(call: Call, members: Members) -> Members:
    """A HIT, with the type that its parameters make."""
    _refuse_repeat(call, members)
    return _create(call, _type(call, members), members)


def create_hit_with_hit_type(call: Call, members: Members) -> Members:
    """A HIT of a type that is there."""
    _refuse_repeat(call, members)
    return _create(call, call.hit_type(members["HITTypeId"]), members)


def get_hit(call: Call, members: Members) -> Members:
    """One HIT."""
    return {"HIT": hit_members(*call.hit(members["HITId"]))}


def list_hits(call: Call, members: Members) -> Members:
    """All HITs that were not deleted, the newest first."""
    query = _hits(call).where(Hit.listed)
    return call.page(query, Hit.number, members, key="HITs", render=_row, newest_first=True)


def list_reviewable_hits(call: Call, members: Members) -> Members:
    """HITs whose work can be decided, or is marked as being decided."""
    query = _hits(call).where(Hit.status == HitStatus(members.get("Status", HitStatus.REVIEWABLE)))
    if "HITTypeId" in members:
        query = query.where(Hit.type_id == call.hit_type(members["HITTypeId"]).id)
    return call.page(query, Hit.number, members, key="HITs", render=_row)


def list_hits_for_qualification_type(call: Call, members: Members) -> Members:
    """HITs that ask for a qualification, the newest first."""
    key = members["QualificationTypeId"]
    if key not in BUILT_IN:
        call.qualification(key)
    types = select(HitType.id, HitType.requirements).where(HitType.requester_id == call.requester.id)
    asking = [
        type_id
        for type_id, asked in call.session.execute(types)
        if any(requirement["QualificationTypeId"] == key for requirement in asked)
    ]
    query = _hits(call).where(Hit.listed, Hit.type_id.in_(asking))
    return call.page(query, Hit.number, members, key="HITs", render=_row, newest_first=True)


def update_expiration_for_hit(call: Call, members: Members) -> Members:
    """Another end of a HIT's lifetime."""
    hit, _ = call.hit(members["HITId"])
    hits.change_expiration(call.session, hit, members["ExpireAt"], call.now)
    return {}


def create_additional_assignments_for_hit(call: Call, members: Members) -> Members:
    """More assignments for a HIT."""
    token = members.get("UniqueRequestToken")
    tokens.refuse_repeat(call.session, call.requester.id, call.operation, token, call.now)
    hit, _ = call.hit(members["HITId"])
    hits.extend(call.session, hit, members["NumberOfAdditionalAssignments"], call.now)
    tokens.remember(call.session, call.requester.id, call.operation, token, call.request_id, call.now)
    return {}


def update_hit_review_status(call: Call, members: Members) -> Members:
    """A HIT is marked as being reviewed, or no longer."""
    hit, _ = call.hit(members["HITId"])
    hits.mark(call.session, hit, reviewing=not members.get("Revert", False))
    return {}


def delete_hit(call: Call, members: Members) -> Members:
    """A HIT goes off the lists."""
    hit, _ = call.hit(members["HITId"])
    hits.delete(call.session, hit, call.now)
    return {}


def hit_members(hit: Hit, kind: HitType) -> Members:
    """A HIT as requesters see it; what is missing from the three counts was handed in and is undecided."""
    members: Members = {
        "HITId": hit.id,
        "HITTypeId": kind.id,
        "HITGroupId": kind.group_id,
        "CreationTime": hit.created_at,
        "Title": kind.title,
        "Description": kind.description,
        "Question": hit.question,
        "Keywords": kind.keywords,
        "HITStatus": str(hit.status),
        "MaxAssignments": hit.max_assignments,
        "Reward": amount(hit.reward_cents),
        "AutoApprovalDelayInSeconds": kind.auto_approve_seconds,
        "Expiration": hit.expires_at,
        "AssignmentDurationInSeconds": kind.assignment_seconds,
        "RequesterAnnotation": hit.annotation,
        "QualificationRequirements": kind.requirements,
        "HITReviewStatus": "NotReviewed",
        "NumberOfAssignmentsPending": hit.pending,
        "NumberOfAssignmentsAvailable": hit.available,
        "NumberOfAssignmentsCompleted": hit.completed,
    }
    return members


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
        reward_cents=cents(members["Reward"], "Reward"),
        assignment_seconds=members["AssignmentDurationInSeconds"],
        auto_approve_seconds=members.get("AutoApprovalDelayInSeconds", hits.LONGEST_AUTO_APPROVE),
        requirements=requirements.checked(call.session, members.get("QualificationRequirements", [])),
    )
    return hits.ensure_type(call.session, call.requester, terms)


def _create(call: Call, kind: HitType, members: Members) -> Members:
    for name in NOT_HERE:
        if name in members:
            raise bad_parameter(f"{name} is not supported here")
    if "Question" not in members:
        raise bad_parameter("Question is required")
    hit = hits.create(
        call.session,
        kind,
        external_page(members["Question"], call.own_url),
        members["Question"],
        max_assignments=members.get("MaxAssignments", 1),
        lifetime_seconds=members["LifetimeInSeconds"],
        annotation=members.get("RequesterAnnotation"),
        now=call.now,
    )
    token = members.get("UniqueRequestToken")
    tokens.remember(call.session, call.requester.id, call.operation, token, hit.id, call.now)
    return {"HIT": hit_members(hit, kind)}


def _refuse_repeat(call: Call, members: Members) -> None:
    token = members.get("UniqueRequestToken")
    hit_id = tokens.find(call.session, call.requester.id, call.operation, token, call.now)
    if hit_id is not None:
        raise DuplicateToken(
            "HitAlreadyExists", f'The HIT with ID "{hit_id}" already exists: its token was used before.'
        )


READS: dict[str, Operation] = {
    "GetHIT": get_hit,
    "ListHITs": list_hits,
    "ListReviewableHITs": list_reviewable_hits,
    "ListHITsForQualificationType": list_hits_for_qualification_type,
}
WRITES: dict[str, Operation] = {
    "CreateHITType": create_hit_type,
    "CreateHIT": create_hit,
    "CreateHITWithHITType": create_hit_with_hit_type,
    "CreateAdditionalAssignmentsForHIT": create_additional_assignments_for_hit,
    "UpdateExpirationForHIT": update_expiration_for_hit,
    "UpdateHITReviewStatus": update_hit_review_status,
    "DeleteHIT": delete_hit,
}
