"""The figures of a leaderboard: every model on the seed, on each round and on each test suite, with intervals.

They come from the stored evaluations of a task. Files that were evaluated ad hoc belong to no leaderboard. A hidden
data set is measured like any other, but only figures of `LEAST_HIDDEN_ROWS` rows or more are kept, so that no figure
reveals the label of a row: not directly, and not as the difference between a data set and its slices. Its slices are by
one column only, because groups of two columns can differ by a single row.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from outfox.arguments import one_line
from outfox.dynascore import AXES
from outfox.errors import DataCorrupt
from outfox.stored_evaluations import PERFORMANCE, WORST_ROUND, Row, newest_data, worst_rounds

if TYPE_CHECKING:
    import pandas as pd

LEAST_HIDDEN_ROWS = 50
MOST_NAME = 120
KINDS = ("seed", "round", "suite")
LABEL = "label"
LONG_COLUMNS = (
    "model", "model_id", "data", "data_kind", "hidden", "slice", "axis", "metric", "n", "value", "low", "high",
)  # fmt: skip
FORM = 1


class Figure(NamedTuple):
    """One figure of a model on a slice (empty: all rows) of a data set."""

    model: str
    data: str
    slice: str
    axis: str
    metric: str
    n: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class BoardModel:
    """A model: its id, its name, which is unique on the leaderboard, and what kind of model it is."""

    id: str
    name: str
    kind: str


@dataclass(frozen=True)
class BoardData:
    """A data set: its kind (seed, round or suite), its number of rows, and whether its rows are hidden."""

    name: str
    kind: str
    rows: int
    hidden: bool


@dataclass(frozen=True)
class BoardFigures:
    """All figures of a task's leaderboard. `headlines` has the metric that stands for each axis."""

    task: str
    models: Sequence[BoardModel]
    data: Sequence[BoardData]
    headlines: Mapping[str, str]
    figures: Sequence[Figure]

    def headline_figures(self) -> Iterator[Figure]:
        """Yield the figures of the metrics that stand for the axes."""
        return (one for one in self.figures if self.headlines.get(one.axis) == one.metric)

    def without(self, models: Iterable[str]) -> "BoardFigures":
        """Return the figures without those of some models, by their ids."""
        hidden = frozenset(models)
        if not hidden:
            return self
        kept = [one for one in self.models if one.id not in hidden]
        figures = [one for one in self.figures if one.model not in hidden]
        return BoardFigures(self.task, kept, self.data, self.headlines, figures)

    def frame(self) -> "pd.DataFrame":
        """Return the figures as a frame, one per row."""
        import pandas as pd

        names = {one.id: one.name for one in self.models}
        data = {one.name: one for one in self.data}
        rows = [(names[one.model], one.model, one.data, *_about(data.get(one.data)), *one[2:]) for one in self.figures]
        frame = pd.DataFrame(rows, columns=list(LONG_COLUMNS))
        texts = ["model", "model_id", "data", "data_kind", "slice", "axis", "metric"]
        numbers = dict.fromkeys(("value", "low", "high"), "float64")
        return frame.astype({**dict.fromkeys(texts, "string"), "hidden": "bool", "n": "int64", **numbers})

    def as_data(self) -> dict[str, Any]:
        """Return the figures as JSON-compatible data."""
        return {
            "form": FORM,
            "task": self.task,
            "models": [asdict(one) for one in self.models],
            "data": [asdict(one) for one in self.data],
            "headlines": dict(self.headlines),
            "columns": list(Figure._fields),
            "figures": [list(one) for one in self.figures],
        }

    @classmethod
    def from_data(cls, found: Mapping[str, Any]) -> "BoardFigures":
        """Return the figures that `as_data` described; raise KeyError, TypeError or ValueError for other data."""
        if found["form"] != FORM or tuple(found["columns"]) != Figure._fields:
            raise ValueError("another version of Outfox wrote these figures")
        return cls(
            str(found["task"]),
            [BoardModel(**one) for one in found["models"]],
            [BoardData(**one) for one in found["data"]],
            {str(axis): str(metric) for axis, metric in found["headlines"].items()},
            [Figure(*one) for one in found["figures"]],
        )


def collect_figures(task: str, files: Mapping[str, Row]) -> BoardFigures:
    """Return the figures of a task from its stored evaluations: the content of each JSON file by its name."""
    described = {name[:-10]: found for name, found in files.items() if name.endswith("/data.json")}
    folders = {one: described[one] for one in newest_data(described) if described[one].get("kind") in KINDS}
    found = [_checked(name, one) for name, one in files.items() if name.count("/") == 2 and _folder(name) in folders]
    figures = [one for folder, result in found for one in _figures(folders[folder], result)]
    names = _unique_names({one.model for one in figures}, files)
    rounds = {str(one["name"]) for one in folders.values() if one["kind"] == "round"}
    figures += _worst(figures, rounds)
    figures.sort(key=lambda one: one[:5])
    data = sorted((_board_data(one) for one in folders.values()), key=_data_order)
    used = {one.data for one in figures}
    return BoardFigures(
        task,
        sorted(names.values(), key=lambda model: model.name),
        [one for one in data if one.name in used],
        _headlines(found, figures),
        figures,
    )


def _folder(name: str) -> str:
    return name.partition("/")[0]


def _checked(name: str, found: Row) -> tuple[str, Row]:
    """Return the folder of a result's data set and the result."""
    values = found.get("values")
    if not isinstance(values, list) or not all(isinstance(found.get(key), str) for key in ("axis", "model")):
        raise DataCorrupt(f"{name} is not a stored evaluation; evaluate again")
    return _folder(name), found


def _figures(data: Row, result: Row) -> Iterator[Figure]:
    model, axis, name = str(result["model"]), str(result["axis"]), str(data["name"])
    try:
        figures = [
            Figure(model, name, one["slice"], axis, one["metric"], int(one["n"]), *_values(one))
            for one in result["values"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DataCorrupt(f"the {axis} of {model} on {name} is not a stored evaluation; evaluate again") from error
    figures = [one for one in figures if math.isfinite(one.value)]
    if not data.get("hidden"):
        return iter(figures)
    columns = [str(one) for one in data.get("slices", ())]
    return _large_enough(figures, str(result.get("headline", "")), columns, int(data.get("rows", 0)))


def _values(found: Mapping[str, Any]) -> tuple[float, float | None, float | None]:
    low, high = (None if (one := found.get(name)) is None else float(one) for name in ("low", "high"))
    return float(found["value"]), low, high


def _large_enough(figures: Sequence[Figure], headline: str, columns: Sequence[str], rows: int) -> Iterator[Figure]:
    """Yield the figures of a hidden data set that may be shown: no group of too few rows can be told from them."""
    # Another metric can leave some rows out, which would then be a group.
    whole = [one for one in figures if not one.slice and (one.metric == headline or one.n == rows)]
    yield from (one for one in whole if one.n >= LEAST_HIDDEN_ROWS)
    for column in columns[:1] or (LABEL,):
        group = [one for one in figures if one.slice.startswith(f"{column}: ") and one.metric == headline]
        kept = sorted((one for one in group if one.n >= LEAST_HIDDEN_ROWS), key=lambda one: one.n)
        # What the kept slices leave of the whole is a group as well.
        while kept and 0 < rows - sum(one.n for one in kept) < LEAST_HIDDEN_ROWS:
            kept.pop(0)
        yield from kept


def _worst(figures: Sequence[Figure], rounds: Iterable[str]) -> list[Figure]:
    of_rounds = frozenset(rounds)
    rows = [one._asdict() | {"model_id": one.model} for one in figures if one.data in of_rounds]
    return [Figure(*(row[name] for name in Figure._fields)) for row in worst_rounds(rows)]


def _unique_names(models: Iterable[str], files: Mapping[str, Row]) -> dict[str, BoardModel]:
    """Return the models by their ids; names that two models have are followed by the id."""
    about = {one: files.get(f"models/{one}.json", {}) for one in models}
    plain = {one: one_line(str(found.get("name") or one), MOST_NAME) for one, found in about.items()}
    often = Counter(plain.values())
    names = {one: name if often[name] == 1 else f"{name} ({one})" for one, name in plain.items()}
    if len(set(names.values())) < len(names):  # A model has the name that this gives to another one.
        names = {one: f"{name} ({one})" for one, name in plain.items()}
    return {one: BoardModel(one, names[one], _kind(found)) for one, found in about.items()}


def _kind(about: Mapping[str, Any]) -> str:
    """Return the kind of a model, and whether a researcher submitted it."""
    return f"{about.get('kind', '')}{', submitted' if about.get('submitted') else ''}"


def _board_data(found: Row) -> BoardData:
    return BoardData(str(found["name"]), str(found["kind"]), int(found.get("rows", 0)), bool(found.get("hidden")))


def _data_order(data: BoardData) -> tuple[int, int, str]:
    number = data.name.rpartition(" ")[2] if data.kind == "round" else ""
    return KINDS.index(data.kind), int(number) if number.isdecimal() else 0, data.name


def _headlines(found: Iterable[tuple[str, Row]], figures: Sequence[Figure]) -> dict[str, str]:
    """Return the metric of each axis: the one that enters the Dynascore, or else the one that the result names."""
    named = {str(result["axis"]): str(result.get("headline", "")) for _, result in found if result.get("headline")}
    measured = {(one.axis, one.metric) for one in figures}
    named[WORST_ROUND] = named.get(PERFORMANCE, "")
    for axis, about in AXES.items():
        known = [metric for metric in about.metrics if (axis, metric) in measured]
        if known:
            named[axis] = known[0]
    order = {axis: place for place, axis in enumerate(AXES)}
    shown = [axis for axis, metric in named.items() if (axis, metric) in measured]
    return {axis: named[axis] for axis in sorted(shown, key=lambda one: (order.get(one, len(order)), one))}


def _about(data: BoardData | None) -> tuple[str, bool]:
    return (data.kind, data.hidden) if data else ("", False)
