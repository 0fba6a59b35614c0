"""`outfox.export`: frozen rounds in the forms of data sets that researchers have programs for."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import pytest
from pyarrow import parquet

import outfox
from templates.spec import COLUMNS

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def lines(file: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines; what is no JSON, as NaN, is refused."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in file.read_text("utf-8").split("\n") if line]


def real_file(name: str) -> Path:
    """A file of the data set whose form is meant."""
    if not (DATA / name).is_file():
        pytest.skip(f"NOT PROVED: {name} is not in ../shared/data, so our form could not be compared with it")
    return DATA / name


def shapes(values: list[Any]) -> dict[str, set[str]]:
    """Every key that there is, by its path, with the types of its values."""
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
    made = outfox.export("nli", "anli", tmp_path, path=archives)
    rows = [row for file in made for row in lines(file)]
    assert [file.name for file in made] == ["held_out.jsonl", "train.jsonl"]
    assert len(rows) == 25
    assert {row["label"] for row in rows} == {"n"}
    # The files that ANLI's authors give away say `context`, `datasets` says `premise`.
    assert {"uid", "context", "premise", "hypothesis", "label", "model_label", "reason"} <= rows[0].keys()
    assert (rows[0]["reason"], rows[0]["context"]) == ("Because.", rows[0]["premise"])
    assert {row["model_label"] for row in rows} <= {"e", "n", "c"}


def test_a_label_that_anli_does_not_have_is_told_and_not_cut(archives: Path, tmp_path: Path) -> None:
    frame = outfox.load("nli", path=archives).assign(gold_label="certainly")
    with pytest.raises(outfox.OutfoxError, match="'certainly' in gold_label is no label of ANLI's form"):
        outfox.export(frame, "anli", tmp_path / "out")


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
        "mixed": [],
    }
    assert row["model_1_probs"].keys() == {"positive", "negative", "neutral"}
    assert (row["has_prompt"], row["prompt_data"]["prompt_sentence"]) == (True, example["prompt"])
    assert row["prompt_data"]["review_id"] == example["context"]


def test_what_is_missing_is_null_and_never_nan(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", rounds=1, path=archives)
    df["prompt"] = float("nan")
    df["prediction"] = df["prediction"].where(df.index % 2 == 0)
    rows = [row for file in outfox.export(df, "dynasent", tmp_path) for row in lines(file)]
    assert {(row["has_prompt"], row["prompt_data"]) for row in rows} == {(False, None)}
    assert None in {row["model_1_label"] for row in rows}


def test_a_program_for_dynasents_own_file_finds_its_keys_in_ours(archives: Path, tmp_path: Path) -> None:
    real = shapes(lines(real_file("dynasent-v1.1-round02-dynabench-dev.jsonl")))
    made = outfox.export("sentiment", "dynasent", tmp_path, path=archives)
    ours = shapes([row for file in made for row in lines(file)])
    assert ours.pop("round") == {"int"}
    # A context has no rating; nothing else has another type than there.
    assert ours.pop("prompt_data.review_rating") == {"NoneType"}
    assert real.pop("prompt_data.review_rating") == {"int"}
    # Archives do not tell which HITs votes came from.
    assert (real.pop("hit_ids[]"), "hit_ids[]" in ours) == ({"str"}, False)
    # Nobody could choose it here.
    real.pop("label_distribution.mixed[]")
    # Which labels got a vote depends on the rows.
    voted = [f"label_distribution.{label}[]" for label in ("positive", "negative", "neutral")]
    assert set().union(*(ours.pop(name, set()) for name in voted)) == {"str"}
    assert set().union(*(real.pop(name) for name in voted)) == {"str"}
    assert ours == real


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


def test_a_program_for_squads_own_file_finds_its_keys_in_ours(archives: Path, tmp_path: Path) -> None:
    real = shapes([json.loads(real_file("xquad.en.json").read_text("utf-8"))])
    made = outfox.export("qa", "squad", tmp_path, path=archives)
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


def test_types_are_the_archives_own_also_where_there_is_nothing(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    df = df.assign(votes=[[] for _ in df.index], why_right=None, mine=1)
    made = outfox.export(df, "datasets", tmp_path)
    archive = parquet.read_schema(archives / "sentiment" / "round-1" / "examples.parquet")
    for file in made[:-1]:
        found = parquet.read_schema(file)
        assert found.remove(found.get_field_index("mine")).equals(archive)


def test_a_column_that_somebody_changed_is_exported_as_it_is_now(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    outfox.export(df.assign(label=range(len(df))), "datasets", tmp_path)
    assert str(parquet.read_schema(tmp_path / "train.parquet").field("label").type) == "int64"


@pytest.mark.parametrize("form", ["anli", "datasets", "dynasent", "squad"])
def test_nothing_to_export_is_told_and_leaves_nothing(archives: Path, tmp_path: Path, form: str) -> None:
    task = {"anli": "nli", "squad": "qa"}.get(form, "sentiment")
    df = outfox.load(task, path=archives)
    with pytest.raises(outfox.OutfoxError, match=f"no example of {task} here has a split"):
        outfox.export(df[df["split"].isna()], form, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_what_cannot_be_exported_is_told_in_one_line(archives: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    df = outfox.load("sentiment", path=archives)
    for frame, to, told in (
        (df.drop(columns="split"), "data", "no column 'split'; export one with all columns"),
        (df.drop(columns="votes"), "data", "no column 'votes'; export one with all columns"),
        (df, "file/below", "cannot write .*: Not a directory"),
    ):
        with pytest.raises(outfox.OutfoxError, match=told):
            outfox.export(frame, "dynasent", tmp_path / to)


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


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, those that are hidden too; a folder ends with a slash."""
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
    # The last row is written after others.
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
def test_a_refused_export_leaves_everything_as_it_was(
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
def test_an_export_that_does_not_fit_on_the_disk_leaves_everything_as_it_was(
    archives: Path, tmp_path: Path, form: str, there: bool
) -> None:
    to = tmp_path / "data"
    if there:
        outfox.export("sentiment", form, to, rounds=1, path=archives)
    before = contents(tmp_path)
    # The largest file that this process may write is smaller than the training set.
    program = (
        "import resource, signal, sys, outfox; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "df = outfox.load('sentiment', path=sys.argv[1]); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000)); "
        "outfox.export(df, sys.argv[2], sys.argv[3])"
    )
    command = [sys.executable, "-c", program, str(archives), form, str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "outfox.OutfoxError: cannot write " in done.stderr
    assert contents(tmp_path) == before


def test_nothing_of_an_export_is_seen_before_all_of_it(
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


def test_an_export_takes_the_place_of_one_that_was_there(archives: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("my own")
    outfox.export("sentiment", "datasets", tmp_path, rounds=1, path=archives)
    made = outfox.export("sentiment", "datasets", tmp_path, path=archives)
    outfox.export("sentiment", "datasets", tmp_path / "new", path=archives)
    assert {file.name: file.read_bytes() for file in made} == contents(tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["mine.txt", "new", *(f.name for f in made)])


def test_a_folder_that_has_a_files_name_stays(archives: Path, tmp_path: Path) -> None:
    # The names come in this order: what was replaced before it comes back.
    (tmp_path / "held_out.jsonl").write_bytes(b"from before")
    (tmp_path / "train.jsonl").mkdir()
    (tmp_path / "train.jsonl" / "mine.txt").write_bytes(b"my own")
    before = contents(tmp_path)
    with pytest.raises(outfox.OutfoxError, match=r"cannot write .*: Is a directory"):
        outfox.export("sentiment", "dynasent", tmp_path, path=archives)
    assert contents(tmp_path) == before


def test_files_that_were_there_come_back_where_the_last_one_cannot_be_put(
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
    with pytest.raises(outfox.OutfoxError, match=r"cannot write .*: Operation not permitted"):
        outfox.export("sentiment", "dynasent", tmp_path, path=archives)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("form", ["datasets", "dynasent"])
@pytest.mark.parametrize("part", ["../escaped", "/escaped", "a\0b", "a b"])
def test_a_forged_split_names_no_file(archives: Path, tmp_path: Path, form: str, part: str) -> None:
    frame = outfox.load("sentiment", path=archives)
    forged = frame.assign(split=frame["split"].where(frame["split"] != "train", part))
    forged.attrs = frame.attrs
    with pytest.raises(outfox.OutfoxError, match="is no split"):
        outfox.export(forged, form, tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


def test_a_frame_that_outfox_did_not_load_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(outfox.OutfoxError, match=r"take one that `outfox\.load` returned"):
        outfox.export(pd.DataFrame({"split": ["train"]}), "anli", tmp_path)


@pytest.mark.parametrize(
    ("field", "column", "other"), [("text", "text", "field_text"), ("source", "field_source", "source")]
)
def test_a_field_is_read_from_its_own_column(
    archives: Path, tmp_path: Path, field: str, column: str, other: str
) -> None:
    df = outfox.load("sentiment", path=archives).rename(columns={"text": "written"})
    df[column], df[other] = df["written"], "another column"
    df.attrs["outfox"] = {**df.attrs["outfox"], "inputs": [field]}
    rows = [row for file in outfox.export(df, "dynasent", tmp_path) for row in lines(file)]
    assert "another column" not in {row["sentence"] for row in rows}


def test_the_columns_that_are_no_fields_are_those_that_archives_have() -> None:
    assert outfox.OWN == COLUMNS
