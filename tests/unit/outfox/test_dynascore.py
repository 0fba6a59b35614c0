"""Dynascore, against an independent computation in plain Python."""

import json
import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

import outfox
from outfox.dynascore import AXES, compute
from outfox.errors import InvalidArgument

Values = dict[str, dict[tuple[str, str], float]]
WEIGHTS = {"performance": 4.0, "throughput": 1.0, "memory": 1.0, "robustness": 1.0, "fairness": 1.0}


def independent(values: Values, weights: Mapping[str, float], data: Mapping[str, float]) -> tuple[Any, Any]:
    """Return the scores and AMRS, row by row as Dynabench defines them."""
    direction = dict.fromkeys(AXES, 1) | dict.fromkeys(("memory", "calibration", "latency", "price"), -1)
    offset = dict.fromkeys(AXES, 0.0) | {"memory": 16_384.0, "calibration": 100.0}
    axes = list(dict.fromkeys(axis for axis, _ in next(iter(values.values()))))
    x: dict[str, dict[str, float]] = {}
    for model, row in values.items():
        x[model] = {}
        for axis in axes:
            parts = [(data[name], value) for (one, name), value in row.items() if one == axis]
            average = sum(weight * value for weight, value in parts) / sum(weight for weight, _ in parts)
            x[model][axis] = direction[axis] * average + offset[axis]
    order = sorted(x, key=lambda model: (x[model]["performance"], model))
    highest = max(row["performance"] for row in x.values())
    rates: dict[str, float] = {}
    for axis in axes:
        found = []
        for before, after in pairwise(order):
            gap = x[after]["performance"] - x[before]["performance"]
            if abs(gap) > 0.0001 * highest:
                found.append(abs(x[after][axis] - x[before][axis]) / gap)
        rates[axis] = sum(found) / len(found)
    total = sum(weights.values())
    scores = {
        model: sum(weights.get(axis, 0) / total * x[model][axis] / abs(rates[axis]) for axis in axes) for model in x
    }
    return scores, rates


def invented(models: int, data: int, seed: int) -> Values:
    draw = random.Random(seed)
    limits = {"performance": (40, 99), "throughput": (10, 4_000), "memory": (200, 6_000), "robustness": (50, 99),
              "fairness": (50, 99), "calibration": (1, 30)}  # fmt: skip
    return {
        f"model {number}": {
            (axis, f"round {one + 1}"): draw.uniform(*limit) for axis, limit in limits.items() for one in range(data)
        }
        for number in range(models)
    }


def table(values: Values) -> pd.DataFrame:
    frame = pd.DataFrame.from_dict(values, orient="index")
    frame.columns = pd.MultiIndex.from_tuples(frame.columns)
    return frame


def tidy(values: Values) -> pd.DataFrame:
    """The same values as `outfox.evaluate` returns them, with rows that do not count."""
    rows = []
    for model, row in values.items():
        for (axis, data), value in row.items():
            one = {"model": model, "data": data, "slice": "", "axis": axis, "metric": AXES[axis].metrics[0], "n": 10,
                   "value": value, "low": value, "high": value}  # fmt: skip
            rows += [one, one | {"slice": "label: positive", "value": 1.0}, one | {"metric": "macro_f1", "value": 2.0}]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("models", "data", "seed"), [(2, 1, 1), (3, 2, 2), (10, 5, 3), (40, 3, 4)])
def test_scores_and_rates_equal_an_independent_computation(models: int, data: int, seed: int) -> None:
    values = invented(models, data, seed)
    draw = random.Random(seed)
    weights = {axis: draw.uniform(0, 5) for axis in WEIGHTS} | {"calibration": draw.uniform(0, 5)}
    by_data = {f"round {one + 1}": draw.uniform(0.5, 5) for one in range(data)}
    scores, rates = independent(values, weights, by_data)
    found = outfox.dynascore(tidy(values), weights, data_weights=by_data)
    assert found["dynascore"].tolist() == pytest.approx(sorted(scores.values(), reverse=True), abs=1e-9, rel=1e-12)
    assert found["model"].tolist() == sorted(scores, key=lambda model: -scores[model])
    assert found["rank"].tolist() == list(range(1, models + 1))
    assert found.attrs["amrs"] == pytest.approx(rates, abs=1e-9, rel=1e-12)
    pd.testing.assert_frame_equal(found, outfox.dynascore(table(values), weights, data_weights=by_data))


def test_default_weights_are_dynaboards() -> None:
    values = invented(6, 2, 8)
    scores, _ = independent(values, WEIGHTS, {"round 1": 5, "round 2": 5})
    found = outfox.dynascore(table(values))
    assert dict(zip(found["model"], found["dynascore"], strict=True)) == pytest.approx(scores, abs=1e-9, rel=1e-12)
    assert {axis for axis, weight in found.attrs["weights"].items() if weight} == set(WEIGHTS)


def test_models_with_equal_performance_do_not_change_the_rates_and_order_does_not_matter() -> None:
    values = invented(6, 1, 5)
    for name in ("model 1", "model 4"):
        values[name]["performance", "round 1"] = values["model 2"]["performance", "round 1"]
    scores, rates = independent(values, WEIGHTS, {"round 1": 5})
    found = outfox.dynascore(table(values), WEIGHTS)
    assert dict(zip(found["model"], found["dynascore"], strict=True)) == pytest.approx(scores, abs=1e-9, rel=1e-12)
    assert {axis: found.attrs["amrs"][axis] for axis in WEIGHTS} == pytest.approx(
        {axis: rates[axis] for axis in WEIGHTS}, abs=1e-9, rel=1e-12
    )
    shuffled = table(values).sample(frac=1, random_state=3)
    pd.testing.assert_frame_equal(outfox.dynascore(shuffled, WEIGHTS), found)


def test_models_with_the_same_score_share_a_rank() -> None:
    values = {name: {("performance", "seed"): points} for name, points in (("a", 90.0), ("b", 90.0), ("c", 80.0))}
    found = outfox.dynascore(table(values))
    assert list(zip(found["model"], found["rank"], strict=True)) == [("a", 1), ("b", 1), ("c", 3)]


def test_a_model_without_a_value_has_no_rank_and_changes_nothing() -> None:
    values = invented(5, 2, 6)
    complete = outfox.dynascore(table(values))
    values["incomplete"] = {**values["model 0"], ("throughput", "round 2"): float("nan")}
    values["infinite"] = {**values["model 0"], ("memory", "round 1"): float("inf")}
    found = outfox.dynascore(table(values))
    assert found.loc[found["rank"].notna(), "dynascore"].tolist() == complete["dynascore"].tolist()
    left = found[found["rank"].isna()].set_index("model")
    assert (set(left.index), left["dynascore"].isna().all()) == ({"incomplete", "infinite"}, True)
    assert "throughput on round 2" in left.loc["incomplete", "why"]
    assert outfox.dynascore(table(values), WEIGHTS | {"throughput": 0, "memory": 0})["rank"].notna().all()


def test_an_axis_without_values_or_without_differences_is_not_used() -> None:
    values = invented(4, 1, 7)
    for row in values.values():
        row["robustness", "round 1"] = 80.0
        row["fairness", "round 1"] = float("nan")
    found = outfox.dynascore(table(values), WEIGHTS)
    used = {axis: weight for axis, weight in WEIGHTS.items() if axis not in ("robustness", "fairness")}
    for row in values.values():
        del row["robustness", "round 1"], row["fairness", "round 1"]
    scores, _ = independent(values, used, {"round 1": 5})
    assert dict(zip(found["model"], found["dynascore"], strict=True)) == pytest.approx(scores, abs=1e-9, rel=1e-12)
    assert set(found.attrs["unused"]) == {"robustness", "fairness"}
    assert found["dynascore"].notna().all()


@pytest.mark.parametrize(
    "values",
    [
        {"only": {("performance", "seed"): 90.0}},
        {"a": {("performance", "seed"): 90.0}, "b": {("performance", "seed"): 90.0}},
        {"a": {("performance", "seed"): 90.0}, "b": {("performance", "seed"): float("nan")}},
        {"a": {("throughput", "seed"): 90.0}, "b": {("throughput", "seed"): 80.0}},
    ],
)
def test_without_two_different_performances_there_is_no_score_and_the_reason_is_given(values: Values) -> None:
    found = outfox.dynascore(table(values))
    assert (found["dynascore"].isna().all(), found["rank"].isna().all()) == (True, True)
    assert found.attrs["problem"]
    assert found["why"].notna().all()
    assert "nan" not in found.to_string().lower()


def test_the_swap_weight_is_where_two_neighbours_tie_and_beyond_it_they_swap() -> None:
    values = invented(8, 2, 9)
    found = compute(table(values))
    assert found.swaps
    for swap in found.swaps:
        at = compute(table(values), {**found.weights, swap.axis: swap.swap_weight}).scores
        assert at[swap.above] == pytest.approx(at[swap.below], rel=1e-9)
        for side in (-1, 1):
            moved = max(0.0, swap.swap_weight + side * 1e-4)
            after = compute(table(values), {**found.weights, swap.axis: moved}).scores
            beyond = side * swap.change > 0
            assert (after[swap.above] < after[swap.below]) == beyond or moved == swap.swap_weight


def test_no_smaller_change_of_one_weight_alters_the_ranking() -> None:
    values = invented(6, 1, 10)
    found = compute(table(values))
    nearest = found.nearest_swap
    assert nearest is not None
    for axis, weight in found.weights.items():
        for share in (-0.999, 0.999):
            moved = weight + share * abs(nearest.change)
            if moved >= 0:
                assert list(compute(table(values), {**found.weights, axis: moved}).ranks) == list(found.ranks)
    moved = nearest.swap_weight + (1e-6 if nearest.change > 0 else -1e-6)
    assert list(compute(table(values), {**found.weights, nearest.axis: moved}).ranks) != list(found.ranks)


def test_a_model_that_is_better_on_every_axis_has_no_swap() -> None:
    better = {("performance", "seed"): 90.0, ("robustness", "seed"): 90.0}
    found = outfox.dynascore(table({"a": better, "b": dict.fromkeys(better, 80.0)}))
    assert (found.attrs["swaps"], found["swap_axis"].isna().all(), found["next"].tolist()) == ([], True, ["b", pd.NA])


def test_a_data_set_of_weight_zero_does_not_count() -> None:
    values = invented(4, 2, 11)
    one = {model: {key: value for key, value in row.items() if key[1] == "round 1"} for model, row in values.items()}
    found = outfox.dynascore(table(values), data_weights={"round 2": 0})
    assert found["dynascore"].tolist() == outfox.dynascore(table(one))["dynascore"].tolist()


def test_the_attributes_can_be_written_as_json() -> None:
    assert json.loads(json.dumps(outfox.dynascore(table(invented(3, 1, 12))).attrs))["problem"] == ""


@pytest.mark.parametrize(
    ("weights", "data_weights"),
    [({"speed": 1}, None), ({"performance": -1}, None), ({"performance": float("nan")}, None), ({}, None),
     ({"performance": 0}, None), ({"performance": True}, None), ([4, 1], None), (None, {"round 9": 1}),
     (None, {"round 1": "5"})],
)  # fmt: skip
def test_wrong_weights_are_refused(weights: Any, data_weights: Any) -> None:
    with pytest.raises(InvalidArgument):
        outfox.dynascore(table(invented(3, 1, 1)), weights, data_weights=data_weights)


@pytest.mark.parametrize(
    "results",
    ["sentiment", pd.DataFrame({"model": ["a"]}), pd.concat([tidy(invented(2, 1, 1))] * 2),
     pd.DataFrame({("speed", "seed"): {"a": 1.0}}), pd.DataFrame({("performance", "seed"): {"a": "good"}}),
     pd.DataFrame([[1.0], [2.0]], index=["a", "a"], columns=pd.MultiIndex.from_tuples([("performance", "seed")]))],
)  # fmt: skip
def test_frames_that_are_not_results_are_refused(results: Any) -> None:
    with pytest.raises(InvalidArgument):
        outfox.dynascore(results)
