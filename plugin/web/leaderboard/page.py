"""What the pages of a leaderboard show, ready for their templates."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from outfox.dynascore import AXES, CUTOFF, DATA_WEIGHT, Swap
from outfox.figures import BoardData, Figure
from outfox.ranking import Ranking, scored_axes
from outfox.stored_evaluations import EVERY, PERFORMANCE
from plugin.web.leaderboard.boards import AXIS_PREFIX, DATA_PREFIX, ShownBoard

# More rows or columns are in the files.
MOST_MODELS = 200
MOST_DATA = 60
MOST_SLICES = 40
# A bar is this wide, and ends at values that fit all figures of its column.
BAR = 72
POINTS = ("accuracy", "f1", "macro_f1", "exact_match", "precision", "consistency", "ece")
NAMES = {
    "ece": "calibration error",
    "f1": "F1",
    "macro_f1": "macro F1",
    "p50_ms": "median in ms",
    "p99_ms": "99th percentile in ms",
    "memory_mb": "MB",
}
# More figures of a model on a data set are in the files.
MOST_MORE = 120
SCORE, MODEL = "score", "model"
DOWN = "down"


@dataclass(frozen=True)
class Cell:
    """A figure as it is shown; with a bar if it has an interval, which is drawn from `start` to `stop` around `at`."""

    text: str = ""
    sort: str = ""
    interval: str = ""
    rows: int = 0
    start: float = 0.0
    stop: float = 0.0
    at: float | None = None


@dataclass(frozen=True)
class Column:
    """A column that can be sorted: its key in addresses, its heading, and what a reader learns about it."""

    key: str
    name: str
    about: str = ""
    weight: float = 0.0
    hidden: bool = False
    href: str = ""
    sorted: str = ""


@dataclass(frozen=True)
class Line:
    """A model in the tables."""

    id: str
    name: str
    kind: str
    rank: int | None
    score: str
    sort: Mapping[str, str]
    axes: Sequence[Cell]
    data: Sequence[Cell]
    why: str
    href: str


class BoardPage:
    """The tables, weights and links of a board."""

    def __init__(self, shown: ShownBoard, ranking: Ranking, asked: Mapping[str, str]) -> None:
        self.shown = shown
        self.task = shown.figures.task
        self.base = f"/leaderboard/{self.task}"
        self.scores = ranking.scores
        self._ranking = ranking
        self._asked = asked
        self._models = {one.name: one for one in ranking.figures.models}
        self._data = ranking.figures.data[:MOST_DATA]
        self.sort, self.is_down = self._sorting()

    @property
    def query(self) -> str:
        """The part of an address that names this board, snapshot and weights."""
        return self._query()

    @cached_property
    def axes(self) -> list[Column]:
        """The columns of the axes."""
        return [self._axis(axis) for axis in self._axis_names()]

    @cached_property
    def data(self) -> list[Column]:
        """The columns of the data sets."""
        return [self._data_set(one) for one in self._data]

    @property
    def score_column(self) -> Column:
        """The column of the Dynascore."""
        return self._column(SCORE, "Dynascore", "the weighted sum of all axes, in units of performance")

    @property
    def model_column(self) -> Column:
        """The column of the models."""
        return self._column(MODEL, "Model")

    @cached_property
    def lines(self) -> list[Line]:
        """The models in their order."""
        names = [*self.scores.ranks, *(one for one in self.scores.averages.index if one not in self.scores.ranks)]
        shown = {(model, data): one for (model, data), one in self._ranking.performance().items()}
        bars = {one.name: _limits([shown[key] for key in shown if key[1] == one.name]) for one in self._data}
        lines = [self._line(str(name), shown, bars) for name in names]
        if self.sort == MODEL:
            lines.sort(key=lambda line: line.name, reverse=self.is_down)
        elif self.sort != SCORE or not self.is_down:
            numbers = {line.id: line.sort.get(self.sort, "") for line in lines}
            lines.sort(key=lambda line: _number(numbers[line.id], down=self.is_down))
        return lines[:MOST_MODELS]

    @property
    def model_count(self) -> int:
        """The number of all models."""
        return len(self.scores.averages.index)

    @property
    def swap(self) -> str:
        """The smallest change of one weight that alters the ranking, as a sentence."""
        if self.scores.problem:
            return f"There is no ranking: {self.scores.problem}."
        return swap_sentence(self.scores.nearest_swap)

    @property
    def swaps(self) -> list[str]:
        """For each two neighbours, the smallest change of one weight that makes them swap."""
        nearest: dict[tuple[str, str], Swap] = {}
        for one in sorted(self.scores.swaps, key=lambda one: abs(one.change)):
            nearest.setdefault((one.above, one.below), one)
        order = list(self.scores.ranks)
        return [swap_sentence(one) for one in sorted(nearest.values(), key=lambda one: order.index(one.above))]

    @property
    def rates(self) -> list[tuple[str, str]]:
        """The AMRS of each axis: how much of it is worth one point of performance."""
        return [(words(axis), _plain(value, 4)) for axis, value in self.scores.amrs.items()]

    @property
    def unused(self) -> list[tuple[str, str]]:
        """The axes that do not count, with the reason."""
        return [(words(axis), why) for axis, why in self.scores.unused.items()]

    def file(self, table: str, form: str) -> str:
        """Return the address of a file."""
        return f"{self.base}/{table}.{form}{self.query}"

    def slices(self) -> "SliceTable | None":
        """Return the slices of the data set that the address names, or of the first one that has any."""
        found = self._sliced()
        names = [one.name for one in self._ranking.figures.data if one.name in found]
        if not names:
            return None
        name = self._asked.get("slices", "") if self._asked.get("slices", "") in names else names[0]
        return SliceTable(name, names, found[name], self.lines)

    def payload(self) -> dict[str, Any]:
        """Return what the script computes scores from."""
        order = list(self.scores.averages.index)
        place = {self._models[str(name)].id: index for index, name in enumerate(order)}
        table: dict[str, dict[str, list[float | None]]] = {}
        for one in self._ranking.figures.headline_figures():
            if not one.slice and one.axis in AXES:
                column = table.setdefault(one.axis, {}).setdefault(one.data, [None] * len(order))
                column[place[one.model]] = one.value
        axes = [
            {"name": axis, "direction": AXES[axis].direction, "offset": AXES[axis].offset}
            for axis in AXES
            if axis in table
        ]
        return {
            "models": [{"id": self._models[str(name)].id, "name": str(name)} for name in order],
            "axes": axes,
            "data": sorted({data for columns in table.values() for data in columns}),
            "table": table,
            "dataWeight": DATA_WEIGHT,
            "cutoff": CUTOFF,
            "base": self.base,
            "board": self.shown.board.key,
        }

    def _sliced(self) -> dict[str, list[Figure]]:
        found: dict[str, list[Figure]] = {}
        for one in self._ranking.figures.headline_figures():
            if one.slice and one.axis == PERFORMANCE:
                found.setdefault(one.data, []).append(one)
        return found

    def _line(
        self, name: str, shown: Mapping[tuple[str, str], Figure], bars: Mapping[str, tuple[float, float]]
    ) -> Line:
        model, scores = self._models[name], self.scores
        axes = [_cell_of(scores.averages.loc[name, axis]) for axis in self._axis_names()]
        data = [cell(shown.get((model.id, one.name)), bars[one.name]) for one in self._data]
        score = scores.scores.get(name)
        keys = [one.key for one in (*self.axes, *self.data)]
        sort = dict(zip(keys, (one.sort for one in (*axes, *data)), strict=True)) | {SCORE: _sort(score)}
        why = scores.left_out.get(name, "")
        rank = scores.ranks.get(name)
        href = f"{self.base}/models/{model.id}{self.query}"
        return Line(model.id, name, words(model.kind), rank, _plain(score, 2), sort, axes, data, why, href)

    def _axis_names(self) -> list[str]:
        return [str(axis) for axis in self.scores.averages]

    def _axis(self, axis: str) -> Column:
        metric = self._ranking.figures.headlines.get(axis, "")
        unit = "in points" if metric in POINTS else ""
        better = "lower is better" if AXES[axis].direction < 0 else "higher is better"
        about = ", ".join(one for one in (words(metric), unit, better) if one)
        return self._column(f"axis.{axis}", words(axis), about, float(self.scores.weights.get(axis, 0.0)), name=axis)

    def _data_set(self, one: BoardData) -> Column:
        metric = self._ranking.figures.headlines.get(PERFORMANCE, "")
        hidden = ", rows are hidden" if one.hidden else ""
        weight = float(self.shown.board.data_weights.get(one.name, DATA_WEIGHT))
        about = f"{words(metric)} on {one.rows:,} rows{hidden}"
        return self._column(f"data.{one.name}", one.name, about, weight, hidden=one.hidden)

    def _column(
        self, key: str, heading: str, about: str = "", weight: float = 0.0, *, hidden: bool = False, name: str = ""
    ) -> Column:
        is_sorted = self.sort == key
        # A first click shows the best, or the first by name.
        down = not self.is_down if is_sorted else key != MODEL and not _less_is_better(name)
        href = f"{self.base}{self._query(sort=key, dir=DOWN if down else 'up')}"
        direction = ("descending" if self.is_down else "ascending") if is_sorted else ""
        return Column(key, heading, about, weight, hidden, href, direction)

    def _sorting(self) -> tuple[str, bool]:
        known = {SCORE, MODEL, *(f"axis.{axis}" for axis in self._axis_names())}
        known |= {f"data.{one.name}" for one in self._data}
        sort = self._asked.get("sort", "")
        return (sort, self._asked.get("dir") == DOWN) if sort in known else (SCORE, True)

    def _query(self, **more: str) -> str:
        shown, board = self.shown, self.shown.board
        pairs: list[tuple[str, str]] = []
        if shown.snapshot:
            pairs.append(("snapshot", shown.snapshot.key))
        elif board.key:
            pairs.append(("board", board.key))
        if shown.is_custom:
            pairs += [(f"{AXIS_PREFIX}{axis}", f"{weight:g}") for axis, weight in board.weights.items()]
            pairs += [(f"{DATA_PREFIX}{name}", f"{weight:g}") for name, weight in board.data_weights.items()]
        pairs += more.items()
        return f"?{urlencode(pairs)}" if pairs else ""

    @property
    def weight_controls(self) -> list[Column]:
        """The axes that can have a weight."""
        figures = self._ranking.figures
        return [self._axis(axis) for axis in scored_axes(figures)] if figures.headlines else []


class SliceTable:
    """The performance of models on the slices of one data set."""

    def __init__(self, name: str, names: Sequence[str], figures: Sequence[Figure], lines: Sequence[Line]) -> None:
        self.name = name
        self.names = names
        rows: dict[str, int] = {}
        for one in figures:
            rows[one.slice] = max(one.n, rows.get(one.slice, 0))
        self.total = len(rows)
        largest = sorted(rows, key=lambda one: (-rows[one], one))[:MOST_SLICES]
        self.slices = [(one, rows[one]) for one in sorted(largest)]
        by_key = {(one.model, one.slice): one for one in figures}
        limits = _limits([one for one in figures if one.slice in largest])
        measured = {one.model for one in figures}
        self.lines = [
            (line, [cell(by_key.get((line.id, name)), limits) for name, _ in self.slices])
            for line in lines
            if line.id in measured
        ]


@dataclass(frozen=True)
class ModelData:
    """A model on one data set: a cell for each axis, and all other figures with their axis, slice and metric."""

    data: BoardData
    cells: Sequence[Cell]
    more: Sequence[tuple[str, str, str, Cell]]


class ModelPage:
    """The figures of one model on every data set."""

    def __init__(self, page: BoardPage, ranking: Ranking, model: str) -> None:
        figures = ranking.figures
        self.model = next((one for one in figures.models if one.id == model), None)
        self.line = next((one for one in page.lines if one.id == model), None)
        own = [one for one in figures.figures if one.model == model]
        measured = {one.axis for one in own if one.data != EVERY}
        self._axes = [axis for axis in figures.headlines if axis in measured]
        self._headlines = figures.headlines
        self._figures = own
        self._data = figures.data[:MOST_DATA]

    @property
    def axes(self) -> list[tuple[str, str]]:
        """The axes with their metrics."""
        return [(words(axis), words(self._headlines[axis])) for axis in self._axes]

    def data(self) -> Iterator[ModelData]:
        """Yield the figures on each data set."""
        for data in self._data:
            own = [one for one in self._figures if one.data == data.name]
            whole = {one.axis: one for one in own if not one.slice and self._headlines.get(one.axis) == one.metric}
            cells = [_on_scale(whole.get(axis)) for axis in self._axes]
            more = [
                (one.slice, words(one.axis), words(one.metric), _on_scale(one))
                for one in own
                if one.slice or self._headlines.get(one.axis) != one.metric
            ]
            if own:
                yield ModelData(data, cells, more[:MOST_MORE])


def _on_scale(figure: Figure | None) -> Cell:
    """Return a cell with a bar from 0 to 100 points, and without one for other units."""
    limits = (0.0, 100.0) if figure and figure.metric in POINTS else None
    return cell(figure, limits)


def cell(figure: Figure | None, limits: tuple[float, float] | None) -> Cell:
    """Return a figure as it is shown; with a bar between these limits."""
    if figure is None:
        return Cell()
    text, sort = _plain(figure.value, 1), _sort(figure.value)
    if figure.low is None or figure.high is None:
        return Cell(text, sort, rows=figure.n)
    interval = f"{_plain(figure.low, 1)} to {_plain(figure.high, 1)}"
    if limits is None:
        return Cell(text, sort, interval, figure.n)
    first, last = limits
    width = (last - first) or 1.0
    start, stop, at = (
        BAR * (min(max(one, first), last) - first) / width for one in (figure.low, figure.high, figure.value)
    )
    return Cell(text, sort, interval, figure.n, round(start, 1), round(stop, 1), round(at, 1))


def swap_sentence(swap: Swap | None) -> str:
    """Return what a change of one weight would do."""
    if swap is None:
        return "No change of a single weight alters the ranking."
    beyond = "above" if swap.change > 0 else "below"
    return (
        f"{swap.below} would rank before {swap.above} with a weight of {words(swap.axis)} {beyond} "
        f"{swap.swap_weight:.2f} instead of {swap.weight:g}."
    )


def words(name: str) -> str:
    """Return the name of an axis or a metric as people read it."""
    return NAMES.get(name) or name.replace("_", " ")


def _limits(figures: Sequence[Figure]) -> tuple[float, float]:
    """Return values at which the bars of these figures can begin and end."""
    lows = [one.value if one.low is None else one.low for one in figures]
    highs = [one.value if one.high is None else one.high for one in figures]
    if not figures:
        return 0.0, 1.0
    span = (max(highs) - min(lows)) or 1.0
    return min(lows) - 0.05 * span, max(highs) + 0.05 * span


def _cell_of(value: float) -> Cell:
    return Cell(_plain(value, 1), _sort(value))


def _plain(value: float | None, digits: int) -> str:
    if value is None or not math.isfinite(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.{digits}f}"


def _sort(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else repr(float(value))


def _number(written: str, *, down: bool) -> tuple[bool, float]:
    """Return what to sort by; models without a value come last."""
    value = float(written) if written else 0.0
    return not written, -value if down else value


def _less_is_better(axis: str) -> bool:
    return axis in AXES and AXES[axis].direction < 0
