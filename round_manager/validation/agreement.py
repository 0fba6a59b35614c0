"""Agreement: how far validators agree beyond chance, as Krippendorff's alpha for labels.

Each example is a unit, each vote a value; an example with fewer than two votes has nobody to agree with and is left
out, so people may have judged as many or as few examples as they like. 1 is full agreement, 0 is what chance gives, and
less than 0 is disagreement on purpose.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

PAIR = 2


@dataclass
class Agreement:
    """Alpha of as many units as one adds; it keeps sums for each label, and no unit."""

    values: Counter[str] = field(default_factory=Counter)
    units: int = 0
    # How often two votes on one unit differ, each unit by the number of its votes less one.
    disagreement: float = 0.0

    def add(self, votes: Sequence[str]) -> None:
        """One example's votes, flags aside."""
        if len(votes) < PAIR:
            return
        counts = Counter(votes)
        pairs = len(votes) ** 2 - sum(count * count for count in counts.values())
        self.disagreement += pairs / (len(votes) - 1)
        self.values += counts
        self.units += 1

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha; None where all votes name one label, or there are none: chance is then not known."""
        total = self.values.total()
        expected = total * total - sum(count * count for count in self.values.values())
        if not expected:
            return None
        return 1 - (total - 1) * self.disagreement / expected


def alpha_of(units: Iterable[Sequence[str]]) -> float | None:
    """Krippendorff's alpha of units, each a list of the labels that it got."""
    agreement = Agreement()
    for votes in units:
        agreement.add(votes)
    return agreement.alpha
