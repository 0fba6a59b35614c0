"""`outfox.export`: frozen rounds as files that have the form of a known data set."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import pytest
from pyarrow import parquet

import outfox
from outfox.columns import OWN_COLUMNS
from templates.spec import COLUMNS
from tests.fakes.disk import full_disk

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def data_files(made: list[Path]) -> list[Path]:
    """Return the files of an export without its data card, which is the last one."""
    assert made[-1].name == "README.md"
    return made[:-1]


def lines(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file; constants that are not JSON, such as NaN, are refused."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in file.read_text("utf-8").split("\n") if line]


def real_file(name: str) -> Path:
    """Return a file of the original data set."""
    if not (DATA / name).is_file():
        pytest.skip(f"NOT PROVED: {name} is not in ../shared/data, so the form was not compared with it")
    return DATA / name


def shapes(values: list[Any]) -> dict[str, set[str]]:
    """Return every key by its path, with the types of its values."""
    found: dict[str, set[str]] = {}
    for value in values:
        for path, kind in _kinds(value, ""):
            found.setdefault(path, set()).add(kind)
    return found


def _kinds(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if path:
        yield path.removeprefix("."), type(value).__name__
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _kinds(one, f"{path}.{name}")
    if isinstance(value, list):
        for one in value:
            yield from _kinds(one, f"{path}[]")


def test_anli_rows_have_premise_hypothesis_and_the_first_letter_of_the_label(archives: Path, tmp_path: Path) -> None:
    made = data_files(outfox.export("nli", "anli", tmp_path, path=archives))
    rows = [row for file in made for row in lines(file)]
    assert [file.name for file in made] == ["held_out.jsonl", "train.jsonl"]
    assert len(rows) == 25
    assert {row["label"] for row in rows} == {"n"}
    # ANLI's own files call it `context`, the `datasets` library `premise`.
    assert {"uid", "context", "premise", "hypothesis", "label", "model_label", "reason"} <= rows[0].keys()
    assert (rows[0]["reason"], rows[0]["context"]) == ("Because.", rows[0]["premise"])
    assert {row["model_label"] for row in rows} <= {"e", "n", "c"}


def test_a_label_that_anli_does_not_have_is_refused(archives: Path, tmp_path: Path) -> None:
    frame = outfox.load("nli", path=archives).assign(gold_label="certainly")
    with pytest.raises(outfox.NotExportable, match="certainly"):
        outfox.export(frame, "anli", tmp_path / "out")


def test_dynasent_rows_list_the_voters_of_each_label(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", rounds=1, path=archives)
    rows = {row["text_id"]: row for file in data_files(outfox.export(df, "dynasent", tmp_path)) for row in lines(file)}
    example = df.iloc[3]
    row = rows[example["id"]]
    assert (row["sentence"], row["gold_label"]) == (example["text"], "negative")
    assert row["label_distribution"] == {
        "positive": [],
        "negative": [vote["worker"] for vote in example["votes"][:2]],
        "neutral": [],
        "mixed": [],
    }
    assert row["model_1_probs"].keys() == {"positive", "negative", "neutral"}
    assert (row["has_prompt"], row["prompt_data"]["prompt_sentence"]) == (True, example["prompt"])
    assert row["prompt_data"]["review_id"] == example["context"]


def test_missing_values_are_null_and_never_nan(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", rounds=1, path=archives)
    df["prompt"] = float("nan")
    df["prediction"] = df["prediction"].where(df.index % 2 == 0)
    rows = [row for file in data_files(outfox.export(df, "dynasent", tmp_path)) for row in lines(file)]
    assert {(row["has_prompt"], row["prompt_data"]) for row in rows} == {(False, None)}
    assert None in {row["model_1_label"] for row in rows}


def test_dynasent_files_have_the_keys_and_types_of_the_original(archives: Path, tmp_path: Path) -> None:
    real = shapes(lines(real_file("dynasent-v1.1-round02-dynabench-dev.jsonl")))
    made = data_files(outfox.export("sentiment", "dynasent", tmp_path, path=archives))
    ours = shapes([row for file in made for row in lines(file)])
    assert ours.pop("round") == {"int"}
    # A context has no rating; all other types are equal.
    assert ours.pop("prompt_data.review_rating") == {"NoneType"}
    assert real.pop("prompt_data.review_rating") == {"int"}
    # Archives do not contain the HITs of votes.
    assert (real.pop("hit_ids[]"), "hit_ids[]" in ours) == ({"str"}, False)
    # Our workers cannot choose it.
    real.pop("label_distribution.mixed[]")
    # Which labels have votes depends on the rows.
    voted = [f"label_distribution.{label}[]" for label in ("positive", "negative", "neutral")]
    assert set().union(*(ours.pop(name, set()) for name in voted)) == {"str"}
    assert set().union(*(real.pop(name) for name in voted)) == {"str"}
    assert ours == real


def test_squad_answers_are_at_their_position_in_the_passage(archives: Path, tmp_path: Path) -> None:
    made = data_files(outfox.export("qa", "squad", tmp_path, path=archives))
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


def test_squad_files_have_the_keys_and_types_of_the_original(archives: Path, tmp_path: Path) -> None:
    real = shapes([json.loads(real_file("xquad.en.json").read_text("utf-8"))])
    made = data_files(outfox.export("qa", "squad", tmp_path, path=archives))
    assert shapes([json.loads(file.read_text("utf-8")) for file in made]) == real


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


def test_datasets_files_have_the_archives_types_even_for_empty_columns(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    df = df.assign(votes=[[] for _ in df.index], why_right=None, mine=1)
    made = outfox.export(df, "datasets", tmp_path)
    archive = parquet.read_schema(archives / "sentiment" / "round-1" / "examples.parquet")
    for file in data_files(made):
        found = parquet.read_schema(file)
        assert found.remove(found.get_field_index("mine")).equals(archive)


def test_a_changed_column_is_exported_with_its_new_type(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    outfox.export(df.assign(label=range(len(df))), "datasets", tmp_path)
    assert str(parquet.read_schema(tmp_path / "train.parquet").field("label").type) == "int64"


@pytest.mark.parametrize("form", ["anli", "datasets", "dynasent", "squad"])
def test_a_frame_without_splits_is_refused(archives: Path, tmp_path: Path, form: str) -> None:
    task = {"anli": "nli", "squad": "qa"}.get(form, "sentiment")
    df = outfox.load(task, path=archives)
    with pytest.raises(outfox.NotExportable):
        outfox.export(df[df["split"].isna()], form, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_missing_column_is_named(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    for column in ("split", "votes"):
        with pytest.raises(outfox.NotExportable, match=column):
            outfox.export(df.drop(columns=column), "dynasent", tmp_path / "data")


def test_a_folder_that_cannot_be_made_is_an_error(archives: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(outfox.ExportNotWritten):
        outfox.export("sentiment", "dynasent", tmp_path / "file" / "below", path=archives)


@pytest.mark.parametrize(("task", "form"), [("sentiment", "anli"), ("sentiment", "squad"), ("qa", "dynasent")])
def test_a_form_that_does_not_fit_the_task_is_refused(archives: Path, tmp_path: Path, task: str, form: str) -> None:
    with pytest.raises(outfox.NotExportable, match=f"form {form}"):
        outfox.export(task, form, tmp_path, path=archives)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, hidden ones included; folders end with a slash."""
    return {
        f"{path.relative_to(folder)}{'/' if path.is_dir() else ''}": b"" if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


REFUSED = [
    ("sentiment", "anli", lambda df: df),
    ("sentiment", "squad", lambda df: df),
    ("qa", "dynasent", lambda df: df),
    ("nli", "csv", lambda df: df),
    ("sentiment", "dynasent", lambda df: df.drop(columns="votes")),
    ("sentiment", "datasets", lambda df: df[df["split"].isna()]),
    # Other rows are written before the invalid one.
    (
        "sentiment",
        "dynasent",
        lambda df: df.assign(text=pd.Series([*df["text"][:-1], "\ud800"], dtype=object), split="train"),
    ),
    ("sentiment", "dynasent", lambda df: df.assign(model=0, text=[*df["text"][:-1], float("inf")], split="train")),
    ("qa", "squad", lambda df: df.assign(gold_answer_start=[*df["id"][:-1], float("inf")], split="train")),
    ("sentiment", "datasets", lambda df: df.assign(mine=[*df["text"][:-1], 5], split="train")),
    ("sentiment", "datasets", lambda df: df.assign(mine=[object()] * len(df))),
]


@pytest.mark.parametrize(("task", "form", "change"), REFUSED)
def test_a_refused_export_changes_nothing(
    archives: Path, tmp_path: Path, task: str, form: str, change: Callable[[pd.DataFrame], pd.DataFrame]
) -> None:
    df = outfox.load(task, path=archives)
    changed = change(df)
    changed.attrs = df.attrs
    there = tmp_path / "there"
    there.mkdir()
    for name in ("train.jsonl", "train.parquet", "mine.txt"):
        (there / name).write_bytes(b"from before")
    before = contents(tmp_path)
    for to in (there, tmp_path / "new", tmp_path / "new" / "below" / "data"):
        with pytest.raises(outfox.OutfoxError) as error:
            outfox.export(changed, form, to)
        assert "\n" not in str(error.value)
        assert contents(tmp_path) == before


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("form", ["dynasent", "datasets"])
def test_an_export_that_does_not_fit_on_the_disk_changes_nothing(
    archives: Path, tmp_path: Path, form: str, there: bool
) -> None:
    to = tmp_path / "data"
    if there:
        outfox.export("sentiment", form, to, rounds=1, path=archives)
    before = contents(tmp_path)
    frame = outfox.load("sentiment", path=archives)
    # Less than the training set takes.
    with full_disk(9_000), pytest.raises(outfox.ExportNotWritten):
        outfox.export(frame, form, to)
    assert contents(tmp_path) == before


def test_no_file_of_an_export_is_visible_before_the_last_is_written(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def write(table: Any, where: Any, *given: Any, **named: Any) -> None:
        seen.append([path.name for path in tmp_path.glob("[!.]*")])
        right(table, where, *given, **named)

    right = parquet.write_table
    monkeypatch.setattr(parquet, "write_table", write)
    made = outfox.export("sentiment", "datasets", tmp_path / "data", path=archives)
    assert seen == [[], []]
    assert sorted(contents(tmp_path)) == sorted(["data/", *(f"data/{file.name}" for file in made)])


def test_an_export_replaces_an_earlier_one_and_keeps_other_files(archives: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("my own")
    outfox.export("sentiment", "datasets", tmp_path, rounds=1, path=archives)
    made = outfox.export("sentiment", "datasets", tmp_path, path=archives)
    outfox.export("sentiment", "datasets", tmp_path / "new", path=archives)
    assert {file.name: file.read_bytes() for file in made} == contents(tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["mine.txt", "new", *(f.name for f in made)])


def test_a_folder_with_the_name_of_a_file_stays(archives: Path, tmp_path: Path) -> None:
    # Files are replaced in the order of their names; the first one has to be restored.
    (tmp_path / "held_out.jsonl").write_bytes(b"from before")
    (tmp_path / "train.jsonl").mkdir()
    (tmp_path / "train.jsonl" / "mine.txt").write_bytes(b"my own")
    before = contents(tmp_path)
    with pytest.raises(outfox.ExportNotWritten):
        outfox.export("sentiment", "dynasent", tmp_path, path=archives)
    assert contents(tmp_path) == before


def test_replaced_files_are_restored_if_a_later_one_cannot_be_moved(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outfox.export("sentiment", "dynasent", tmp_path, rounds=1, path=archives)
    (tmp_path / "held_out.jsonl").unlink()
    before = contents(tmp_path)
    right = Path.rename

    def rename(path: Path, to: Path) -> Path:
        if Path(to) == tmp_path / "train.jsonl" and path.read_bytes() != before["train.jsonl"]:
            raise PermissionError(1, "Operation not permitted")
        return right(path, to)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(outfox.ExportNotWritten):
        outfox.export("sentiment", "dynasent", tmp_path, path=archives)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("form", ["datasets", "dynasent"])
@pytest.mark.parametrize("part", ["../escaped", "/escaped", "a\0b", "a b"])
def test_a_forged_split_does_not_become_a_file_name(archives: Path, tmp_path: Path, form: str, part: str) -> None:
    frame = outfox.load("sentiment", path=archives)
    forged = frame.assign(split=frame["split"].where(frame["split"] != "train", part))
    forged.attrs = frame.attrs
    with pytest.raises(outfox.NotExportable):
        outfox.export(forged, form, tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("attrs", [{}, {"outfox": 5}])
def test_a_frame_that_outfox_did_not_load_is_refused(tmp_path: Path, attrs: dict[str, Any]) -> None:
    frame = pd.DataFrame({"split": ["train"]})
    frame.attrs = attrs
    with pytest.raises(outfox.NotExportable):
        outfox.export(frame, "anli", tmp_path)


@pytest.mark.parametrize("form", ["datasets", "dynasent"])
def test_values_that_do_not_fit_the_form_are_refused(archives: Path, tmp_path: Path, form: str) -> None:
    df = outfox.load("sentiment", path=archives)
    df["tries"], df["verdicts"] = "often", 5
    with pytest.raises(outfox.NotExportable) as error:
        outfox.export(df, form, tmp_path / "out")
    assert error.value.__cause__ is not None


@pytest.mark.parametrize(
    ("field", "column", "other"), [("text", "text", "field_text"), ("source", "field_source", "source")]
)
def test_a_field_is_read_from_its_own_column(
    archives: Path, tmp_path: Path, field: str, column: str, other: str
) -> None:
    df = outfox.load("sentiment", path=archives).rename(columns={"text": "written"})
    df[column], df[other] = df["written"], "another column"
    df.attrs["outfox"] = {**df.attrs["outfox"], "inputs": [field]}
    rows = [row for file in data_files(outfox.export(df, "dynasent", tmp_path)) for row in lines(file)]
    assert "another column" not in {row["sentence"] for row in rows}


def test_the_client_knows_the_columns_of_archives() -> None:
    assert OWN_COLUMNS == COLUMNS
