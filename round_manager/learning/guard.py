"""The guard: whether a new version may serve, by paired comparisons with earlier versions on the same held-out rows.

A version is refused if, on any held-out set or on all of them together, it loses more points than `rounds.guard_points`
against an earlier version, and the interval of the loss excludes zero, so that the loss is not chance. Earlier versions
are those that serve now, those of the last round, and the best of all that have served: many small losses add up to one
that counts. The intervals hold for all comparisons together (95 %, Bonferroni), those of which the best was chosen too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from common.text import count
from outfox.intervals import LEVEL, paired_interval
from round_manager.learning.training_data import HeldOut

# Metrics have four decimals; smaller differences are rounding.
TOLERANCE = 1e-6
ALL_ROWS = "all held-out rows"

# The score of each row, 0 to 1, in the order of the rows' content.
Scores = Sequence[float]


@dataclass(frozen=True)
class VersionComparison:
    """The new version and an earlier one on one set of held-out rows, in points; nothing before if there is none.

    `low` and `high` are the interval of the loss.
    """

    dataset: str
    rows: int
    before: float | None
    after: float
    against: str = ""
    low: float = 0.0
    high: float = 0.0

    @property
    def loss(self) -> float:
        """How many points the new version loses; negative where it gains."""
        return 0.0 if self.before is None else self.before - self.after

    def is_regression(self, guard_points: float) -> bool:
        """Return whether the loss is larger than allowed, and not chance."""
        return self.loss > guard_points + TOLERANCE and self.low > 0

    def summary(self) -> str:
        """Return the comparison as text."""
        before = "nothing" if self.before is None else f"{self.before:.1f}"
        text = f"{self.dataset}: from {before} to {self.after:.1f} points on {count(self.rows, 'row')}"
        if self.before is None:
            return text
        return f"{text} (against {self.against}; a loss of {self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True)
class GuardDecision:
    """Whether a new version may serve: a comparison for each held-out set, and how many points it may lose.

    `not_compared` maps earlier versions that can no longer be evaluated to the reason.
    """

    comparisons: Sequence[VersionComparison]
    guard_points: float
    not_compared: Mapping[str, str] = field(default_factory=dict)

    @property
    def regressions(self) -> list[VersionComparison]:
        """The comparisons in which the new version loses more than allowed."""
        return [one for one in self.comparisons if one.is_regression(self.guard_points)]

    @property
    def accepted(self) -> bool:
        """Whether the new version has no regression."""
        return not self.regressions

    def reason(self) -> str:
        """Return the reason for the decision, with the figures."""
        lines = [one.summary() for one in (self.comparisons if self.accepted else self.regressions)]
        if not self.accepted:
            lines.append(f"a loss of {self.guard_points:g} points is allowed (rounds.guard_points)")
        lines += [f"not compared with {version}: {why}" for version, why in self.not_compared.items()]
        return "; ".join(lines)

    def record(self) -> dict[str, Any]:
        """Return the figures as they are stored."""
        return {"accepted": self.accepted, **asdict(self)}


@dataclass(frozen=True)
class _Pair:
    """The scores of an earlier version and of the new one on the same rows."""

    dataset: str
    against: str
    before: Scores
    after: Scores

    def compared(self, level: float) -> VersionComparison:
        before, after = _points(self.before), _points(self.after)
        low, high = (round(100 * end, 4) for end in paired_interval(self.before, self.after, level=level))
        return VersionComparison(self.dataset, len(self.after), before, after, self.against, low, high)


def decide(
    new: Mapping[str, Scores],
    opponents: Mapping[str, Mapping[str, Scores]],
    earlier: Mapping[str, Mapping[str, Scores]],
    held_out: Sequence[HeldOut],
    guard_points: float,
    not_compared: Mapping[str, str],
) -> GuardDecision:
    """Compare the new version with its opponents, and with the best of the earlier versions on each set.

    Scores are by version, then by the hash of the held-out rows. Earlier versions have them for the sets that existed
    in their time. Of several comparisons on one set, the decision has the one that speaks most against the new version.
    """
    others = {name: scores for name, scores in earlier.items() if name not in opponents}
    sets = [(part.name, [part.sha256]) for part in held_out]
    if len(held_out) > 1:
        sets.append((ALL_ROWS, [part.sha256 for part in held_out]))
    groups = [
        (name, _pairs(name, hashes, new, opponents), _pairs(name, hashes, new, others), _joined(new, hashes))
        for name, hashes in sets
    ]
    level = 1 - (1 - LEVEL) / max(1, sum(len(direct) + len(older) for _, direct, older, _ in groups))
    comparisons = []
    for name, direct, older, scores in groups:
        best = max(older, key=lambda pair: _points(pair.before) - _points(pair.after), default=None)
        found = [pair.compared(level) for pair in (*direct, *([best] if best else []))]
        worst = max(found, key=lambda one: (one.is_regression(guard_points), one.loss), default=None)
        comparisons.append(worst or VersionComparison(name, len(scores), None, _points(scores)))
    return GuardDecision(comparisons, guard_points, not_compared)


def _pairs(
    name: str, hashes: Sequence[str], new: Mapping[str, Scores], versions: Mapping[str, Mapping[str, Scores]]
) -> list[_Pair]:
    """Return the new version with each of these versions, on the rows that both have scores for."""
    found = []
    for version, scores in versions.items():
        shared = [one for one in hashes if one in scores]
        if shared:
            found.append(_Pair(name, version, _joined(scores, shared), _joined(new, shared)))
    return found


def _joined(scores: Mapping[str, Scores], hashes: Sequence[str]) -> list[float]:
    return [score for one in hashes for score in scores[one]]


def _points(scores: Scores) -> float:
    return round(100 * fmean(scores), 4)
