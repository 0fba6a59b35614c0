"""`outfox evaluate` on the command line, with tiny models and frozen rounds."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import outfox as client
from templates import BUILT_IN
from tests.conftest import Outfox
from tests.fakes.foreign_models import save_huggingface, save_onnx
from tests.integration.outfox.conftest import archives  # noqa: F401 - pytest finds fixtures by their names here

pytestmark = pytest.mark.xdist_group("outfox")

TASK = "sentiment"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_huggingface(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def place(archives: Path, tmp_path: Path, outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """Frozen rounds in the archives folder of the command's home."""
    folder = Path(shutil.copytree(archives, tmp_path / "archives"))
    monkeypatch.setenv("OUTFOX_ARCHIVES", str(folder))
    return folder


Evaluate = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def evaluate(outfox: Outfox, place: Path) -> Evaluate:
    """Runs the command and returns its results."""

    def run(*arguments: object) -> list[dict[str, Any]]:
        ran = outfox("evaluate", TASK, *arguments, "--json")
        assert ran.code == 0, ran.err
        return list(json.loads(ran.out)["results"])

    return run


def held_out(place: Path, number: int) -> list[dict[str, Any]]:
    """The held-out rows of a round, as a researcher reads them."""
    frame = client.load(TASK, rounds=[number], path=place)
    rows: list[dict[str, Any]] = frame[frame["split"] == "held_out"].to_dict("records")
    return rows


def accuracy(results: list[dict[str, Any]], data: str) -> dict[str, Any]:
    wanted = {"data": data, "metric": "accuracy", "slice": "", "axis": "performance"}
    (found,) = [one for one in results if wanted.items() <= one.items()]
    return found


def write_predictions(path: Path, rows: list[tuple[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "prediction"), *rows])
    return path


def error_of(ran: Any) -> str:
    assert (ran.code, ran.out) == (2, ""), (ran.code, ran.out, ran.err)
    return str(json.loads(ran.err.splitlines()[-1])["code"])


def test_a_model_of_another_team_is_measured_on_the_seed_and_every_round(
    evaluate: Evaluate, place: Path, model: Path
) -> None:
    results = evaluate(f"tiny={model}")
    assert {one["data"] for one in results} == {"seed", "round 1", "round 2", "all"}
    found = accuracy(results, "round 1")
    assert found["n"] == len(held_out(place, 1))
    assert 0 <= found["low"] <= found["value"] <= found["high"] <= 100
    assert found["low"] < found["high"]
    worst = next(one for one in results if one["axis"] == "worst_round")
    assert worst["value"] == min(accuracy(results, f"round {number}")["value"] for number in (1, 2))


def test_predictions_are_compared_with_the_gold_labels_row_by_row(
    evaluate: Evaluate, place: Path, tmp_path: Path
) -> None:
    rows = held_out(place, 1)
    half = [(row["id"], row["gold_label"] if number % 2 else "neutral") for number, row in enumerate(rows)]
    right = sum(row["gold_label"] == answer for row, (_, answer) in zip(rows, half, strict=True))
    results = evaluate(write_predictions(tmp_path / "mine.csv", half), "--on", "round 1")
    assert accuracy(results, "round 1")["value"] == pytest.approx(100 * right / len(rows))
    assert accuracy(results, "round 1")["model"] == "mine"
    assert not [one for one in results if one["axis"] == "calibration"], "there are no confidences"


def test_a_second_run_measures_nothing_and_gives_the_same_figures(
    outfox: Outfox, evaluate: Evaluate, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluate(model)
    monkeypatch.setattr("ml_backend.targets.sources.ModelSource.open", lambda self: pytest.fail("it was asked again"))
    assert evaluate(model) == first


def test_the_client_reads_what_is_stored(evaluate: Evaluate, place: Path, model: Path) -> None:
    results = evaluate(f"tiny={model}")
    archived = client.open(TASK, rounds=[1], path=place).evaluations()
    assert len(archived) == sum(one["data"] == "round 1" and one["axis"] != "worst_round" for one in results)
    frame = client.evaluations(TASK, path=place)
    numbers = frame.pop("round")
    assert numbers.isna().tolist() == [not name.startswith("round ") for name in frame["data"]]
    assert set(numbers.dropna()) == {1, 2}
    assert sorted(map(str, frame.to_dict("records"))) == sorted(
        str({column: one[column] for column in frame.columns}) for one in results
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda rows: rows[:-1], "no prediction"),
        (lambda rows: [*rows, rows[0]], "several"),
        (lambda rows: [*rows, ("nobody", "positive")], "not in"),
        (lambda rows: [(rows[0][0], "mixed"), *rows[1:]], "not a label"),
    ],
)
def test_predictions_that_do_not_fit_the_rows_are_refused_and_change_nothing(
    outfox: Outfox, place: Path, tmp_path: Path, change: Callable[[Any], Any], text: str
) -> None:
    rows = change([(row["id"], "positive") for row in held_out(place, 1)])
    ran = outfox("evaluate", TASK, write_predictions(tmp_path / "mine.csv", rows), "--on", "round 1", "--json")
    assert error_of(ran) == "predictions_invalid"
    assert text in ran.err
    assert not (place / TASK / "evaluations").exists()


def test_a_pickle_or_a_link_in_a_model_is_refused(outfox: Outfox, place: Path, model: Path, tmp_path: Path) -> None:
    pickled = Path(shutil.copytree(model, tmp_path / "pickled"))
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    assert error_of(outfox("evaluate", TASK, pickled, "--json")) == "model_file_unsafe"
    linked = Path(shutil.copytree(model, tmp_path / "linked"))
    (linked / "vocab.txt").symlink_to("/etc/passwd")
    assert error_of(outfox("evaluate", TASK, linked, "--json")) == "model_file_unsafe"
    assert not (place / TASK / "evaluations").exists()


def test_labels_without_meaning_must_be_confirmed_or_given(outfox: Outfox, evaluate: Evaluate, tmp_path: Path) -> None:
    plain = save_huggingface(tmp_path / "plain", ("LABEL_0", "LABEL_1", "LABEL_2"))
    assert error_of(outfox("evaluate", TASK, plain, "--json")) == "label_mapping_unconfirmed"
    confirmed = evaluate(plain, "--yes", "--on", "round 1")
    swapped = "LABEL_0=negative,LABEL_1=neutral,LABEL_2=positive"
    given = evaluate(plain, "--labels", swapped, "--on", "round 1")
    assert confirmed[0]["model_id"] != given[0]["model_id"], "another mapping is another model"


def test_a_model_with_another_number_of_labels_is_refused(outfox: Outfox, place: Path, tmp_path: Path) -> None:
    two = save_huggingface(tmp_path / "two", ("negative", "positive"))
    assert error_of(outfox("evaluate", TASK, two, "--json")) == "model_mismatch"


def test_an_onnx_folder_answers_like_the_model_it_was_exported_from(evaluate: Evaluate, tmp_path: Path) -> None:
    exported = save_onnx(tmp_path / "exported")
    results = evaluate(f"onnx={exported}", f"torch={tmp_path / 'exported-source'}", "--on", "round 1")
    values = {one["model"]: one["value"] for one in results if one["metric"] == "macro_f1"}
    assert values["onnx"] == values["torch"]


def test_held_out_rows_of_a_file_are_measured_and_training_rows_are_not(
    outfox: Outfox, evaluate: Evaluate, model: Path, tmp_path: Path
) -> None:
    rows = [
        {"id": f"{split}-{number}", "split": split, "text": f"Row {number}.", "label": "positive"}
        for split, numbers in (("train", 6), ("held_out", 4))
        for number in range(numbers)
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert accuracy(evaluate(model, "--on", file), "rows.jsonl")["n"] == 4
    file.write_text("\n".join(json.dumps({**row, "split": "train"}) for row in rows))
    assert error_of(outfox("evaluate", TASK, model, "--on", file, "--json")) == "pack_invalid"


@pytest.mark.parametrize("form", ["datasets", "dynasent"])
def test_our_own_exports_are_read(evaluate: Evaluate, place: Path, model: Path, tmp_path: Path, form: str) -> None:
    files = client.export(TASK, form, tmp_path / form, rounds=[1], path=place)
    (file,) = [one for one in files if one.stem == "held_out"]
    results = evaluate(model, "--on", f"{file},round 1")
    assert accuracy(results, file.name)["value"] == accuracy(results, "round 1")["value"]


def test_unknown_data_axes_and_models_are_errors_with_codes(outfox: Outfox, place: Path, model: Path) -> None:
    assert error_of(outfox("evaluate", TASK, model, "--on", "round 9", "--json")) == "data_set_not_found"
    assert error_of(outfox("evaluate", TASK, model, "--axes", "beauty", "--json")) == "axis_unknown"
    assert error_of(outfox("evaluate", TASK, "nothing-here", "--json")) == "model_not_found"
    assert not (place / TASK / "evaluations").exists()


def test_a_researcher_evaluates_and_compares_in_pandas(place: Path, model: Path, tmp_path: Path) -> None:
    rows = held_out(place, 1)
    right = write_predictions(tmp_path / "right.csv", [(row["id"], row["gold_label"]) for row in rows])
    frame = client.evaluate({"tiny": model, "right": right}, TASK, path=place, on="round 1")
    assert set(frame["model"]) == {"tiny", "right"}
    assert frame.attrs["notes"] == ["right, round 1: the predictions have no confidence"]
    best = [one for one in frame.to_dict("records") if one["model"] == "right"]
    assert accuracy(best, "round 1")["value"] == 100
    again = client.evaluate([model], TASK, path=place, on="round 1,round 2", axes="performance, calibration")
    assert set(again["data"]) == {"round 1", "round 2", "all"}
    (pair,) = client.compare(frame).to_dict("records")
    assert {pair["first"], pair["second"]} == {"tiny", "right"}
    assert pair["n"] == len(rows)
    with pytest.raises(client.EvaluationFailed) as failed:
        client.evaluate({"a": tmp_path / "nothing"}, TASK, path=place)
    assert failed.value.reason == "model_not_found"


def test_rows_of_a_hidden_data_set_are_not_written(outfox: Outfox, place: Path, tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": ["h1", "h2"], "text": ["Fine.", "Bad."], "label": ["positive", "negative"]})
    rows.to_parquet(tmp_path / "hidden.parquet")
    assert outfox("task", "create", TASK).code == 0
    imported = outfox(
        "suite", "import", TASK, "secret", tmp_path / "hidden.parquet", "--form", "parquet", "--hidden",
        "--source", "here", "--licence", "CC0-1.0", "--json",
    )  # fmt: skip
    assert imported.code == 0, imported.err
    to = tmp_path / "rows.jsonl"
    ran = outfox("data", "rows", TASK, "--on", "suite secret", "--to", to, "--json")
    assert error_of(ran) == "data_set_not_found"
    assert not list(tmp_path.glob("*rows.jsonl*")), "neither the file nor a draft"


def test_every_axis_has_a_figure_or_a_note(outfox: Outfox, evaluate: Evaluate, place: Path, tmp_path: Path) -> None:
    # Without PyTorch, the process whose memory is measured starts in a moment.
    model = save_onnx(tmp_path / "exported")
    results = evaluate(f"tiny={model}", "--on", "round 1", "--axes", "all")
    whole = {(one["axis"], one["metric"]): one for one in results if not one["slice"]}
    wanted = [("performance", "accuracy"), ("robustness", "consistency"), ("robustness", "accuracy"),
              ("memory", "memory_mb"), ("throughput", "rows_per_second"), ("latency", "p99_ms"),
              ("calibration", "ece")]  # fmt: skip
    assert all(whole[key]["value"] >= 0 for key in wanted)
    ran = outfox("evaluate", TASK, f"tiny={model}", "--on", "round 1", "--axes", "all", "--json")
    # A model of this machine has no price, and no row names a person.
    assert {"price", "fairness"} & {key[0] for key in whole} == set()
    assert len(json.loads(ran.out)["notes"]) == 2
    frame = client.evaluations(TASK, path=place)
    frame = frame[frame["axis"].isin(["performance", "throughput", "memory", "robustness", "fairness", "worst_round"])]
    other = frame.assign(model="other", value=frame["value"] * 0.9)
    ranked = client.dynascore(pd.concat([frame, other]))
    assert set(ranked["model"]) == {"tiny", "other"}
    assert ranked["dynascore"].notna().all()


def test_a_file_of_predictions_can_have_answers_to_perturbed_rows(
    outfox: Outfox, evaluate: Evaluate, place: Path, tmp_path: Path
) -> None:
    plain = [(row["id"], row["gold_label"]) for row in held_out(place, 1)]
    file = write_predictions(tmp_path / "mine.csv", plain)
    ran = outfox("evaluate", TASK, file, "--on", "round 1", "--axes", "robustness,memory", "--json")
    assert (ran.code, json.loads(ran.out)["results"]) == (0, [])
    assert len(json.loads(ran.out)["notes"]) == 2
    # The rows to predict, with their copies, as a file.
    to = tmp_path / "rows.jsonl"
    assert outfox("data", "rows", TASK, "--on", "round 1", "--axes", "robustness", "--to", to).code == 0
    rows = [json.loads(line) for line in to.read_text().splitlines()]
    assert all(set(row) == {"id", "text"} for row in rows), "no right answers"
    gold = dict(plain)
    assert gold.keys() == {row["id"] for row in rows if "#" not in row["id"]}
    copies = [(row["id"], gold[row["id"].partition("#")[0]]) for row in rows if "#" in row["id"]]
    assert len(copies) > len(plain)
    write_predictions(file, [*plain, *copies])
    results = evaluate(file, "--on", "round 1", "--axes", "performance,robustness")
    (found,) = [one for one in results if one["metric"] == "consistency" and not one["slice"]]
    assert found["value"] == 100
    write_predictions(file, [*plain, *copies[1:]])
    ran = outfox("evaluate", TASK, file, "--on", "round 1", "--axes", "robustness", "--json")
    assert error_of(ran) == "predictions_invalid"


def test_a_model_of_the_hub_is_found_in_its_cache(
    outfox: Outfox, evaluate: Evaluate, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, cached = "0123456789abcdef0123456789abcdef01234567", tmp_path / "hub" / "models--team--tiny"
    blobs, snapshot = cached / "blobs", cached / "snapshots" / commit
    for folder in (blobs, snapshot, cached / "refs"):
        folder.mkdir(parents=True)
    (cached / "refs" / "main").write_text(commit)
    for file in model.iterdir():
        shutil.copyfile(file, blobs / file.name)
        (snapshot / file.name).symlink_to(blobs / file.name)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert accuracy(evaluate("team/tiny", "--on", "round 1"), "round 1")["model"] == "team/tiny"
    assert error_of(outfox("evaluate", TASK, "team/other", "--json")) == "model_not_found"


def test_an_onnx_file_is_read_with_the_tokenizer_next_to_it(outfox: Outfox, evaluate: Evaluate, tmp_path: Path) -> None:
    exported = save_onnx(tmp_path / "exported")
    assert accuracy(evaluate(f"mine={exported / 'model.onnx'}", "--on", "round 1"), "round 1")["model"] == "mine"
    (exported / "tokenizer.json").unlink()
    assert error_of(outfox("evaluate", TASK, exported / "model.onnx", "--json")) == "model_file_corrupt"


def test_files_without_splits_and_with_one_label_are_measured_whole(
    evaluate: Evaluate, model: Path, tmp_path: Path
) -> None:
    rows = [{"text": f"Row {number}.", "label": "positive"} for number in range(5)]
    file = tmp_path / "one-label.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert accuracy(evaluate(model, "--on", file), file.name)["n"] == 5
    split = tmp_path / "held-out-only.jsonl"
    split.write_text("\n".join(json.dumps({**row, "split": "held_out"}) for row in rows[:3]))
    assert accuracy(evaluate(model, "--on", split), split.name)["n"] == 3


def test_training_rows_that_are_left_out_are_named(outfox: Outfox, place: Path, model: Path) -> None:
    seed = BUILT_IN / TASK / "seed.jsonl"
    split = [json.loads(line)["split"] for line in seed.read_text().splitlines()]
    ran = outfox("evaluate", TASK, model, "--on", seed, "--json")
    assert accuracy(json.loads(ran.out)["results"], "seed.jsonl")["n"] == split.count("held_out")
    assert any(str(split.count("train")) in note for note in json.loads(ran.out)["notes"])


def test_a_broken_line_is_an_error_with_its_place_and_nothing_is_stored(
    outfox: Outfox, place: Path, model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"text": "Fine.", "label": "positive"}) + "\n{broken\n")
    ran = outfox("evaluate", TASK, model, "--on", file, "--json")
    assert error_of(ran) == "pack_invalid"
    assert "2" in str(json.loads(ran.err.splitlines()[-1]))
    assert not (place / TASK / "evaluations").exists()


def test_the_older_command_takes_its_options_and_measures_no_training_rows(
    outfox: Outfox, place: Path, model: Path
) -> None:
    seed = BUILT_IN / TASK / "seed.jsonl"
    old = json.loads(outfox("model", "evaluate", TASK, model, "--rows", seed, "--json").out)
    new = json.loads(outfox("evaluate", TASK, model, "--on", "seed", "--json").out)
    whole = accuracy(new["results"], "seed")
    assert (old["rows"], old["accuracy"]) == (whole["n"], pytest.approx(whole["value"], abs=1e-3))
    assert sum(sum(row.values()) for row in old["confusion"].values()) == whole["n"]
    assert accuracy(old["results"], "seed.jsonl")["value"] == pytest.approx(whole["value"])
