"""`import outfox`: frozen rounds as researchers have them, in pandas and in other forms."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import outfox
from tests.integration.rounds_data.played import text_of

NO_OTHER_OF_OURS = (
    "import sys, outfox; "
    "print(sorted({'plugin', 'round_manager', 'ml_backend', 'mturk', 'templates', 'sqlalchemy'} & sys.modules.keys()))"
)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


def test_all_rounds_are_loaded_one_row_for_each_example(archives: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    assert df.groupby("round").size().to_dict() == {1: 40, 2: 40}
    first = df.iloc[3]
    assert (first["text"], first["label"], first["gold_label"], first["fooled"]) == (
        text_of(3), "negative", "negative", True,
    )  # fmt: skip
    assert [vote["label"] for vote in first["votes"]] == ["negative", "negative", None]
    assert first["verdicts"][0]["probabilities"].keys() == {"positive", "negative", "neutral"}
    assert str(df["submitted_at"].dtype) == "datetime64[us, UTC]"


def test_rounds_and_columns_can_be_chosen(archives: Path) -> None:
    df = outfox.load("sentiment", rounds=[2], path=archives, columns=["text", "split"])
    assert (list(df.columns), len(df)) == (["text", "split"], 40)
    assert len(outfox.load("sentiment", rounds=1, path=archives)) == 40


def test_one_archive_is_a_path_too_and_says_what_pandas_alone_reads(archives: Path) -> None:
    folder = archives / "sentiment" / "round-1"
    pd.testing.assert_frame_equal(
        outfox.load("sentiment", path=folder), pd.read_parquet(folder / "examples.parquet"), check_flags=False
    )


def test_some_at_a_time_are_the_same_as_all_at_once(archives: Path) -> None:
    wanted = ["id", "round", "text", "split", "fooled", "submitted_at"]
    chunks = list(outfox.iter_load("sentiment", path=archives, columns=wanted, chunk=7))
    assert max(map(len, chunks)) == 7
    pd.testing.assert_frame_equal(
        pd.concat(chunks, ignore_index=True), outfox.load("sentiment", path=archives, columns=wanted)
    )


def test_votes_and_attempts_join_their_examples(archives: Path) -> None:
    df, votes = outfox.load("sentiment", path=archives), outfox.votes("sentiment", path=archives)
    counted = votes.groupby("example").size()
    assert df.set_index("id")["votes"].map(len).loc[counted.index].equals(counted)
    assert set(votes["worker"]) <= set(df["author"])
    attempts = outfox.attempts("sentiment", rounds=1, path=archives)
    linked = attempts.dropna(subset=["example"]).merge(df, left_on="example", right_on="id")
    assert (len(attempts), len(linked)) == (40, 20)
    assert (linked["worker"] == linked["author"]).all()
    shown = outfox.contexts("sentiment", path=archives)
    assert set(df["context"]) == set(shown["id"])


def test_models_tell_what_they_learned_from(archives: Path) -> None:
    models = outfox.models("sentiment", rounds=1, path=archives)
    assert list(models["rank"]) == [0, 1]
    assert models.loc[0, "metrics"] == {"accuracy": 81.5}
    assert set(models.loc[0, "data"]) == {"train", "held_out", "base", "base_sha256"}


def test_metrics_count_what_was_collected(archives: Path) -> None:
    row = outfox.metrics("sentiment", rounds=1, path=archives).iloc[0]
    # Five of the forty were withdrawn; the fake model is always fooled.
    assert (row["collected"], row["fooled"], row["verified_fooling"]) == (35, 35, 25)
    assert (row["mer"], round(row["vmer"], 3)) == (1.0, 0.714)
    assert (round(row["vmer_low"], 3), round(row["vmer_high"], 3)) == (0.549, 0.837)
    assert (row["train"] + row["held_out"], row["authors"]) == (25, 6)


def test_hashes_are_checked_on_request(archives: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(archives / "sentiment" / "round-1", tmp_path / "copy"))
    outfox.load("sentiment", path=copy, verify=True)
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    manifest["files"]["votes.parquet"]["sha256"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    outfox.votes("sentiment", path=copy)
    with pytest.raises(outfox.OutfoxError, match=r"votes\.parquet was changed"):
        outfox.votes("sentiment", path=copy, verify=True)


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"task": "nobody"}, "there is no archive of nobody at"),
        ({"rounds": 7}, "round 7 of sentiment is not at .*; there are rounds 1, 2"),
        ({"columns": ["txt"]}, "sentiment has no column 'txt'; there are id, round"),
    ],
)
def test_a_mistake_is_one_line_with_its_cure(archives: Path, wish: dict[str, Any], told: str) -> None:
    with pytest.raises(outfox.OutfoxError, match=told) as error:
        outfox.load(**{"task": "sentiment", "path": archives, **wish})
    assert "\n" not in str(error.value)


def test_it_needs_nothing_else_of_ours(tmp_path: Path) -> None:
    shutil.copy(str(outfox.__file__), tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", NO_OTHER_OF_OURS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_anli_rows_have_premise_hypothesis_and_the_first_letter_of_the_label(archives: Path, tmp_path: Path) -> None:
    made = outfox.export("nli", "anli", tmp_path, path=archives)
    rows = [row for file in made for row in lines(file)]
    assert [file.name for file in made] == ["held_out.jsonl", "train.jsonl"]
    assert len(rows) == 25
    assert {row["label"] for row in rows} == {"n"}
    assert {"uid", "premise", "hypothesis", "label", "reason"} <= rows[0].keys()
    assert rows[0]["reason"] == "Because."


def test_dynasent_rows_tell_who_voted_for_what(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", rounds=1, path=archives)
    rows = {row["text_id"]: row for file in outfox.export(df, "dynasent", tmp_path) for row in lines(file)}
    example = df.iloc[3]
    row = rows[example["id"]]
    assert (row["sentence"], row["gold_label"]) == (example["text"], "negative")
    assert row["label_distribution"] == {
        "positive": [],
        "negative": [vote["worker"] for vote in example["votes"][:2]],
        "neutral": [],
    }
    assert row["model_1_probs"].keys() == {"positive", "negative", "neutral"}
    assert row["prompt_data"] == {"prompt": example["prompt"]}


def test_squad_files_have_answers_where_the_passage_has_them(archives: Path, tmp_path: Path) -> None:
    made = outfox.export("qa", "squad", tmp_path, path=archives)
    paragraphs = [
        paragraph
        for file in made
        for article in json.loads(file.read_text("utf-8"))["data"]
        for paragraph in article["paragraphs"]
    ]
    asked = [(paragraph["context"], one) for paragraph in paragraphs for one in paragraph["qas"]]
    assert len(asked) == 25
    for passage, one in asked:
        (answer,) = one["answers"]
        assert passage[answer["answer_start"] :].startswith(answer["text"])


def test_hugging_face_reads_the_exported_folder(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    import datasets

    df = outfox.load("sentiment", path=archives)
    outfox.export(df, "datasets", tmp_path / "data")
    loaded = datasets.load_dataset(str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(part) for name, part in loaded.items()} == df["split"].value_counts().to_dict()
    example = loaded["train"][0]
    same = df.set_index("id").loc[example["id"]]
    assert (example["text"], example["votes"]) == (same["text"], list(same["votes"]))


@pytest.mark.parametrize(
    ("task", "form", "told"),
    [
        ("sentiment", "anli", "ANLI's form is for"),
        ("sentiment", "squad", "SQuAD's form is for"),
        ("qa", "dynasent", "DynaSent's form is for"),
        ("nli", "csv", "there is no form 'csv'; choose one of anli, datasets, dynasent, squad"),
    ],
)
def test_a_form_that_does_not_fit_the_task_is_refused(
    archives: Path, tmp_path: Path, task: str, form: str, told: str
) -> None:
    with pytest.raises(outfox.OutfoxError, match=told):
        outfox.export(task, form, tmp_path, path=archives)


def test_a_frame_that_outfox_did_not_load_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(outfox.OutfoxError, match=r"take one that `outfox\.load` returned"):
        outfox.export(pd.DataFrame({"split": ["train"]}), "anli", tmp_path)
