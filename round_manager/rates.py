"""Rates: so many of so many, with the interval in which the true share lies 95 times of 100."""

from dataclasses import dataclass
from math import sqrt

# The standard normal's 97.5 % point: 2.5 % are left out on either side.
Z = 1.959963984540054


@dataclass(frozen=True)
class Rate:
    """A count of a total, and Wilson's interval, which is right for few and for none too."""

    count: int
    of: int

    @property
    def share(self) -> float | None:
        """The count's share; None of nothing."""
        return self.count / self.of if self.of else None

    @property
    def low(self) -> float:
        """The interval's lower end; 0 where nothing is known."""
        return 0.0 if not self.count else max(0.0, self._middle - self._half)

    @property
    def high(self) -> float:
        """The interval's upper end; 1 where nothing is known."""
        return 1.0 if self.count == self.of else min(1.0, self._middle + self._half)

    @property
    def _middle(self) -> float:
        return (self.count + Z * Z / 2) / (self.of + Z * Z)

    @property
    def _half(self) -> float:
        missed = self.count * (self.of - self.count) / self.of
        return Z * sqrt(missed + Z * Z / 4) / (self.of + Z * Z)

    def __str__(self) -> str:
        if self.share is None:
            return "none yet"
        return f"{self.share:.1%} ({self.low:.1%} to {self.high:.1%}; {self.count:,} of {self.of:,})"
