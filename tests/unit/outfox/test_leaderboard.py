"""`outfox.leaderboard` on stored evaluations, and what is shown of hidden data sets."""

from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

import outfox
from outfox.errors import DataCorrupt, DataNotFound, InvalidArgument
from outfox.figures import LEAST_HIDDEN_ROWS
from tests.fakes.evaluations import ROUNDS, TASK, MeasuredData, store_evaluations

MODELS = {"va": "ada", "vb": "bo", "vc": "cy"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    store_evaluations(tmp_path, MODELS)
    return tmp_path


def test_wide_has_the_scores_of_dynascore_and_the_performance_on_each_data_set(place: Path) -> None:
    wide = outfox.leaderboard(TASK, path=place)
    stored = outfox.evaluations(TASK, path=place)
    expected = outfox.dynascore(stored)
    assert wide["rank"].tolist() == [1, 2, 3]
    assert wide["model"].tolist() == expected["model"].tolist()
    assert wide["dynascore"].tolist() == pytest.approx(expected["dynascore"].tolist(), abs=1e-9)
    whole = stored[(stored["slice"] == "") & (stored["metric"] == "accuracy") & (stored["data"] == "round 2")]
    values = whole.set_index("model_id")
    for _, row in wide.iterrows():
        assert row["round 2"] == values.loc[row["model_id"], "value"]
        assert row["round 2 low"] == values.loc[row["model_id"], "low"]
    assert [name for name in wide if name in {one.name for one in ROUNDS}] == [one.name for one in ROUNDS]


def test_weights_of_data_sets_and_axes_change_the_ranking_as_in_dynascore(place: Path) -> None:
    weights, data = {"performance": 1, "calibration": 5}, {"seed": 0, "round 1": 1}
    wide = outfox.leaderboard(TASK, path=place, weights=weights, data_weights=data)
    expected = outfox.dynascore(outfox.evaluations(TASK, path=place), weights, data_weights=data)
    assert wide[["model", "dynascore"]].equals(expected[["model", "dynascore"]])
    assert wide.attrs["amrs"] == expected.attrs["amrs"]


def test_long_has_every_figure_with_its_slice(place: Path) -> None:
    long = outfox.leaderboard(TASK, path=place, form="long")
    rare = long[(long["slice"] == "kind: rare") & (long["axis"] == "performance")]
    assert (sorted(rare["model"]), set(rare["n"])) == (["ada", "bo", "cy"], {3})
    assert set(long["axis"]) == {"performance", "throughput", "calibration", "worst_round"}
    assert not long["hidden"].any()


def test_files_belong_to_no_leaderboard(place: Path) -> None:
    store_evaluations(place, MODELS, [MeasuredData("private.csv", "file")])
    long = outfox.leaderboard(TASK, path=place, form="long")
    assert "private.csv" not in set(long["data"])
    assert "private.csv" in set(outfox.evaluations(TASK, path=place)["data"])


def test_models_with_the_same_name_are_told_apart(place: Path) -> None:
    store_evaluations(place, {"vd": "ada", "ve": "ada (va)"})
    names = outfox.leaderboard(TASK, path=place)["model"].tolist()
    assert len(names) == len(set(names)) == 5
    assert {"ada (va) (ve)", "ada (va)", "ada (vd)"} <= set(names)


def test_a_name_has_no_characters_that_change_the_direction_of_text_or_the_line(place: Path) -> None:
    store_evaluations(place, {"vd": "a\u202egnp.exe\n" + "x" * 5_000})
    (name,) = set(outfox.leaderboard(TASK, path=place)["model"]) - set(MODELS.values())
    assert name.isprintable()
    assert len(name) < 200


@pytest.mark.parametrize(
    ("slices", "shown"),
    [
        ({"kind: a": 390, "kind: b": 10}, set()),
        ({"kind: a": 300, "kind: b": 100}, {"kind: a", "kind: b"}),
        ({"kind: a": 200, "kind: b": 160, "kind: c": 40}, {"kind: a"}),
        ({"kind: a": 200, "kind: b": 140, "kind: c": 30, "kind: d": 30}, {"kind: a", "kind: b"}),
        ({"kind: one": 1}, set()),
        # Of two columns, whose groups can differ by a few rows.
        ({"kind: a": 200, "kind: b": 200, "part: a1": 100, "part: a2": 99, "part: b": 200}, {"kind: a", "kind: b"}),
    ],
)
def test_figures_of_hidden_data_reveal_no_small_group(tmp_path: Path, slices: dict[str, int], shown: set[str]) -> None:
    """Neither the small slices themselves nor what the others leave of the whole."""
    store_evaluations(tmp_path, MODELS, [*ROUNDS, MeasuredData("suite exam", "suite", 400, hidden=True, slices=slices)])
    long = outfox.leaderboard(TASK, path=tmp_path, form="long")
    exam = long[(long["data"] == "suite exam") & (long["axis"] == "performance")]
    assert set(exam["slice"]) - {""} == shown
    assert exam["n"].min() >= LEAST_HIDDEN_ROWS
    assert exam["hidden"].all()
    # It counts for the score.
    assert "suite exam" in outfox.leaderboard(TASK, path=tmp_path).attrs["data_weights"]


def test_hidden_data_of_few_rows_have_no_figures_at_all(tmp_path: Path) -> None:
    tiny = MeasuredData("suite tiny", "suite", LEAST_HIDDEN_ROWS - 1, hidden=True)
    store_evaluations(tmp_path, MODELS, [*ROUNDS, tiny])
    assert "suite tiny" not in set(outfox.leaderboard(TASK, path=tmp_path, form="long")["data"])


def test_axes_that_dynascore_does_not_know_are_reported_and_do_not_count(place: Path) -> None:
    wide = outfox.leaderboard(TASK, path=place)
    store = store_evaluations(place, MODELS)
    result = store.result(ROUNDS[0].sha256, "va", "calibration") or {}
    store.store_result(ROUNDS[0].sha256, "va", "charm", {**result, "axis": "charm", "headline": "ece"})
    assert "charm" in set(outfox.leaderboard(TASK, path=place, form="long")["axis"])
    assert outfox.leaderboard(TASK, path=place)["dynascore"].equals(wide["dynascore"])


def test_a_model_without_a_value_comes_last_with_the_reason(place: Path) -> None:
    store_evaluations(place, {"vd": "dee"}, ROUNDS[:2])
    last = outfox.leaderboard(TASK, path=place).iloc[-1]
    assert (last["model"], last["rank"] is pd.NA, "round 2" in last["why"]) == ("dee", True, True)


def test_one_model_has_no_score_and_none_has_no_leaderboard(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound):
        outfox.leaderboard(TASK, path=tmp_path)
    store_evaluations(tmp_path, {"va": "ada"})
    alone = outfox.leaderboard(TASK, path=tmp_path)
    assert alone["dynascore"].isna().all()
    assert alone.attrs["problem"]
    store_evaluations(tmp_path / "other", MODELS, ROUNDS[:1], ["throughput"])
    without = outfox.leaderboard(TASK, path=tmp_path / "other")
    assert (len(without), without["rank"].isna().all(), bool(without.attrs["problem"])) == (3, True, True)


def test_wrong_arguments_and_files_are_errors(place: Path) -> None:
    for wrong in (
        {"path": place, "form": "tall"}, {}, {"path": place, "url": "http://x"}, {"path": place, "board": "b"},
        {"path": place, "weights": {"charm": 1}}, {"path": place, "data_weights": {"round 9": 1}},
    ):  # fmt: skip
        with pytest.raises(InvalidArgument):
            outfox.leaderboard(TASK, **wrong)  # type: ignore[arg-type]
    file = next((place / TASK / "evaluations").glob("*/va/throughput.json"))
    file.write_text('{"axis": "throughput", "model": "va", "values": [{"n": 1}]}')
    with pytest.raises(DataCorrupt):
        outfox.leaderboard(TASK, path=place)


def test_the_swap_of_each_model_is_the_one_of_dynascore(place: Path) -> None:
    wide = outfox.leaderboard(TASK, path=place)
    for (_, above), (_, below) in pairwise(wide.iterrows()):
        assert above["next"] == below["model"]
        if above["swap_axis"] is pd.NA:
            continue
        weights = {**wide.attrs["weights"], above["swap_axis"]: float(above["swap_weight"])}
        again = outfox.leaderboard(TASK, path=place, weights=weights).set_index("model")["dynascore"]
        assert again[above["model"]] == pytest.approx(again[below["model"]], abs=1e-9)
