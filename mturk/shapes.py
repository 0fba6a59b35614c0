"""Converts MTurk's JSON shapes to the port's data types and back; decimal dollars exist only here."""

import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from crowd.errors import CrowdRefused, CrowdUnavailable
from crowd.port import (
    AssignmentState,
    BlockedWorker,
    Comparator,
    CrowdQualification,
    HitState,
    HitTerms,
    PaidBonus,
    PostedHit,
    QualificationHolder,
    Requirement,
    Restriction,
    SubmittedAssignment,
    UndeliveredMessage,
)
from crowd.profile import BuiltInQualification
from mturk.question import read_answers

Shape = dict[str, Any]
Parsed = TypeVar("Parsed")

DOLLARS = re.compile(r"([0-9]{1,12})(?:\.([0-9]{0,2}))?", re.ASCII)
# The ledger's key at the end of a bonus's reason; the worker sees it too.
REFERENCE = re.compile(r"(?:(?P<reason>.*) )?\[ref (?P<key>[^\[\]\s]+)\]", re.DOTALL)

COMPARATORS = {
    Comparator.EXISTS: "Exists",
    Comparator.DOES_NOT_EXIST: "DoesNotExist",
    Comparator.EQUAL: "EqualTo",
    Comparator.NOT_EQUAL: "NotEqualTo",
    Comparator.MORE: "GreaterThan",
    Comparator.AT_LEAST: "GreaterThanOrEqualTo",
    Comparator.LESS: "LessThan",
    Comparator.AT_MOST: "LessThanOrEqualTo",
    Comparator.IN: "In",
    Comparator.NOT_IN: "NotIn",
}
ACTIONS_GUARDED = {
    Restriction.ACCEPT: "Accept",
    Restriction.PREVIEW: "PreviewAndAccept",
    Restriction.DISCOVER: "DiscoverPreviewAndAccept",
}
QUALIFICATION_IDS: dict[str, str] = {
    BuiltInQualification.APPROVAL_RATE: "000000000000000000L0",
    BuiltInQualification.HITS_APPROVED: "00000000000000000040",
    BuiltInQualification.LOCALE: "00000000000000000071",
    BuiltInQualification.ADULT: "00000000000000000060",
}


def _readable(read: Callable[[Shape], Parsed]) -> Callable[[Shape], Parsed]:
    @functools.wraps(read)
    def reading(shape: Shape) -> Parsed:
        try:
            return read(shape)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise CrowdUnavailable("the marketplace's answer is missing required fields; check its address") from error

    return reading


def decimal_dollars(cents: int) -> str:
    """Return cents as MTurk writes them: 123 is "1.23"."""
    if cents < 0:
        raise CrowdRefused(f"an amount of {cents} cents is negative")
    return f"{cents // 100}.{cents % 100:02}"


def cents_of(amount: str) -> int:
    """Return the cents of an amount in dollars."""
    found = DOLLARS.fullmatch(amount)
    if not found:
        raise CrowdUnavailable(f"the marketplace sent the amount {amount!r}, which is not a whole number of cents")
    whole, fraction = found.groups()
    return int(whole) * 100 + int((fraction or "").ljust(2, "0"))


def reason_with_key(reason: str, key: str) -> str:
    """Return a bonus's reason with the ledger's key at its end."""
    return f"{reason} [ref {key}]" if reason else f"[ref {key}]"


def terms_shape(terms: HitTerms) -> Shape:
    """Return the parameters of CreateHITType."""
    return {
        "Title": terms.title,
        "Description": terms.description,
        "Keywords": ", ".join(terms.keywords),
        "Reward": decimal_dollars(terms.reward_cents),
        "AssignmentDurationInSeconds": terms.assignment_seconds,
        "AutoApprovalDelayInSeconds": terms.auto_approve_seconds,
        "QualificationRequirements": [_requirement_shape(one) for one in terms.requirements],
    }


@_readable
def balance_of(shape: Shape) -> int:
    """Return the available balance in cents."""
    return cents_of(shape["AvailableBalance"])


@_readable
def type_id_of(shape: Shape) -> str:
    """Return the id of a HIT type."""
    return str(shape["HITTypeId"])


@_readable
def hit_of(shape: Shape) -> PostedHit:
    """Return a HIT."""
    return PostedHit(
        hit_id=shape["HITId"],
        type_id=shape["HITTypeId"],
        group_id=shape.get("HITGroupId", ""),
        key=shape.get("RequesterAnnotation", ""),
        state=HitState(shape["HITStatus"].lower()),
        reward_cents=cents_of(shape["Reward"]),
        max_assignments=shape["MaxAssignments"],
        pending=shape.get("NumberOfAssignmentsPending", 0),
        available=shape.get("NumberOfAssignmentsAvailable", 0),
        completed=shape.get("NumberOfAssignmentsCompleted", 0),
        created_at=_utc(shape["CreationTime"]),
        expires_at=_utc(shape["Expiration"]),
    )


@_readable
def assignment_of(shape: Shape) -> SubmittedAssignment:
    """Return a submitted assignment."""
    # Both times are set if a rejection was overridden.
    decided = shape.get({"Approved": "ApprovalTime", "Rejected": "RejectionTime"}.get(shape["AssignmentStatus"], ""))
    return SubmittedAssignment(
        assignment_id=shape["AssignmentId"],
        hit_id=shape["HITId"],
        worker_id=shape["WorkerId"],
        state=AssignmentState(shape["AssignmentStatus"].lower()),
        accepted_at=_utc(shape["AcceptTime"]),
        submitted_at=_utc(shape["SubmitTime"]),
        auto_approve_at=_utc(shape["AutoApprovalTime"]) if shape.get("AutoApprovalTime") else None,
        decided_at=_utc(decided) if decided else None,
        feedback=shape.get("RequesterFeedback", ""),
        answers=read_answers(shape.get("Answer", "")),
    )


@_readable
def bonus_of(shape: Shape) -> PaidBonus:
    """Return a bonus, with its reason and our key separated."""
    reason = shape.get("Reason", "")
    found = REFERENCE.fullmatch(reason)
    return PaidBonus(
        key=found["key"] if found else "",
        worker_id=shape["WorkerId"],
        assignment_id=shape["AssignmentId"],
        cents=cents_of(shape["BonusAmount"]),
        reason=(found["reason"] or "") if found else reason,
        paid_at=_utc(shape["GrantTime"]),
    )


@_readable
def qualification_of(shape: Shape) -> CrowdQualification:
    """Return a qualification."""
    return CrowdQualification(shape["QualificationTypeId"], shape["Name"], shape.get("Description", ""))


@_readable
def holder_of(shape: Shape) -> QualificationHolder:
    """Return a worker who has a qualification."""
    return QualificationHolder(shape["WorkerId"], shape.get("IntegerValue", 1), _utc(shape["GrantTime"]))


@_readable
def blocked_of(shape: Shape) -> BlockedWorker:
    """Return a blocked worker."""
    return BlockedWorker(shape["WorkerId"], shape.get("Reason", ""))


@_readable
def undelivered_of(shape: Shape) -> UndeliveredMessage:
    """Return a message that was not delivered."""
    return UndeliveredMessage(shape["WorkerId"], shape.get("NotifyWorkersFailureMessage", ""))


def _requirement_shape(requirement: Requirement) -> Shape:
    shape: Shape = {
        "QualificationTypeId": QUALIFICATION_IDS.get(requirement.qualification_id, requirement.qualification_id),
        "Comparator": COMPARATORS[requirement.comparator],
        "ActionsGuarded": ACTIONS_GUARDED[requirement.restriction],
    }
    if requirement.values:
        shape["IntegerValues"] = list(requirement.values)
    if requirement.countries:
        shape["LocaleValues"] = [_locale(one) for one in requirement.countries]
    return shape


def _locale(place: str) -> dict[str, str]:
    """Return the locale of `US`, or of a part of a country such as `US-CA`."""
    country, _, part = place.partition("-")
    return {"Country": country, "Subdivision": part} if part else {"Country": country}


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
