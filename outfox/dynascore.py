"""Dynascore: one figure per model over several axes, in units of performance, with weights of one's own.

Each axis is averaged over the data sets, with their weights, and turned so that more is better:
`x' = direction * x + offset`. The rate at which an axis is exchanged for performance is its AMRS (average marginal rate
of substitution): the models are sorted by performance, and `|change of x'| / change of performance` is averaged over
neighbours whose performance differs by more than 0.0001 of the highest. Then

    Dynascore = sum over axes of (weight / sum of weights) * x' / |AMRS|

These are the definitions of Dynabench's Dynaboard. Models with equal performance are sorted by name, so that the result
does not depend on the order of the rows. An axis that has the same value for all models, or no value, is not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outfox.arguments import quoted
from outfox.errors import InvalidArgument

# pandas takes a while to import, and a program that only reads stored evaluations does not need it.
if TYPE_CHECKING:
    import pandas as pd

PERFORMANCE = "performance"
DATA_WEIGHT = 5.0
# Neighbours whose performance differs by less than this share of the highest do not count.
CUTOFF = 0.0001
KEYS = ["model", "data", "axis", "metric"]


@dataclass(frozen=True)
class Axis:
    """How an axis enters the score: the metric that stands for it, its direction, offset and default weight."""

    metrics: tuple[str, ...]
    direction: int = 1
    offset: float = 0.0
    weight: float = 0.0


# The first five are Dynaboard's, with its default weights; its offset for memory is that of an ml.m5.xlarge, 16 GB.
AXES: Mapping[str, Axis] = {
    PERFORMANCE: Axis(("accuracy", "f1"), weight=4.0),
    "throughput": Axis(("rows_per_second",), weight=1.0),
    "memory": Axis(("memory_mb",), direction=-1, offset=16_384.0, weight=1.0),
    "robustness": Axis(("consistency",), weight=1.0),
    "fairness": Axis(("consistency",), weight=1.0),
    "calibration": Axis(("ece",), direction=-1, offset=100.0),
    "worst_round": Axis(("accuracy", "f1")),
    "latency": Axis(("p50_ms",), direction=-1),
    "price": Axis(("price_per_1000",), direction=-1),
}


@dataclass(frozen=True)
class Swap:
    """The weight of one axis at which two neighbours in the ranking have the same score; beyond it, they swap."""

    above: str
    below: str
    axis: str
    weight: float
    swap_weight: float

    @property
    def change(self) -> float:
        """By how much the weight changes."""
        return self.swap_weight - self.weight


@dataclass(frozen=True)
class Dynascore:
    """The scores and ranks of models, best first, and what they follow from.

    Without two models whose performance differs, no rate is defined: `scores` is then empty and `problem` says why.
    """

    averages: pd.DataFrame
    weights: Mapping[str, float]
    data_weights: Mapping[str, float]
    amrs: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    swaps: tuple[Swap, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def nearest_swap(self) -> Swap | None:
        """The smallest change of one weight that alters the ranking; None if no single weight can."""
        return min(self.swaps, key=lambda swap: abs(swap.change), default=None)


def dynascore(
    results: pd.DataFrame,
    weights: Mapping[str, float] | None = None,
    *,
    data_weights: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Rank models by their Dynascore. One row per model, best first.

    `results` is the frame that `outfox.evaluate` returns, or a table with a row per model and columns (axis, data).
    `weights` are those of the axes; default: performance 4; throughput, memory, robustness and fairness 1; the other
    axes 0. Pass all the weights that you want: an axis without one has 0. `data_weights` are those of the data sets
    (default: 5 for each; 0 leaves one out).

    `next` is the model of the following rank. It takes the place of this one if the weight of `swap_axis` moves beyond
    `swap_weight`; of all axes, this is the one whose weight has to change least. A model that lacks a value has no
    rank, and `why` names the value. `DataFrame.attrs` has `amrs`, `weights`, `swaps` (every axis and pair of
    neighbours), `unused` (axes that do not count, with the reason) and `problem` (why no model has a score, if so).
    """
    return as_frame(compute(wide_table(results), weights, data_weights))


def wide_table(results: pd.DataFrame, axes: Mapping[str, Axis] = AXES) -> pd.DataFrame:
    """Return a table with a row per model and columns (axis, data), from the frame that `outfox.evaluate` returns."""
    import pandas as pd

    if not isinstance(results, pd.DataFrame):
        raise InvalidArgument(f"`results` must be the DataFrame that `outfox.evaluate` returns, not {quoted(results)}")
    if isinstance(results.columns, pd.MultiIndex):
        return results
    missing = [name for name in (*KEYS, "value") if name not in results]
    if missing:
        raise InvalidArgument(f"`results` has no column {missing[0]}; pass the frame that `outfox.evaluate` returns")
    whole = results
    if "slice" in results:
        whole = results[results["slice"].isna() | (results["slice"].astype("string") == "").fillna(value=False)]
    known = set(whole[["axis", "metric"]].itertuples(index=False, name=None))
    chosen = {
        name: next(metric for metric in axis.metrics if (name, metric) in known)
        for name, axis in axes.items()
        if any((name, metric) in known for metric in axis.metrics)
    }
    whole = whole[whole["metric"] == whole["axis"].map(chosen)]
    if whole.duplicated(KEYS).any():
        model, data, axis, _ = whole.loc[whole.duplicated(KEYS), KEYS].iloc[0]
        raise InvalidArgument(f"`results` has two values for {axis} of {model} on {data}; keep one of them")
    table: pd.DataFrame = whole.pivot(index="model", columns=["axis", "data"], values="value")
    return table


def compute(
    values: pd.DataFrame,
    weights: Mapping[str, float] | None = None,
    data_weights: Mapping[str, float] | None = None,
    axes: Mapping[str, Axis] = AXES,
) -> Dynascore:
    """Return the scores of a table with a row per model and columns (axis, data)."""
    table = _table(values, axes)
    data = list(dict.fromkeys(table.columns.get_level_values("data")))
    by_data = dict.fromkeys(data, DATA_WEIGHT) | _checked("data_weights", data_weights or {}, data)
    table = table.loc[:, [by_data[name] > 0 for name in table.columns.get_level_values("data")]].dropna(
        axis=1, how="all"
    )
    measured = set(table.columns.get_level_values("axis"))
    default = {name: axis.weight for name, axis in axes.items() if name in measured}
    chosen = default if weights is None else _checked("weights", weights, axes)
    if not any(chosen.values()):
        raise InvalidArgument("`weights` must have a weight above zero")
    unused = {name: "no model has a value" for name, weight in chosen.items() if weight and name not in measured}
    needed = [name for name in axes if name in measured and (chosen.get(name) or name == PERFORMANCE)]
    left_out = _incomplete(table, needed)
    averages = _averages(table, [name for name in axes if name in measured], by_data)
    found = Dynascore(averages, chosen, by_data, left_out=left_out, unused=unused)
    return _scored(found, axes)


def as_frame(found: Dynascore) -> pd.DataFrame:
    """Return the ranking as `dynascore` does."""
    import pandas as pd

    order = [*found.ranks, *(name for name in found.averages.index if name not in found.ranks)]
    nearest: dict[str, Swap] = {}
    for swap in sorted(found.swaps, key=lambda swap: abs(swap.change)):
        nearest.setdefault(swap.above, swap)
    below = dict(pairwise(found.ranks))
    problem = dict.fromkeys(order, found.problem)
    frame = pd.DataFrame({"model": pd.array(order, dtype="string")})
    frame["rank"] = pd.array([found.ranks.get(name) for name in order], dtype="Int64")
    frame["dynascore"] = _floats([found.scores.get(name) for name in order])
    for axis in found.averages:
        frame[axis] = _floats([None if np.isnan(value) else value for value in found.averages.loc[order, axis]])
    frame["next"] = pd.array([below.get(name) for name in order], dtype="string")
    frame["swap_axis"] = pd.array([nearest[name].axis if name in nearest else None for name in order], dtype="string")
    frame["swap_weight"] = _floats([nearest[name].swap_weight if name in nearest else None for name in order])
    frame["why"] = pd.array([(problem | dict(found.left_out))[name] or None for name in order], dtype="string")
    # pandas writes attributes as JSON.
    frame.attrs |= {
        "amrs": dict(found.amrs), "weights": dict(found.weights), "data_weights": dict(found.data_weights),
        "unused": dict(found.unused), "problem": found.problem,
        "swaps": [vars(swap) | {"change": swap.change} for swap in found.swaps],
    }  # fmt: skip
    return frame


def _scored(found: Dynascore, axes: Mapping[str, Axis]) -> Dynascore:
    """Add rates, scores, ranks and swaps, or the reason why there are none."""
    ranked = found.averages.drop(index=list(found.left_out)).sort_index(kind="stable")
    if PERFORMANCE not in ranked:
        return _without(found, "no model has a value for performance")
    if len(ranked) < 2:
        return _without(found, "a Dynascore needs two models that have all values")
    ranked = ranked.sort_values(PERFORMANCE, kind="stable").dropna(axis=1)
    turned = {name: axes[name].direction * ranked[name].to_numpy() + axes[name].offset for name in ranked}
    steps = np.diff(turned[PERFORMANCE])
    counted = np.abs(steps) > CUTOFF * turned[PERFORMANCE].max()
    if not counted.any():
        return _without(found, "all models have the same performance")
    amrs = {name: float((np.abs(np.diff(x))[counted] / steps[counted]).mean()) for name, x in turned.items()}
    terms = {name: x / abs(amrs[name]) for name, x in turned.items() if amrs[name]}
    same = {name: "all models have the same value" for name in turned if name not in terms and found.weights.get(name)}
    weights = {name: found.weights.get(name, 0.0) for name in terms}
    total = sum(weights.values())
    if not total:
        return _without(found, "no axis with a weight differs between the models")
    scores = sum(weights[name] / total * x for name, x in terms.items())
    by_model = dict(zip(ranked.index, np.asarray(scores).tolist(), strict=True))
    ordered = dict(sorted(by_model.items(), key=lambda item: (-item[1], item[0])))
    ranks = {name: 1 + sum(other > score for other in ordered.values()) for name, score in ordered.items()}
    place = {name: index for index, name in enumerate(ranked.index)}
    swaps = [swap for pair in pairwise(ordered) for swap in _swaps(pair, place, terms, weights)]
    return Dynascore(
        found.averages, found.weights, found.data_weights, amrs, ordered, ranks, tuple(swaps), found.left_out,
        {**found.unused, **same},
    )  # fmt: skip


def _swaps(
    pair: tuple[str, str], place: Mapping[str, int], terms: Mapping[str, NDArray[Any]], weights: Mapping[str, float]
) -> list[Swap]:
    """Return the weight of each axis at which the two have the same score.

    The sum of the weights divides both scores, so only the weighted sum of the gaps decides, which is linear in each.
    """
    above, below = pair
    gaps = {name: float(x[place[above]] - x[place[below]]) for name, x in terms.items()}
    lead = sum(weights[name] * gap for name, gap in gaps.items())
    swaps = []
    for name, gap in gaps.items():
        swap_weight = weights[name] - lead / gap if gap else -1.0
        others = sum(weights.values()) - weights[name]
        if lead > 0 and swap_weight >= 0 and others + swap_weight > 0:
            swaps.append(Swap(above, below, name, weights[name], swap_weight))
    return swaps


def _without(found: Dynascore, problem: str) -> Dynascore:
    return Dynascore(
        found.averages, found.weights, found.data_weights, left_out=found.left_out, unused=found.unused, problem=problem
    )


def _table(values: pd.DataFrame, axes: Mapping[str, Axis]) -> pd.DataFrame:
    """Return the table with the axes that are known, models by name, and no value that is not a number."""
    import pandas as pd

    if not isinstance(values.columns, pd.MultiIndex) or values.columns.nlevels != 2:
        raise InvalidArgument("the table must have a row per model and columns (axis, data)")
    if values.index.has_duplicates or values.columns.has_duplicates:
        raise InvalidArgument("every model, and every axis on a data set, can have one value only")
    table = values.set_axis(values.columns.set_names(["axis", "data"]), axis=1)
    unknown = [name for name in table.columns.get_level_values("axis") if name not in axes]
    if unknown:
        raise InvalidArgument(f"{quoted(unknown[0])} is not an axis; the axes are {', '.join(axes)}")
    try:
        table = table.astype("Float64").astype(float)
    except (TypeError, ValueError) as error:
        raise InvalidArgument("every value must be a number") from error
    table.index = table.index.map(str)
    return table.where(np.isfinite(table))


def _incomplete(table: pd.DataFrame, axes: Sequence[str]) -> dict[str, str]:
    """Return the models that lack a value, with what they lack."""
    missing: dict[str, str] = {}
    for axis, data in table.columns:
        if axis in axes:
            for model in table.index[table[(axis, data)].isna()]:
                missing.setdefault(model, f"no value for {axis} on {data}")
    return missing


def _averages(table: pd.DataFrame, axes: Sequence[str], by_data: Mapping[str, float]) -> pd.DataFrame:
    """Return each model's mean of each axis over the data sets; NaN where a value is missing."""
    import pandas as pd

    averages = {}
    for axis in axes:
        part = table[axis]
        shares = np.array([by_data[name] for name in part])
        averages[axis] = part.to_numpy() @ (shares / shares.sum())
    return pd.DataFrame(averages, index=table.index)


def _checked(argument: str, given: Mapping[str, float], known: Sequence[str] | Mapping[str, Any]) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"`{argument}` must be a dict, such as {{'performance': 4}}, not {quoted(given)}")
    for name, weight in given.items():
        if name not in known:
            raise InvalidArgument(f"`{argument}` has {quoted(name)}, which is none of {', '.join(map(str, known))}")
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not 0 <= weight < np.inf:
            raise InvalidArgument(f"`{argument}` of {name} must be a number of 0 or more, not {quoted(weight)}")
    return {name: float(weight) for name, weight in given.items()}


def _floats(values: Sequence[float | None]) -> Any:
    import pandas as pd

    return pd.array(values, dtype="Float64")
