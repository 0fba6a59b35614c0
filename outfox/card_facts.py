"""What a data card states, computed from the exported rows and from what the archives say about their rounds.

An archive can come from anywhere, and older ones state less: what is missing or has another type is None or left out.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from outfox.columns import SIMULATED
from outfox.round_metrics import krippendorff_alpha, round_metrics

# What Python and pandas raise for columns that the caller changed.
CHANGED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
NOT_STATED = "not stated"


@dataclass(frozen=True)
class People:
    """How many people did something, and how many of them are simulated workers."""

    total: int
    simulated: int

    @classmethod
    def of(cls, names: Iterable[Any]) -> "People":
        """Count different pseudonyms."""
        found = {name for name in names if isinstance(name, str)}
        return cls(len(found), sum(name.startswith(SIMULATED) for name in found))


@dataclass(frozen=True)
class RoundCard:
    """One round: `facts` is what its archive says, `rows` its examples in the exported DataFrame."""

    number: int
    facts: Mapping[str, Any]
    rows: pd.DataFrame

    @property
    def origin(self) -> Mapping[str, Any] | None:
        """Where an imported round comes from; None if it was collected."""
        found = at(self.facts, "origin")
        return found if isinstance(found, Mapping) else None

    @property
    def archived(self) -> int | None:
        """How many examples the archive has."""
        return number_at(self.facts, "rows")

    @property
    def is_complete(self) -> bool:
        """Whether the DataFrame has all examples of the archive: rates of a part would be wrong."""
        return self.archived == len(self.rows)

    @cached_property
    def metrics(self) -> dict[str, Any] | None:
        """The round's figures; None for a part of the round, or if columns are missing or changed."""
        if self.is_complete:
            with suppress(*CHANGED):
                return round_metrics(self.rows)
        return None

    @cached_property
    def alpha(self) -> float | None:
        """Krippendorff's alpha of the votes on labels, as `outfox round metrics` computes it."""
        if self.is_complete:
            with suppress(*CHANGED):
                judged = self.rows[self.rows["status"] != "withdrawn"]
                labels = ([vote["label"] for vote in votes] for votes in judged["votes"])
                return krippendorff_alpha([one for one in cast if isinstance(one, str)] for cast in labels)
        return None

    @cached_property
    def authors(self) -> People | None:
        """The authors of the rows."""
        return People.of(self.rows["author"]) if "author" in self.rows else None

    @cached_property
    def validators(self) -> People | None:
        """The validators who voted on the rows."""
        with suppress(*CHANGED):
            return People.of(vote["worker"] for votes in self.rows["votes"] for vote in votes)
        return None

    @cached_property
    def sources(self) -> dict[str, int]:
        """Where the rows were written, with how many of them."""
        return counts(self.rows, "source")


@dataclass(frozen=True)
class CardFacts:
    """Everything that a data card states about an export: `frame` has all rows, `rows` those that are exported."""

    task: str
    about: Mapping[str, Any]
    frame: pd.DataFrame
    rows: pd.DataFrame

    @cached_property
    def rounds(self) -> list[RoundCard]:
        """The rounds of the exported rows, by number."""
        with suppress(*CHANGED):
            numbers = sorted({int(number) for number in self.rows["round"].dropna()})
            return [
                RoundCard(number, self._stated.get(number, {}), self.frame[self.frame["round"] == number])
                for number in numbers
            ]
        return []

    @cached_property
    def _stated(self) -> dict[int, Mapping[str, Any]]:
        with suppress(*CHANGED):
            return {one["round"]: one for one in json.loads(self.about["rounds"])}
        return {}

    def stated(self, *path: str) -> list[str]:
        """Return the different texts that the rounds state; an empty text if one of them states none."""
        return list(dict.fromkeys(text_at(one.facts, *path) for one in self.rounds)) or [""]

    def last(self, *path: str) -> Any:
        """Return what the last round states."""
        return at(self.rounds[-1].facts, *path) if self.rounds else None

    @cached_property
    def authors(self) -> People:
        """The authors of all rounds."""
        return People.of(self.frame.get("author", ()))

    @cached_property
    def validators(self) -> People:
        """The validators of all rounds."""
        with suppress(*CHANGED):
            return People.of(vote["worker"] for votes in self.frame["votes"] for vote in votes)
        return People(0, 0)

    @property
    def simulated(self) -> tuple[int, int]:
        """The number of simulated authors and validators, and of all."""
        people = (self.authors, self.validators)
        return sum(one.simulated for one in people), sum(one.total for one in people)

    @cached_property
    def languages(self) -> list[str]:
        """The codes of the languages that the rounds state."""
        found = [code for one in self.rounds for code in list_at(one.facts, "spec", "languages")]
        return list(dict.fromkeys(code for code in found if isinstance(code, str)))

    @cached_property
    def period(self) -> tuple[str, str]:
        """The days on which the first round opened and the last one closed."""
        days = [day_at(one.facts, name) for one in self.rounds for name in ("opened_at", "closed_at")]
        return min(filter(None, days), default=""), max(filter(None, days), default="")


def at(data: Any, *path: str) -> Any:
    """Return a nested value, or None."""
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def text_at(data: Any, *path: str) -> str:
    """Return a nested text, in the first language if there are several, or an empty one."""
    found = at(data, *path)
    if isinstance(found, Mapping):
        found = next(iter(found.values()), "")
    return found.strip() if isinstance(found, str) else ""


def number_at(data: Any, *path: str) -> int | None:
    """Return a nested whole number, or None."""
    found = at(data, *path)
    return found if type(found) is int else None


def list_at(data: Any, *path: str) -> list[Any]:
    """Return a nested list, or an empty one."""
    found = at(data, *path)
    return found if isinstance(found, list) else []


def day_at(data: Any, *path: str) -> str:
    """Return the day of an ISO 8601 time, or an empty text."""
    day = text_at(data, *path)[:10]
    with suppress(ValueError):
        return pd.Timestamp(day).strftime("%Y-%m-%d") if day else ""
    return ""


def counts(rows: pd.DataFrame, column: str) -> dict[str, int]:
    """Return how often each value of a column occurs, most frequent first."""
    with suppress(*CHANGED):
        return dict(Counter(str(value) for value in rows[column].dropna()).most_common())
    return {}


def known(number: int | None) -> str:
    """Return a number as a card shows it."""
    return NOT_STATED if number is None else f"{number:,}"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f} %".replace(".0 %", " %")
