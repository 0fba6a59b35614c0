"""MTurk's shapes in our words and back; its decimal dollars exist on this side of the line only."""

import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from mturk.crowd import (
    Blocked,
    Guarded,
    HitState,
    Holder,
    PaidBonus,
    PostedHit,
    QualificationKind,
    Requirement,
    Terms,
    Undelivered,
    Work,
    WorkState,
)
from mturk.errors import CrowdRefused, CrowdUnavailable
from mturk.question import read_answers

Shape = dict[str, Any]
Told = TypeVar("Told")

DOLLARS = re.compile(r"([0-9]{1,12})(?:\.([0-9]{0,2}))?", re.ASCII)
# Where the ledger's key stands in a bonus's reason; the worker reads it too.
REFERENCE = re.compile(r"(?:(?P<reason>.*) )?\[ref (?P<key>[^\[\]\s]+)\]", re.DOTALL)


def _readable(read: Callable[[Shape], Told]) -> Callable[[Shape], Told]:
    @functools.wraps(read)
    def reading(shape: Shape) -> Told:
        try:
            return read(shape)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise CrowdUnavailable("the marketplace's answer lacks what it must tell; check its address") from error

    return reading


def wire_amount(cents: int) -> str:
    """Cents as the wire wants them: 123 is 1.23."""
    if cents < 0:
        raise CrowdRefused(f"{cents} cents is less than nothing; give 0 or more")
    return f"{cents // 100}.{cents % 100:02}"


def cents_of(amount: str) -> int:
    """Cents from the wire's dollars, whole ones only."""
    found = DOLLARS.fullmatch(amount)
    if not found:
        raise CrowdUnavailable(f"the marketplace tells an amount of {amount!r}, which is no whole number of cents")
    whole, fraction = found.groups()
    return int(whole) * 100 + int((fraction or "").ljust(2, "0"))


def reason_with_key(reason: str, key: str) -> str:
    """What the worker reads, with the ledger's key at its end."""
    return f"{reason} [ref {key}]" if reason else f"[ref {key}]"


def terms_shape(terms: Terms) -> Shape:
    """What CreateHITType wants."""
    return {
        "Title": terms.title,
        "Description": terms.description,
        "Keywords": ", ".join(terms.keywords),
        "Reward": wire_amount(terms.reward_cents),
        "AssignmentDurationInSeconds": terms.assignment_seconds,
        "AutoApprovalDelayInSeconds": terms.auto_approve_seconds,
        "QualificationRequirements": [_requirement_shape(one) for one in terms.requirements],
    }


@_readable
def balance_of(shape: Shape) -> int:
    """What can be spent, in cents."""
    return cents_of(shape["AvailableBalance"])


@_readable
def type_id_of(shape: Shape) -> str:
    """The id of a type of HITs."""
    return str(shape["HITTypeId"])


@_readable
def hit_of(shape: Shape) -> PostedHit:
    """A HIT."""
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
def work_of(shape: Shape) -> Work:
    """An assignment that was handed in."""
    # Both are there when a rejection was overridden.
    decided = shape.get({"Approved": "ApprovalTime", "Rejected": "RejectionTime"}.get(shape["AssignmentStatus"], ""))
    return Work(
        assignment_id=shape["AssignmentId"],
        hit_id=shape["HITId"],
        worker_id=shape["WorkerId"],
        state=WorkState(shape["AssignmentStatus"].lower()),
        accepted_at=_utc(shape["AcceptTime"]),
        submitted_at=_utc(shape["SubmitTime"]),
        auto_approve_at=_utc(shape["AutoApprovalTime"]) if shape.get("AutoApprovalTime") else None,
        decided_at=_utc(decided) if decided else None,
        feedback=shape.get("RequesterFeedback", ""),
        answers=read_answers(shape.get("Answer", "")),
    )


@_readable
def bonus_of(shape: Shape) -> PaidBonus:
    """A bonus, its reason and our key told apart."""
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
def qualification_of(shape: Shape) -> QualificationKind:
    """A qualification."""
    return QualificationKind(shape["QualificationTypeId"], shape["Name"], shape.get("Description", ""))


@_readable
def holder_of(shape: Shape) -> Holder:
    """Who holds a qualification."""
    return Holder(shape["WorkerId"], shape.get("IntegerValue", 1), _utc(shape["GrantTime"]))


@_readable
def blocked_of(shape: Shape) -> Blocked:
    """Who is blocked."""
    return Blocked(shape["WorkerId"], shape.get("Reason", ""))


@_readable
def undelivered_of(shape: Shape) -> Undelivered:
    """Whom a message did not reach."""
    return Undelivered(shape["WorkerId"], shape.get("NotifyWorkersFailureMessage", ""))


def _requirement_shape(requirement: Requirement) -> Shape:
    shape: Shape = {
        "QualificationTypeId": str(requirement.qualification_id),
        "Comparator": requirement.comparator.value,
        "ActionsGuarded": Guarded(requirement.guarded).value,
    }
    if requirement.values:
        shape["IntegerValues"] = list(requirement.values)
    if requirement.countries:
        shape["LocaleValues"] = [_locale(one) for one in requirement.countries]
    return shape


def _locale(place: str) -> dict[str, str]:
    """`US`, or with a part of the country `US-CA`."""
    country, _, part = place.partition("-")
    return {"Country": country, "Subdivision": part} if part else {"Country": country}


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
