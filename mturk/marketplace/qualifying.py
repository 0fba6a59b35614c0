"""Whether a worker meets what a requester asks for: scores that were granted, and those computed from the record."""

import enum
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from mturk.marketplace.tables import Block, Grant, GrantStatus, HitType, QualificationType, Worker

APPROVAL_RATE = "000000000000000000L0"
HITS_APPROVED = "00000000000000000040"
LOCALE = "00000000000000000071"
ADULT = "00000000000000000060"
BUILT_IN = {
    APPROVAL_RATE: ("Approval rate", "The percentage of decided work that was approved; 100 before any was decided."),
    HITS_APPROVED: ("Number of HITs approved", "How much work of this worker was approved."),
    LOCALE: ("Location", "The country of the worker."),
    ADULT: ("Adult content", "1 when the worker agreed to see work with adult content, else 0."),
}
LONGEST_TOLD = 200
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "NotEqualTo": operator.ne,
    "LessThan": operator.lt,
    "LessThanOrEqualTo": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqualTo": operator.ge,
}


class Action(enum.IntEnum):
    """What a worker wants to do; each is guarded by the requirements of those before it too."""

    DISCOVER = 1
    PREVIEW = 2
    ACCEPT = 3


# The first action that a requirement stands in the way of.
GUARDS = {
    "DiscoverPreviewAndAccept": Action.DISCOVER,
    "PreviewAndAccept": Action.PREVIEW,
    "Accept": Action.ACCEPT,
}


@dataclass(frozen=True)
class Obstacle:
    """Why a worker cannot take a HIT, and from which action on."""

    why: str
    first: Action


class Record:
    """What is known of one worker, read once for many HIT types."""

    def __init__(self, session: Session, worker: Worker) -> None:
        self._session = session
        # As it is in this transaction: whoever calls may have read it long ago.
        self._worker = session.get_one(Worker, worker.id)
        granted = select(Grant.qualification_id, Grant.score).where(
            Grant.worker_id == worker.id, Grant.status == GrantStatus.GRANTED
        )
        self._scores: dict[str, int] = {str(key): score for key, score in session.execute(granted)}
        self._blocked = set(session.scalars(select(Block.requester_id).where(Block.worker_id == worker.id)))

    def obstacles(self, kind: HitType) -> list[Obstacle]:
        """All that stands between this worker and the HITs of a type."""
        if kind.requester_id in self._blocked:
            return [Obstacle("You cannot work for this requester.", Action.PREVIEW)]
        return [
            Obstacle(self._why(requirement), GUARDS[requirement.get("ActionsGuarded", "Accept")])
            for requirement in kind.requirements
            if not self.meets(requirement)
        ]

    def score(self, qualification_id: str) -> int | str | None:
        """The worker's score; for the locale a country; None where there is none."""
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
        """Whether the worker meets one requirement in MTurk's form; without a score, only DoesNotExist is met."""
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
        return COMPARE[comparator](score, values[0])

    def _why(self, requirement: dict[str, Any]) -> str:
        key, comparator = requirement["QualificationTypeId"], str(requirement["Comparator"])
        name, how = self._qualification(key)
        if comparator == "DoesNotExist":
            return f"You have {name} already, and this is for people who do not have it."
        if comparator == "Exists" or (self.score(key) is None and key not in BUILT_IN):
            return f"You need {name} first. {how}".strip()
        values = requirement.get("IntegerValues") or [
            locale["Country"] for locale in requirement.get("LocaleValues", ())
        ]
        return f"{name} {WORDS[comparator]} {' or '.join(map(str, values))}."

    def _qualification(self, key: str) -> tuple[str, str]:
        """The name that workers read, and how to get it in the requester's words."""
        if key in BUILT_IN:
            return BUILT_IN[key][0], ""
        found = self._session.scalars(select(QualificationType).where(QualificationType.id == key)).one_or_none()
        return (f"“{found.name}”", _shortened(found.description)) if found else (f"“{key}”", "")


def _shortened(text: str) -> str:
    """What fits on a card, as a sentence."""
    line = " ".join(text.split())
    line = line if len(line) <= LONGEST_TOLD else f"{line[:LONGEST_TOLD].rpartition(' ')[0] or line[:LONGEST_TOLD]} …"
    return line if not line or line[-1] in ".!?…" else f"{line}."


WORDS = {
    "EqualTo": "has to be",
    "NotEqualTo": "must not be",
    "LessThan": "has to be less than",
    "LessThanOrEqualTo": "has to be at most",
    "GreaterThan": "has to be more than",
    "GreaterThanOrEqualTo": "has to be at least",
    "In": "has to be",
    "NotIn": "must not be",
}
