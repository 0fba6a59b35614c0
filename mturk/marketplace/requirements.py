"""What a HIT type may ask of workers: requirements that make sense, and name qualifications that exist."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from mturk.marketplace.errors import MarketError, bad_parameter
from mturk.marketplace.qualifying import BUILT_IN, LOCALE
from mturk.marketplace.tables import QualificationType

MOST = 10
MOST_SCORES, MOST_LOCALES = 15, 30
WITHOUT_VALUES = ("Exists", "DoesNotExist")
FOR_LOCALES = ("EqualTo", "NotEqualTo", "In", "NotIn", *WITHOUT_VALUES)


def checked(session: Session, requirements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The requirements in one form, so that the same ones are the same HIT type."""
    if len(requirements) > MOST:
        raise bad_parameter(f"QualificationRequirements: {len(requirements)} of them, at most {MOST} are allowed")
    return [_checked(session, requirement) for requirement in requirements]


def _checked(session: Session, requirement: dict[str, Any]) -> dict[str, Any]:
    key, comparator = requirement["QualificationTypeId"], requirement["Comparator"]
    if key not in BUILT_IN:
        there = select(QualificationType.number).where(QualificationType.id == key, ~QualificationType.deleted)
        if session.execute(there).one_or_none() is None:
            raise MarketError("QualificationTypeDoesNotExist", f"QualificationType {key[:64]} does not exist.")
    name = "LocaleValues" if key == LOCALE else "IntegerValues"
    other = "IntegerValues" if key == LOCALE else "LocaleValues"
    values = requirement.get(name, [])
    if requirement.get(other):
        raise bad_parameter(f"QualificationRequirements: {key} takes {name}, not {other}")
    if key == LOCALE and comparator not in FOR_LOCALES:
        raise bad_parameter(f"QualificationRequirements: a locale cannot be compared with {comparator}")
    if any("Subdivision" in locale for locale in values if isinstance(locale, dict)):
        raise bad_parameter("QualificationRequirements: only countries of workers are known here, no Subdivision")
    _check_count(comparator, len(values), name)
    guarded = requirement.get("ActionsGuarded") or (
        "PreviewAndAccept" if requirement.get("RequiredToPreview") else "Accept"
    )
    kept = {"QualificationTypeId": key, "Comparator": comparator, "ActionsGuarded": guarded}
    return {**kept, name: values} if values else kept


def _check_count(comparator: str, count: int, name: str) -> None:
    if comparator in WITHOUT_VALUES:
        least, most = 0, 0
    elif comparator in ("In", "NotIn"):
        least, most = 1, MOST_LOCALES if name == "LocaleValues" else MOST_SCORES
    else:
        least, most = 1, 1
    if not least <= count <= most:
        allowed = str(most) if least == most else f"{least} to {most}"
        raise bad_parameter(f"QualificationRequirements: {comparator} takes {allowed} {name}, not {count}")
