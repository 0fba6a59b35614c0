"""What an evaluation consists of: values with intervals, and the result of one axis."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ml_backend.hashing import json_sha256

# The name of the slice of all rows.
ALL = ""


@dataclass(frozen=True)
class Value:
    """One figure of a model on a slice of a data set.

    Shares are points, 0 to 100. `low` and `high` are the 95 % interval, or for measured times the slowest and the
    fastest repeat.
    """

    metric: str
    slice: str
    n: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class AxisResult:
    """A model on a data set on one axis: the recipe by which it was measured, its values, and details about them.

    Without values, `note` says why there are none. The headline is the metric that represents the axis.
    """

    axis: str
    recipe: Mapping[str, Any]
    headline: str
    values: Sequence[Value]
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def recipe_sha256(self) -> str:
        """The hash by which a stored result is found again."""
        return json_sha256(dict(self.recipe))

    def as_data(self) -> dict[str, Any]:
        """Return the result as JSON-compatible data."""
        return {**asdict(self), "recipe_sha256": self.recipe_sha256}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the result that `as_data` described; raise KeyError or TypeError for other data."""
        values = [Value(**one) for one in data["values"]]
        return cls(data["axis"], data["recipe"], data["headline"], values, data["note"], data["details"])
