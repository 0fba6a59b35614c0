"""Qualification requirements: check those of a HIT type, and decide whether a worker meets them."""

import enum
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.messages import Message, gettext, in_a_row
from mturk.marketplace.errors import EntityNotFound, InvalidParameter
from mturk.marketplace.tables.people import Block, Grant, GrantStatus, QualificationType, Worker
from mturk.marketplace.tables.work import HitType

APPROVAL_RATE = "000000000000000000L0"
HITS_APPROVED = "00000000000000000040"
LOCALE = "00000000000000000071"
ADULT = "00000000000000000060"
BUILT_IN = {
    APPROVAL_RATE: (
        gettext("Approval rate"),
        "The percentage of decided assignments that were approved; 100 before the first.",
    ),
    HITS_APPROVED: (gettext("Number of HITs approved"), "The number of the worker's assignments that were approved."),
    LOCALE: (gettext("Location"), "The country of the worker."),
    ADULT: (gettext("Adult content"), "1 when the worker agreed to see work with adult content, else 0."),
}
LONGEST_DESCRIPTION = 200
COMPARATORS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "NotEqualTo": operator.ne,
    "LessThan": operator.lt,
    "LessThanOrEqualTo": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqualTo": operator.ge,
}


class GuardedAction(enum.IntEnum):
    """What a worker wants to do; the requirements of an action also apply to the later ones."""

    DISCOVER = 1
    PREVIEW = 2
    ACCEPT = 3


# The first action that an unmet requirement prevents.
GUARDS = {
    "DiscoverPreviewAndAccept": GuardedAction.DISCOVER,
    "PreviewAndAccept": GuardedAction.PREVIEW,
    "Accept": GuardedAction.ACCEPT,
}


@dataclass(frozen=True)
class UnmetRequirement:
    """Why a worker cannot accept a HIT, and the first action that this prevents."""

    why: str
    first: GuardedAction


class WorkerScores:
    """A worker's scores and blocks, read once for many HIT types."""

    def __init__(self, session: Session, worker: Worker) -> None:
        self._session = session
        # Read again, because the caller may have read it in an earlier transaction.
        self._worker = session.get_one(Worker, worker.id)
        granted = select(Grant.qualification_id, Grant.score).where(
            Grant.worker_id == worker.id, Grant.status == GrantStatus.GRANTED
        )
        self._scores: dict[str, int] = {str(key): score for key, score in session.execute(granted)}
        self._blocked = set(session.scalars(select(Block.requester_id).where(Block.worker_id == worker.id)))

    def unmet_requirements(self, hit_type: HitType) -> list[UnmetRequirement]:
        """Return the requirements of a HIT type that this worker does not meet."""
        if hit_type.requester_id in self._blocked:
            return [UnmetRequirement(gettext("You cannot work for this requester."), GuardedAction.PREVIEW)]
        return [
            UnmetRequirement(self._why(requirement), GUARDS[requirement.get("ActionsGuarded", "Accept")])
            for requirement in hit_type.requirements
            if not self.meets(requirement)
        ]

    def score(self, qualification_id: str) -> int | str | None:
        """Return the worker's score in a qualification (for the locale, a country), or None."""
        worker = self._worker
        if qualification_id == APPROVAL_RATE:
            decided = worker.approved + worker.rejected
            return worker.approved * 100 // decided if decided else 100
        if qualification_id == HITS_APPROVED:
            return worker.approved
        if qualification_id == LOCALE:
            return worker.country or None
        if qualification_id == ADULT:
            return int(worker.adult)
        return self._scores.get(qualification_id)

    def meets(self, requirement: dict[str, Any]) -> bool:
        """Return whether the worker meets a requirement; without a score, only DoesNotExist is met."""
        score = self.score(requirement["QualificationTypeId"])
        comparator = str(requirement["Comparator"])
        if comparator in ("Exists", "DoesNotExist"):
            return (score is not None) == (comparator == "Exists")
        if score is None:
            return False
        values: Sequence[Any] = requirement.get("IntegerValues") or [
            locale["Country"] for locale in requirement.get("LocaleValues", ())
        ]
        if comparator in ("In", "NotIn"):
            return (score in values) == (comparator == "In")
        return COMPARATORS[comparator](score, values[0])

    def _why(self, requirement: dict[str, Any]) -> str:
        key, comparator = requirement["QualificationTypeId"], str(requirement["Comparator"])
        name, how = self._qualification(key)
        if comparator == "DoesNotExist":
            return gettext("You have %(name)s already, and this is for people who do not have it.", name=name)
        if comparator == "Exists" or (self.score(key) is None and key not in BUILT_IN):
            needed = gettext("You need %(name)s first.", name=name)
            return in_a_row([needed, how]) if how else needed
        values = requirement.get("IntegerValues") or [
            locale["Country"] for locale in requirement.get("LocaleValues", ())
        ]
        return _requirement_text(comparator, name, [str(value) for value in values])

    def _qualification(self, key: str) -> tuple[str, str]:
        """Return a qualification's name, and the requester's description of how to get it."""
        if key in BUILT_IN:
            return BUILT_IN[key][0], ""
        found = self._session.scalars(select(QualificationType).where(QualificationType.id == key)).one_or_none()
        return (f"“{found.name}”", _shortened(found.description)) if found else (f"“{key}”", "")


def _shortened(text: str) -> str:
    """Return the text as one sentence that fits on a card."""
    line = " ".join(text.split())
    line = (
        line
        if len(line) <= LONGEST_DESCRIPTION
        else f"{line[:LONGEST_DESCRIPTION].rpartition(' ')[0] or line[:LONGEST_DESCRIPTION]} …"
    )
    return line if not line or line[-1] in ".!?…" else f"{line}."


def _requirement_text(comparator: str, name: str, values: list[str]) -> Message:
    value = values[0]
    texts = {
        "EqualTo": gettext("%(name)s has to be %(value)s.", name=name, value=value),
        "NotEqualTo": gettext("%(name)s must not be %(value)s.", name=name, value=value),
        "LessThan": gettext("%(name)s has to be less than %(value)s.", name=name, value=value),
        "LessThanOrEqualTo": gettext("%(name)s has to be at most %(value)s.", name=name, value=value),
        "GreaterThan": gettext("%(name)s has to be more than %(value)s.", name=name, value=value),
        "GreaterThanOrEqualTo": gettext("%(name)s has to be at least %(value)s.", name=name, value=value),
        "In": gettext("%(name)s has to be one of these: %(values)s.", name=name, values=values),
        "NotIn": gettext("%(name)s must not be one of these: %(values)s.", name=name, values=values),
    }
    return texts[comparator]


MAX_REQUIREMENTS = 10
MAX_SCORES, MAX_LOCALES = 15, 30
WITHOUT_VALUES = ("Exists", "DoesNotExist")
FOR_LOCALES = ("EqualTo", "NotEqualTo", "In", "NotIn", *WITHOUT_VALUES)


def check_requirements(session: Session, requirements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Validate requirements and return them in a canonical form, so that equal ones give the same HIT type."""
    if len(requirements) > MAX_REQUIREMENTS:
        raise InvalidParameter(
            f"QualificationRequirements: {len(requirements)} given, at most {MAX_REQUIREMENTS} allowed"
        )
    return [_check_requirement(session, requirement) for requirement in requirements]


def _check_requirement(session: Session, requirement: dict[str, Any]) -> dict[str, Any]:
    key, comparator = requirement["QualificationTypeId"], requirement["Comparator"]
    if key not in BUILT_IN:
        there = select(QualificationType.number).where(QualificationType.id == key, ~QualificationType.deleted)
        if session.execute(there).one_or_none() is None:
            raise EntityNotFound("QualificationTypeDoesNotExist", f"QualificationType {key[:64]} does not exist.")
    name = "LocaleValues" if key == LOCALE else "IntegerValues"
    other = "IntegerValues" if key == LOCALE else "LocaleValues"
    values = requirement.get(name, [])
    if requirement.get(other):
        raise InvalidParameter(f"QualificationRequirements: {key} takes {name}, not {other}")
    if key == LOCALE and comparator not in FOR_LOCALES:
        raise InvalidParameter(f"QualificationRequirements: a locale cannot be compared with {comparator}")
    if any("Subdivision" in locale for locale in values if isinstance(locale, dict)):
        raise InvalidParameter("QualificationRequirements: Subdivision is not supported here; use a country")
    _check_count(comparator, len(values), name)
    guarded = requirement.get("ActionsGuarded") or (
        "PreviewAndAccept" if requirement.get("RequiredToPreview") else "Accept"
    )
    checked = {"QualificationTypeId": key, "Comparator": comparator, "ActionsGuarded": guarded}
    return {**checked, name: values} if values else checked


def _check_count(comparator: str, count: int, name: str) -> None:
    if comparator in WITHOUT_VALUES:
        least, most = 0, 0
    elif comparator in ("In", "NotIn"):
        least, most = 1, MAX_LOCALES if name == "LocaleValues" else MAX_SCORES
    else:
        least, most = 1, 1
    if not least <= count <= most:
        allowed = str(most) if least == most else f"{least} to {most}"
        raise InvalidParameter(f"QualificationRequirements: {comparator} takes {allowed} {name}, not {count}")
