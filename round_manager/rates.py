"""Rates with their 95 % confidence interval."""

from dataclasses import dataclass
from math import sqrt

# The 97.5 % quantile of the standard normal distribution.
Z = 1.959963984540054


@dataclass(frozen=True)
class Rate:
    """A count of a total, with Wilson's interval, which also holds for small counts and zero."""

    count: int
    of: int

    @property
    def share(self) -> float | None:
        """The share; None if the total is zero."""
        return self.count / self.of if self.of else None

    @property
    def low(self) -> float:
        """The lower end of the interval; 0 if nothing is known."""
        return 0.0 if not self.count else max(0.0, self._middle - self._half)

    @property
    def high(self) -> float:
        """The upper end of the interval; 1 if nothing is known."""
        return 1.0 if self.count == self.of else min(1.0, self._middle + self._half)

    def as_data(self) -> dict[str, float | None]:
        """Return the rate as JSON-compatible data."""
        return {name: getattr(self, name) for name in ("count", "of", "share", "low", "high")}

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
