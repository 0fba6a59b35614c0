"""Converts MTurk's JSON shapes and XML documents to the port's data types and back.

Decimal dollars exist only here. The two documents are the question that shows our page in a frame, and a worker's
answers.
"""

import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit
from xml.parsers import expat
from xml.sax.saxutils import escape

from crowd import port
from crowd.errors import CrowdRefused, CrowdUnavailable
from crowd.profile import BuiltInQualification

QUESTION_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
LARGEST_QUESTION = 65_535
# Separates the values of a field that was sent several times, such as a group of checkboxes.
VALUE_SEPARATOR = "|"
VALUES = ("FreeText", "SelectionIdentifier", "OtherSelectionText", "UploadedFileKey")
Shape = dict[str, Any]
Parsed = TypeVar("Parsed")

DOLLARS = re.compile(r"([0-9]{1,12})(?:\.([0-9]{0,2}))?", re.ASCII)
# The ledger's key at the end of a bonus's reason; the worker sees it too.
REFERENCE = re.compile(r"(?:(?P<reason>.*) )?\[ref (?P<key>[^\[\]\s]+)\]", re.DOTALL)

COMPARATORS = {
    port.Comparator.EXISTS: "Exists",
    port.Comparator.DOES_NOT_EXIST: "DoesNotExist",
    port.Comparator.EQUAL: "EqualTo",
    port.Comparator.NOT_EQUAL: "NotEqualTo",
    port.Comparator.MORE: "GreaterThan",
    port.Comparator.AT_LEAST: "GreaterThanOrEqualTo",
    port.Comparator.LESS: "LessThan",
    port.Comparator.AT_MOST: "LessThanOrEqualTo",
    port.Comparator.IN: "In",
    port.Comparator.NOT_IN: "NotIn",
}
ACTIONS_GUARDED = {
    port.Restriction.ACCEPT: "Accept",
    port.Restriction.PREVIEW: "PreviewAndAccept",
    port.Restriction.DISCOVER: "DiscoverPreviewAndAccept",
}
QUALIFICATION_IDS: dict[str, str] = {
    BuiltInQualification.APPROVAL_RATE: "000000000000000000L0",
    BuiltInQualification.HITS_APPROVED: "00000000000000000040",
    BuiltInQualification.LOCALE: "00000000000000000071",
    BuiltInQualification.ADULT: "00000000000000000060",
}


def external_question(page_url: str, frame_height: int = 0) -> str:
    """Return the question that shows a page to the worker; height 0 means the height of the window."""
    parts = urlsplit(page_url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CrowdRefused("the page of a HIT needs an http(s) address that workers can reach")
    if frame_height < 0:
        raise CrowdRefused(f"a frame cannot be {frame_height} pixels high; use 0 for the height of the window")
    question = (
        f'<ExternalQuestion xmlns="{QUESTION_SCHEMA}"><ExternalURL>{escape(page_url)}</ExternalURL>'
        f"<FrameHeight>{frame_height}</FrameHeight></ExternalQuestion>"
    )
    size = len(question.encode())
    if size > LARGEST_QUESTION:
        raise CrowdRefused(f"the question has {size:,} bytes, more than {LARGEST_QUESTION:,}; shorten the address")
    return question


def read_answers(xml: str) -> dict[str, str]:
    """Return the values that the worker's form sent, by field name."""
    if not xml:
        return {}
    reader = _Answers()
    try:
        reader.parser.Parse(xml, True)
    except expat.ExpatError as error:
        raise CrowdUnavailable("the marketplace sent answers that are not valid XML") from error
    return {name: VALUE_SEPARATOR.join(values) for name, values in reader.found.items()}


class _Answers:
    """Collects the values of each Answer element."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        # Without a DTD there are no entities to expand: no expansion bombs, and no access to local files.
        self.parser.StartDoctypeDeclHandler = self._doctype
        self._pieces: list[str] = []
        self._field = ""

    def _start(self, _tag: str, _attributes: dict[str, str]) -> None:
        self._pieces = []

    def _text(self, text: str) -> None:
        self._pieces.append(text)

    def _end(self, tag: str) -> None:
        name = tag.rpartition(" ")[2]
        text = "".join(self._pieces)
        if name == "QuestionIdentifier":
            self._field = text
            self.found.setdefault(text, [])
        elif name in VALUES and self._field:
            self.found[self._field].append(text)
        elif name == "Answer":
            self._field = ""
        self._pieces = []

    def _doctype(self, *_declared: object) -> None:
        raise CrowdUnavailable("the marketplace sent answers with a DTD, which is not allowed")


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


def terms_shape(terms: port.HitTerms) -> Shape:
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
def hit_of(shape: Shape) -> port.PostedHit:
    """Return a HIT."""
    return port.PostedHit(
        hit_id=shape["HITId"],
        type_id=shape["HITTypeId"],
        group_id=shape.get("HITGroupId", ""),
        key=shape.get("RequesterAnnotation", ""),
        state=port.HitState(shape["HITStatus"].lower()),
        reward_cents=cents_of(shape["Reward"]),
        max_assignments=shape["MaxAssignments"],
        pending=shape.get("NumberOfAssignmentsPending", 0),
        available=shape.get("NumberOfAssignmentsAvailable", 0),
        completed=shape.get("NumberOfAssignmentsCompleted", 0),
        created_at=_utc(shape["CreationTime"]),
        expires_at=_utc(shape["Expiration"]),
    )


@_readable
def assignment_of(shape: Shape) -> port.SubmittedAssignment:
    """Return a submitted assignment."""
    # Both times are set if a rejection was overridden.
    decided = shape.get({"Approved": "ApprovalTime", "Rejected": "RejectionTime"}.get(shape["AssignmentStatus"], ""))
    return port.SubmittedAssignment(
        assignment_id=shape["AssignmentId"],
        hit_id=shape["HITId"],
        worker_id=shape["WorkerId"],
        state=port.AssignmentState(shape["AssignmentStatus"].lower()),
        accepted_at=_utc(shape["AcceptTime"]),
        submitted_at=_utc(shape["SubmitTime"]),
        auto_approve_at=_utc(shape["AutoApprovalTime"]) if shape.get("AutoApprovalTime") else None,
        decided_at=_utc(decided) if decided else None,
        feedback=shape.get("RequesterFeedback", ""),
        answers=read_answers(shape.get("Answer", "")),
    )


@_readable
def bonus_of(shape: Shape) -> port.PaidBonus:
    """Return a bonus, with its reason and our key separated."""
    reason = shape.get("Reason", "")
    found = REFERENCE.fullmatch(reason)
    return port.PaidBonus(
        key=found["key"] if found else "",
        worker_id=shape["WorkerId"],
        assignment_id=shape["AssignmentId"],
        cents=cents_of(shape["BonusAmount"]),
        reason=(found["reason"] or "") if found else reason,
        paid_at=_utc(shape["GrantTime"]),
    )


@_readable
def qualification_of(shape: Shape) -> port.CrowdQualification:
    """Return a qualification."""
    return port.CrowdQualification(shape["QualificationTypeId"], shape["Name"], shape.get("Description", ""))


@_readable
def blocked_of(shape: Shape) -> port.BlockedWorker:
    """Return a blocked worker."""
    return port.BlockedWorker(shape["WorkerId"], shape.get("Reason", ""))


@_readable
def undelivered_of(shape: Shape) -> port.UndeliveredMessage:
    """Return a message that was not delivered."""
    return port.UndeliveredMessage(shape["WorkerId"], shape.get("NotifyWorkersFailureMessage", ""))


def _requirement_shape(requirement: port.Requirement) -> Shape:
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
