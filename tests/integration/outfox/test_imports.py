"""`outfox.import_rounds` and `import_suite`: published data as archives, without a database."""

import json
import os
import random
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import outfox
from round_manager.services.archives import verify_archive
from tests.integration.outfox.published import (
    MODELS,
    anli_folder,
    csv_rows,
    dynasent_row,
    json_rows,
    real_file,
    sentence,
    write_csv,
    write_jsonl,
)

USE = {"train": "train", "dev": "held_out", "test": "held_out"}
ABOUT: dict[str, Any] = {"source": "https://example.org/data", "licence": "CC-BY-4.0"}
NLI = {"e": "entailment", "n": "neutral", "c": "contradiction"}
TEXTS: dict[str, Any] = {"labels": ["yes", "no"], "inputs": ["text"]}


def rows_by_id(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in frame.to_dict("records")}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def assert_valid(report: Any) -> None:
    for one in report.rounds:
        assert verify_archive(str(one.path)).result.problems == ()


def test_dynasent_has_the_published_labels_splits_votes_and_predictions_on_every_row(tmp_path: Path) -> None:
    names = ("round01-yelp-dev", "round01-yelp-test", "round02-dynabench-dev")
    files = [real_file(f"dynasent-v1.1-{name}.jsonl") for name in names]
    report = outfox.import_rounds(files, "sentiment", form="dynasent", to=tmp_path, **ABOUT)
    assert [(one.number, one.examples, one.votes) for one in report.rounds] == [
        (1, {"verified": 7200}, 36_000),
        (2, {"verified": 720}, 3_600),
    ]
    found = rows_by_id(outfox.load("sentiment", path=tmp_path, verify=True))
    for file, split in zip(files, ("dev", "test", "dev"), strict=True):
        for row in json_rows(file):
            mine = found.pop(row["text_id"])
            assert (mine["text"], mine["gold_label"]) == (row["sentence"], row["gold_label"])
            assert (mine["published_split"], mine["split"]) == (split, USE[split])
            cast = {(vote["worker"], vote["label"]) for vote in mine["votes"]}
            assert cast == {(who, label) for label, people in row["label_distribution"].items() for who in people}
            model = "model_1" if "model_1_label" in row else "model_0"
            assert (mine["model"], mine["prediction"]) == (model, row[f"{model}_label"])
            assert mine["fooled"] == (row[f"{model}_label"] != row["gold_label"])
    assert not found
    assert_valid(report)


def test_split_votes_and_rows_without_a_majority_keep_their_published_label(tmp_path: Path) -> None:
    rows = [
        dynasent_row(1, {"positive": 3, "negative": 2}, "positive"),
        dynasent_row(2, {"positive": 2, "negative": 2, "neutral": 1}, None),
        dynasent_row(3, {"mixed": 3, "neutral": 2}, "mixed"),
        dynasent_row(4, {"neutral": 3, "mixed": 2}, "neutral"),
        dynasent_row(5, {"positive": 4, "neutral": 1}, "neutral"),
    ]
    file = write_jsonl(tmp_path / "round02-train.jsonl", rows)
    report = outfox.import_rounds(file, "sentiment", form="dynasent", to=tmp_path / "archives", **ABOUT)
    frame = outfox.load("sentiment", path=tmp_path / "archives")
    assert frame["gold_label"].fillna("").tolist() == ["positive", "", "mixed", "neutral", "neutral"]
    assert frame["status"].tolist() == ["verified", "disputed", "disputed", "verified", "verified"]
    # Nothing to learn where there is no label of the task; where it was published is kept.
    assert frame["split"].fillna("").tolist() == ["train", "", "", "train", "train"]
    assert set(frame["published_split"]) == {"train"}
    assert json.loads((report.rounds[0].path / "manifest.json").read_bytes())["origin"]["votes_differ"] == 1
    assert_valid(report)


def test_hatemoji_has_the_published_labels_and_splits_and_its_contrast_pairs(tmp_path: Path) -> None:
    files = [real_file(f"hatemoji-build-{split}.csv") for split in ("train", "dev")]
    report = outfox.import_rounds(files, "hate", form="hatemoji", to=tmp_path, **ABOUT)
    published = [row for file in files for row in csv_rows(file)]
    assert [one.number for one in report.rounds] == [5, 6, 7]
    assert sum(sum(one.examples.values()) for one in report.rounds) == len(published) == 5_319
    found = rows_by_id(outfox.load("hate", path=tmp_path))
    for row in published:
        mine = found[row["entry_id"]]
        assert mine["gold_label"] == ("hateful" if row["label_gold"] == "1" else "not_hateful")
        assert (mine["published_split"], mine["split"]) == (row["split"], USE[row["split"]])
        assert (mine["round"], mine["text"]) == (int(row["round.base"]), row["text"])
        assert (mine["original"], mine["set"], mine["type"]) == (row["matched_id"], row["set"], row["type"])
    # The published splits part some pairs, and the third file has the other half of others.
    splits = {row["entry_id"]: row["split"] for row in published}
    partners = [(row["split"], splits.get(row["matched_id"])) for row in published]
    parted = sum(other is not None and own != other for own, other in partners)
    assert sum(one.splits["parted_pairs"] for one in report.rounds) == parted // 2 == 461
    assert sum(one.splits["pairs_elsewhere"] for one in report.rounds) == sum(one is None for _, one in partners)
    assert_valid(report)


def test_anli_keeps_verifiers_votes_and_the_predictions_of_eight_models(tmp_path: Path) -> None:
    files, votes, published = anli_folder(tmp_path / "anli")
    report = outfox.import_rounds(
        files, "nli", form="anli", votes=votes, slices=["genre"], to=tmp_path / "archives", **ABOUT
    )
    assert [one.number for one in report.rounds] == [1, 2, 3]
    found = rows_by_id(outfox.load("nli", path=tmp_path / "archives"))
    cast = {row["uid"]: row["verifier labels"] for row in json_rows(votes)}
    assert len(found) == len(published)
    for row in published:
        mine = found[row["uid"]]
        assert (mine["round"], mine["published_split"], mine["split"]) == (
            row["round"],
            row["split"],
            USE[row["split"]],
        )
        assert mine["gold_label"] == mine["label"] == NLI[row["label"]]
        assert (mine["premise"], mine["hypothesis"]) == (row["context"], row["hypothesis"])
        assert [vote["label"] for vote in mine["votes"]] == [NLI[one] for one in cast.get(row["uid"], [])]
        assert mine["status"] == ("verified" if row["uid"] in cast else "unchecked")
        assert (mine["prediction"], mine["genre"]) == (NLI[row["model_label"]], "wikipedia")
    assert set(report.predictions) == set(MODELS)
    for model, file in report.predictions.items():
        said = pd.read_parquet(file)
        assert list(said.columns) == ["id", "round", "prediction"]
        assert dict(zip(said["id"], said["prediction"], strict=True)) == {
            row["uid"]: NLI[row["predictions"][model]] for row in published if row["split"] != "train"
        }
    assert_valid(report)


def accuracy(rows: Iterable[tuple[str, str]]) -> float:
    found = [said == gold for said, gold in rows]
    return 100 * sum(found) / len(found)


def figures_of(frame: pd.DataFrame, keys: list[str]) -> dict[Any, float]:
    found = frame[(frame["metric"] == "accuracy") & (frame["data"] != "all")]
    return {tuple(row[key] for key in keys): row["value"] for row in found.to_dict("records")}


def test_the_table_of_every_published_model_on_every_round(tmp_path: Path) -> None:
    files, votes, published = anli_folder(tmp_path / "anli", rows=20)
    report = outfox.import_rounds(files, "nli", form="anli", votes=votes, to=tmp_path / "archives", **ABOUT)
    frame = outfox.evaluate(report.predictions, "nli", path=tmp_path / "archives", on="rounds", axes="performance")
    measured = [row for row in published if row["split"] != "train"]
    expected = {
        (model, f"round {number}"): accuracy(
            (row["predictions"][model], row["label"]) for row in measured if row["round"] == number
        )
        for model in MODELS
        for number in (1, 2, 3)
    }
    assert figures_of(frame[frame["slice"] == ""], ["model", "data"]) == pytest.approx(expected)


def test_a_model_is_measured_on_every_functional_test_of_hatecheck(tmp_path: Path) -> None:
    file = real_file("hatecheck.csv")
    outfox.import_suite(file, "hate", "hatecheck", form="hatecheck", slices=["functionality"], to=tmp_path, **ABOUT)
    published = csv_rows(file)
    said = [("hateful", "not_hateful")["not" in row["test_case"]] for row in published]
    rows = [{"id": row["case_id"], "prediction": one} for row, one in zip(published, said, strict=True)]
    predictions = write_csv(tmp_path / "keyword.csv", rows)
    frame = outfox.evaluate({"keyword": predictions}, "hate", path=tmp_path, on="hatecheck", axes="performance")
    functions = {row["functionality"] for row in published}
    expected = {
        f"functionality: {name}": accuracy(
            (one, row["label_gold"].replace("non-", "not_"))
            for row, one in zip(published, said, strict=True)
            if row["functionality"] == name
        )
        for name in functions
    }
    found = {key[0]: value for key, value in figures_of(frame, ["slice"]).items()}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert len(functions) == 29


def test_the_functional_tests_of_hatecheck_are_slices_of_a_suite(tmp_path: Path) -> None:
    file = real_file("hatecheck.csv")
    report = outfox.import_suite(file, "hate", "hatecheck", form="hatecheck", to=tmp_path, **ABOUT)
    assert report.rounds[0].path == tmp_path / "hate" / "suite-hatecheck"
    frame = pd.read_parquet(report.rounds[0].path / "examples.parquet")
    published = csv_rows(file)
    assert Counter(frame["functionality"]) == Counter(row["functionality"] for row in published)
    assert frame["gold_label"].tolist() == [row["label_gold"].replace("non-", "not_") for row in published]
    assert set(frame["split"]) == {"held_out"}
    assert_valid(report)
    with pytest.raises(outfox.DataNotFound):  # A suite is not a round.
        outfox.load("hate", path=tmp_path)


def test_squad_questions_have_their_answers_and_passages(tmp_path: Path) -> None:
    file = real_file("xquad.en.json")
    report = outfox.import_rounds(file, "qa", form="squad", splits="dev", to=tmp_path, **ABOUT)
    frame = rows_by_id(outfox.load("qa", path=tmp_path))
    questions = [
        (question, paragraph["context"])
        for article in json.loads(file.read_bytes())["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    assert len(frame) == len(questions) == 1_190
    for question, passage in questions:
        mine, answer = frame[question["id"]], question["answers"][0]
        assert (mine["question"], mine["passage"], mine["split"]) == (question["question"], passage, "held_out")
        assert (mine["gold_answer"], mine["gold_answer_start"]) == (answer["text"], answer["answer_start"])
    assert_valid(report)


@pytest.mark.parametrize("form", ["anli", "datasets"])
def test_an_export_is_imported_again_with_the_same_labels_and_splits(form: str, archives: Path, tmp_path: Path) -> None:
    outfox.export("nli", form=form, to=tmp_path / "nli-data", path=archives)
    columns = {} if form == "anli" else {"id": "id", "label": "gold_label"}
    report = outfox.import_rounds(
        tmp_path / "nli-data", "nli", form=form, columns=columns, to=tmp_path / "again", labels=list(NLI.values()),
        inputs=["premise", "hypothesis"], **ABOUT,
    )  # fmt: skip
    before = outfox.load("nli", path=archives)
    before = before[before["split"].notna()]
    after = rows_by_id(outfox.load("nli", path=tmp_path / "again"))
    assert {row["id"]: (row["gold_label"], row["split"]) for row in before.to_dict("records")} == {
        own: (row["gold_label"], row["split"]) for own, row in after.items()
    }
    assert_valid(report)


@pytest.mark.parametrize("task", ["sentiment", "qa"])
def test_archives_of_another_installation_are_imported_whole(task: str, archives: Path, tmp_path: Path) -> None:
    report = outfox.import_rounds(archives / task, task, form="outfox", to=tmp_path, **ABOUT)
    before, after = (outfox.load(task, path=path) for path in (archives, tmp_path))
    target = ("answer", "answer_start") if task == "qa" else ("label",)
    same = ["id", "round", *target, *(f"gold_{name}" for name in target), "split", "author", "model", "prediction",
            "confidence", "fooled", "status"]  # fmt: skip
    pd.testing.assert_frame_equal(before[same], after[same])
    assert [[dict(vote) for vote in votes] for votes in before["votes"]] == [
        [dict(vote) for vote in votes] for votes in after["votes"]
    ]
    assert set(after["source"]) == {"import"}
    assert_valid(report)


def pairs_file(folder: Path, count: int = 40) -> Path:
    dice = random.Random(3)
    rows = [
        {
            "id": f"{kind}{number}",
            "text": sentence(dice),
            "label": "yes" if kind == "a" else "no",
            "original": "" if kind == "a" else f"a{number}",
        }
        for number in range(count)
        for kind in "ab"
    ]
    dice.shuffle(rows)
    return write_csv(folder / "pairs.csv", rows)


def test_contrast_pairs_stay_on_one_side_of_splits_that_are_drawn(tmp_path: Path) -> None:
    file = pairs_file(tmp_path)
    report = outfox.import_rounds(file, "pairs", form="csv", to=tmp_path / "archives", **TEXTS, **ABOUT)
    rows = rows_by_id(outfox.load("pairs", path=tmp_path / "archives"))
    assert {row["split"] for row in rows.values()} == {"train", "held_out"}
    assert all(
        row["split"] == rows[row["original"]]["split"] for row in rows.values() if isinstance(row["original"], str)
    )
    assert "parted_pairs" not in report.rounds[0].splits
    assert_valid(report)


def test_a_dataframe_gives_the_same_rows_as_its_file(tmp_path: Path) -> None:
    file = pairs_file(tmp_path)
    frame = pd.read_csv(file)
    for data, place in ((file, "file"), (frame, "frame")):
        outfox.import_rounds(data, "pairs", form="csv", to=tmp_path / place, **TEXTS, **ABOUT)
    one, other = (outfox.load("pairs", path=tmp_path / place) for place in ("file", "frame"))
    pd.testing.assert_frame_equal(one, other)


def test_the_same_import_is_repeated_without_a_change_and_gives_the_same_bytes_elsewhere(tmp_path: Path) -> None:
    file = pairs_file(tmp_path)
    already = []
    for place in ("one", "one", "other"):
        report = outfox.import_rounds(file, "pairs", form="csv", to=tmp_path / place, rounds=1, **TEXTS, **ABOUT)
        already += [one.already for one in report.rounds]
    assert already == [False, True, False]
    assert tree(tmp_path / "one") == tree(tmp_path / "other")


def test_other_data_at_the_same_place_is_refused_and_no_round_is_written(tmp_path: Path) -> None:
    files, _, _ = anli_folder(tmp_path / "anli", rows=3)
    outfox.import_rounds(files[3:6], "nli", form="anli", to=tmp_path / "archives", **ABOUT)
    before = tree(tmp_path / "archives")
    with pytest.raises(outfox.ArchiveExists):
        outfox.import_rounds(files[:4], "nli", form="anli", to=tmp_path / "archives", **ABOUT)
    assert tree(tmp_path / "archives") == before


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    files, votes, _ = anli_folder(tmp_path / "anli", rows=3)
    report = outfox.import_rounds(files, "nli", form="anli", votes=votes, to=tmp_path / "new", dry_run=True, **ABOUT)
    assert [sum(one.examples.values()) for one in report.rounds] == [9, 9, 9]
    assert not (tmp_path / "new").exists()


ROW = {"uid": "u1", "context": "A dog runs.", "hypothesis": "It moves.", "label": "e", "reason": ""}
# What is wrong with the third line, and the code that says so.
MISTAKES: dict[str, Any] = {
    "json_invalid": '{"uid": "u3", "context": ',
    "label_unknown": {**ROW, "uid": "u3", "label": "maybe"},
    "label_missing": {key: value for key, value in {**ROW, "uid": "u3"}.items() if key != "label"},
    "id_duplicate": {**ROW, "uid": "u2"},
    "id_invalid": {**ROW, "uid": ["u3"]},
    "text_missing": {**ROW, "uid": "u3", "hypothesis": " "},
    "text_invalid": {**ROW, "uid": "u3", "hypothesis": "half \ud83d"},
    "votes_invalid": {**ROW, "uid": "u3", "verifier labels": 3},
    "object_invalid": {**ROW, "uid": "u3", "predictions": ["e"]},
}


@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_is_reported_with_its_line_and_nothing_is_written(code: str, tmp_path: Path) -> None:
    bad = MISTAKES[code]
    lines = [json.dumps(ROW), json.dumps({**ROW, "uid": "u2"}), bad if isinstance(bad, str) else json.dumps(bad)]
    file = tmp_path / "train.jsonl"
    file.write_text("\n".join(lines), "utf-8")
    with pytest.raises(outfox.NotImportable) as caught:
        outfox.import_rounds(file, "nli", form="anli", to=tmp_path / "new", **ABOUT)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.code) == ("train.jsonl", 3, code)
    assert not (tmp_path / "new").exists()


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    rows = [{**ROW, "uid": f"u{number}", "label": "maybe" if number % 2 else "e"} for number in range(60)]
    file = write_jsonl(tmp_path / "train.jsonl", [*rows, {**ROW, "hypothesis": None}])
    with pytest.raises(outfox.NotImportable) as caught:
        outfox.import_rounds(file, "nli", form="anli", to=tmp_path / "new", **ABOUT)
    assert [(one.line, one.code) for one in caught.value.problems] == [(2, "label_unknown"), (61, "text_missing")]


@pytest.mark.parametrize(
    ("change", "code", "line"),
    [
        ({"original": "b9"}, "original_missing", 4),
        ({"original": "b2"}, "original_invalid", 4),
        ({"id": "a1", "original": ""}, "id_duplicate", 4),
    ],
)
def test_a_broken_contrast_pair_is_reported(change: dict[str, str], code: str, line: int, tmp_path: Path) -> None:
    rows = [
        {"id": "a1", "text": "one", "label": "yes", "original": ""},
        {"id": "b1", "text": "two", "label": "no", "original": "a1"},
        {"id": "b2", "text": "three", "label": "no", "original": "a1"} | change,
    ]
    with pytest.raises(outfox.NotImportable) as caught:
        outfox.import_rounds(write_csv(tmp_path / "p.csv", rows), "p", form="csv", to=tmp_path, **TEXTS, **ABOUT)
    assert [(one.line, one.code) for one in caught.value.problems] == [(line, code)]


def test_a_chain_of_originals_is_refused_where_splits_are_drawn(tmp_path: Path) -> None:
    rows = [{"id": str(n), "text": f"text {n}", "label": "yes", "original": str(n - 1) if n else ""} for n in range(3)]
    file = write_csv(tmp_path / "p.csv", rows)
    with pytest.raises(outfox.NotImportable) as caught:
        outfox.import_rounds(file, "p", form="csv", to=tmp_path, **TEXTS, **ABOUT)
    assert [one.code for one in caught.value.problems] == ["original_chain"]
    outfox.import_rounds(file, "p", form="csv", to=tmp_path, splits="test", **TEXTS, **ABOUT)


BAD_CALLS: dict[str, tuple[dict[str, Any], type[outfox.OutfoxError]]] = {
    "no licence": ({"licence": " "}, outfox.InvalidArgument),
    "no source": ({"source": ""}, outfox.InvalidArgument),
    "unknown form": ({"form": "xml"}, outfox.InvalidArgument),
    "unknown column": ({"columns": {"label": "sentiment"}}, outfox.NotImportable),
    "unknown meaning": ({"columns": {"colour": "label"}}, outfox.NotImportable),
    "unknown label": ({"label_map": {"yes": "maybe"}}, outfox.NotImportable),
    "unknown slice": ({"slices": ["genre"]}, outfox.NotImportable),
    "unknown split": ({"splits": "later"}, outfox.NotImportable),
    "missing file": ({"data": "nowhere.csv"}, outfox.NotImportable),
    "too many splits": ({"splits": ["train", "dev"]}, outfox.InvalidArgument),
    "no labels": ({"labels": None}, outfox.InvalidArgument),
    "labels that are no names": ({"labels": ["Yes!", "no"]}, outfox.InvalidArgument),
}


@pytest.mark.parametrize("what", BAD_CALLS)
def test_a_wrong_argument_is_refused_and_nothing_is_written(what: str, tmp_path: Path) -> None:
    change, error = BAD_CALLS[what]
    call: dict[str, Any] = {"data": pairs_file(tmp_path), "form": "csv", "to": tmp_path / "new", **TEXTS, **ABOUT}
    call |= change
    with pytest.raises(error):
        outfox.import_rounds(call.pop("data"), "pairs", **call)
    assert not (tmp_path / "new").exists()


def forge_split(archive: Path) -> None:
    table = parquet.read_table(archive / "examples.parquet")
    place = table.schema.get_field_index("split")
    parquet.write_table(table.set_column(place, "split", [["train"] * table.num_rows]), archive / "examples.parquet")


def forge_licence(archive: Path) -> None:
    file = archive / "manifest.json"
    manifest = json.loads(file.read_bytes())
    manifest["spec"]["data_licence"] = "CC0-1.0"
    file.write_text(json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


@pytest.mark.parametrize("forge", [forge_split, forge_licence])
def test_a_changed_archive_is_not_valid(forge: Callable[[Path], None], tmp_path: Path) -> None:
    report = outfox.import_rounds(pairs_file(tmp_path), "pairs", form="csv", to=tmp_path, **TEXTS, **ABOUT)
    archive = Path(shutil.copytree(report.rounds[0].path, tmp_path / "copy"))
    assert verify_archive(str(archive)).result.problems == ()
    forge(archive)
    assert verify_archive(str(archive)).result.problems


def huge_cells(folder: Path, form: str) -> Path:
    """A file with a text of 40 MB on each of many rows; in Parquet, where it is stored once, a file of 2 MB."""
    text, count = "x" * 40_000_000, 500
    if form == "parquet":
        column = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), [text])
        labels, ids = pa.array(["yes"] * count), pa.array([str(number) for number in range(count)])
        parquet.write_table(pa.table({"id": ids, "text": column, "label": labels}), folder / "huge.parquet")
        return folder / "huge.parquet"
    if form == "csv":
        return write_csv(folder / "huge.csv", [{"id": "1", "text": text, "label": "yes"}])
    return write_jsonl(folder / "huge.jsonl", [{"id": "1", "text": text, "label": "yes"}])


@pytest.mark.parametrize(
    ("form", "code"), [("parquet", "cell_too_long"), ("csv", "csv_invalid"), ("jsonl", "line_too_long")]
)
def test_enormous_cells_are_refused_before_they_fill_the_memory(form: str, code: str, tmp_path: Path) -> None:
    file = huge_cells(tmp_path, form)
    with pytest.raises(outfox.NotImportable) as caught:
        outfox.import_rounds(file, "texts", form=form, to=tmp_path / "new", splits="train", **TEXTS, **ABOUT)
    assert [one.code for one in caught.value.problems] == [code]
    assert not (tmp_path / "new").exists()


def test_rows_whose_texts_are_long_together_are_imported(tmp_path: Path) -> None:
    texts = [f"{number} {'long ' * 15_000}" for number in range(900)]
    table = {"id": [str(number) for number in range(900)], "text": texts, "label": ["yes", "no", "no"] * 300}
    parquet.write_table(pa.table(table), tmp_path / "long.parquet")
    outfox.import_rounds(
        tmp_path / "long.parquet", "texts", form="parquet", to=tmp_path / "new", splits="train", **TEXTS, **ABOUT
    )
    frame = outfox.load("texts", path=tmp_path / "new", columns=["id", "text", "label"])
    assert frame["text"].tolist() == texts
    assert frame["id"].tolist() == table["id"]


def secret(folder: Path) -> Path:
    return write_csv(folder / "secret.csv", [{"id": "1", "text": "a secret", "label": "yes"}])


def linked_file(folder: Path) -> Any:
    (folder / "data").mkdir()
    (folder / "data" / "train.csv").symlink_to(secret(folder))
    return folder / "data", "datasets"


def zipped(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "train.csv", "w") as archive:
        archive.writestr("../../train.csv", "id,text,label\n1,one,yes\n")
    return folder / "train.csv", "csv"


def a_pipe(folder: Path) -> Any:
    os.mkfifo(folder / "train.csv")
    return folder / "train.csv", "csv"


def an_archive(folder: Path) -> Path:
    report = outfox.import_rounds(secret(folder), "pairs", form="csv", to=folder / "theirs", **TEXTS, **ABOUT)
    return Path(report.rounds[0].path)


def linked_table(folder: Path) -> Any:
    archive = an_archive(folder)
    (archive / "examples.parquet").rename(folder / "elsewhere.parquet")
    (archive / "examples.parquet").symlink_to(folder / "elsewhere.parquet")
    return archive, "outfox"


def hostile_settings(folder: Path) -> Any:
    archive = an_archive(folder)
    manifest = json.loads((archive / "manifest.json").read_bytes())
    manifest["spec"]["fields"][0]["name"] = manifest["spec"]["model_input"][0] = "../../etc/passwd"
    (archive / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    return archive, "outfox"


def another_table(folder: Path) -> Any:
    archive = an_archive(folder)
    table = parquet.read_table(archive / "examples.parquet")
    parquet.write_table(table.slice(0, 0), archive / "examples.parquet")
    return archive, "outfox"


TRICKS: dict[Callable[[Path], Any], str] = {
    linked_file: "file_link",
    zipped: "file_compressed",
    a_pipe: "file_unreadable",
    linked_table: "file_link",
    hostile_settings: "manifest_invalid",
    another_table: "file_corrupt",
}


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_tricks_with_files_are_refused(trick: Callable[[Path], Any], tmp_path: Path) -> None:
    data, form = trick(tmp_path)
    names = TEXTS if form != "outfox" else {}
    with pytest.raises(outfox.NotImportable) as caught:
        outfox.import_rounds(data, "pairs", form=form, to=tmp_path / "new", **names, **ABOUT)
    assert [one.code for one in caught.value.problems] == [TRICKS[trick]]
    assert not (tmp_path / "new").exists()


def test_what_a_killed_import_left_is_removed_by_the_next(tmp_path: Path) -> None:
    files, _, _ = anli_folder(tmp_path / "anli", rows=3)
    to, killed = tmp_path / "archives", tmp_path / "killed"
    process = os.fork()
    if not process:
        # After the second of three rounds was placed.
        placed = iter(range(2))
        rename = Path.rename

        def rename_or_die(self: Path, target: Path) -> Path:
            if target.name.startswith("round-") and next(placed, None) is None:
                os._exit(7)
            return rename(self, target)

        Path.rename = rename_or_die  # type: ignore[method-assign, assignment]
        outfox.import_rounds(files, "nli", form="anli", to=killed, **ABOUT)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
    assert {one.name for one in (killed / "nli").glob("round-*")} == {"round-1", "round-2"}
    for place in (killed, to):
        outfox.import_rounds(files[6:], "nli", form="anli", to=place, rounds=3, **ABOUT)
    assert tree(killed) == tree(to)


def test_unchecked_examples_are_exported_on_request(archives: Path, tmp_path: Path) -> None:
    frame = outfox.load("nli", path=archives)
    unchecked = set(frame[frame["status"] == "unchecked"]["id"])
    assert unchecked
    made = {}
    for name, options in (("plain", {}), ("all", {"unchecked": True})):
        files = outfox.export("nli", "anli", tmp_path / name, path=archives, **options)  # type: ignore[arg-type]
        made[name] = {row["uid"]: row for file in files[:-1] for row in json_rows(file)}
        assert ("unchecked" in files[-1].read_text("utf-8").split("## How")[0]) == (name == "all")
    assert set(made["all"]) - set(made["plain"]) == unchecked
    labels = dict(zip(frame["id"], frame["label"], strict=True))
    assert all(NLI[made["all"][own]["label"]] == labels[own] for own in unchecked)
    held_out = {row["uid"] for row in json_rows(tmp_path / "all" / "held_out.jsonl")}
    assert held_out.isdisjoint(unchecked)
    with pytest.raises(outfox.InvalidArgument):
        outfox.open("nli", path=archives).export("anli", tmp_path / "x", unchecked="yes")  # type: ignore[arg-type]


def test_the_card_of_imported_rounds_says_where_they_are_from(tmp_path: Path) -> None:
    about = {**ABOUT, "citation": "Nie et al., 2020"}
    files, votes, _ = anli_folder(tmp_path / "anli", rows=5)
    outfox.import_rounds(files, "nli", form="anli", votes=votes, to=tmp_path / "archives", **about)
    made = outfox.export("nli", "anli", tmp_path / "out", path=tmp_path / "archives")
    card = made[-1].read_text("utf-8")
    assert "published by others and imported" in card
    assert card.count("Nie et al") == 3
    metrics = outfox.metrics("nli", path=tmp_path / "archives")
    assert metrics["imported"].tolist() == [True, True, True]
