"""Acceptance: whether a new model may answer, by what it loses against the one that does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.text import count

# Figures have four digits after the point; what differs by less is the same.
TINY = 1e-6


@dataclass(frozen=True)
class Comparison:
    """The new model and those that answer now, the best of them, on one set of held-out rows, in points."""

    dataset: str
    rows: int
    before: float | None
    after: float

    @property
    def lost(self) -> float:
        """How many points fewer the new model has; below zero where it has more."""
        return 0.0 if self.before is None else self.before - self.after

    def told(self) -> str:
        """The figures in words."""
        before = "nothing" if self.before is None else f"{self.before:.1f}"
        return f"{self.dataset}: from {before} to {self.after:.1f} points on {count(self.rows, 'row')}"


@dataclass(frozen=True)
class Acceptance:
    """All comparisons, and how many points may be lost on any of them.

    `not_compared` are versions of before that cannot be measured any more, each with the reason.
    """

    comparisons: Sequence[Comparison]
    guard_points: float
    not_compared: Mapping[str, str] = field(default_factory=dict)

    @property
    def too_low(self) -> list[Comparison]:
        """Where the new model loses more than it may."""
        return [one for one in self.comparisons if one.lost > self.guard_points + TINY]

    @property
    def accepted(self) -> bool:
        """Whether it loses too much nowhere."""
        return not self.too_low

    def reason(self) -> str:
        """Why, with the figures."""
        told = [one.told() for one in (self.comparisons if self.accepted else self.too_low)]
        if not self.accepted:
            told.append(f"{self.guard_points:g} points may be lost (rounds.guard_points)")
        told += [f"it was not compared with {version}: {why}" for version, why in self.not_compared.items()]
        return "; ".join(told)

    def record(self) -> dict[str, Any]:
        """The figures as they are kept."""
        figures = [
            {"dataset": one.dataset, "rows": one.rows, "before": one.before, "after": one.after}
            for one in self.comparisons
        ]
        return {
            "accepted": self.accepted,
            "guard_points": self.guard_points,
            "comparisons": figures,
            "not_compared": dict(self.not_compared),
        }
