"""`import outfox`: frozen rounds as researchers have them, in pandas."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import outfox
from round_manager.archive.storage import open_archives
from tests.integration.databases import Databases
from tests.integration.rounds_data.forging import forge, set_column
from tests.integration.rounds_data.played import play, text_of

NO_OTHER_OF_OURS = (
    "import sys, outfox; "
    "print(sorted({'plugin', 'round_manager', 'ml_backend', 'mturk', 'templates', 'sqlalchemy'} & sys.modules.keys()))"
)


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


def test_a_round_that_lost_its_manifest_is_told_and_not_left_out(archives: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(archives, tmp_path / "copy"))
    (copy / "sentiment" / "round-3").mkdir()
    # What some systems put into every folder that somebody looks at is no part of a round.
    (copy / "sentiment" / "round-3" / ".DS_Store").touch()
    assert len(outfox.load("sentiment", path=copy)) == 80
    (copy / "sentiment" / "round-1" / "manifest.json").unlink()
    with pytest.raises(
        outfox.OutfoxError, match=r"round-1/manifest\.json cannot be read: No such file or directory; copy"
    ):
        outfox.load("sentiment", path=copy)


def test_rounds_and_columns_can_be_chosen(archives: Path) -> None:
    df = outfox.load("sentiment", rounds=[2], path=archives, columns=["text", "split"])
    assert (list(df.columns), len(df)) == (["text", "split"], 40)
    assert len(outfox.load("sentiment", rounds=1, path=archives)) == 40


def test_one_archive_is_a_path_too_and_says_what_pandas_alone_reads(archives: Path) -> None:
    folder = archives / "sentiment" / "round-1"
    pd.testing.assert_frame_equal(
        outfox.load("sentiment", path=folder),
        pd.read_parquet(folder / "examples.parquet"),
        check_flags=False,
        check_dtype=False,
    )


def test_a_tasks_folder_is_a_path_too(archives: Path) -> None:
    whole = outfox.load("sentiment", path=archives)
    pd.testing.assert_frame_equal(outfox.load("sentiment", path=archives / "sentiment"), whole)
    with pytest.raises(outfox.OutfoxError, match="there is no archive of nli"):
        outfox.load("nli", path=archives / "sentiment")


def test_some_at_a_time_are_the_same_as_all_at_once(archives: Path) -> None:
    # In this order, which is not the archive's.
    wanted = ["text", "id", "round", "split", "fooled", "submitted_at"]
    chunks = list(outfox.iter_load("sentiment", path=archives, columns=wanted, chunk=7))
    assert max(map(len, chunks)) == 7
    pd.testing.assert_frame_equal(
        pd.concat(chunks, ignore_index=True), outfox.load("sentiment", path=archives, columns=wanted)
    )


@pytest.mark.parametrize("task", ["sentiment", "qa"])
def test_a_columns_type_does_not_depend_on_the_rows_that_are_read(archives: Path, task: str) -> None:
    whole = outfox.load(task, path=archives).dtypes
    for some in outfox.iter_load(task, path=archives, chunk=1):
        assert some.dtypes.equals(whole)
    for table in (outfox.load, outfox.votes, outfox.attempts):
        frame = table(task, path=archives)
        assert set(frame.select_dtypes("number").dtypes.astype(str)) <= {"Int64", "float64"}
        assert set(frame.select_dtypes("float64")) <= {"confidence"}
        assert "fooled" not in frame or frame["fooled"].dtype == "boolean"


def test_numbers_that_are_missing_are_missing_and_the_others_are_whole(archives: Path) -> None:
    df = outfox.load("qa", path=archives)
    starts = df["gold_answer_start"]
    assert starts.isna().tolist() == df["gold_answer"].isna().tolist()
    assert (starts.isna().any(), str(starts.dropna().iloc[0]).isdecimal()) == (True, True)


@pytest.mark.parametrize(
    "rounds", [np.int64(2), 2.0, np.float32(2), [np.int32(2)], (2,), {2}, range(2, 3), pd.Series([2, 2]), [2, 2]]
)
def test_a_round_can_be_named_in_any_way_that_means_it(archives: Path, rounds: Any) -> None:
    df = outfox.load("sentiment", rounds, path=archives)
    assert (len(df), set(df["round"])) == (40, {2})


@pytest.mark.parametrize("columns", ["text", ("text",), ["text", "text"], pd.Index(["text"])])
def test_a_column_can_be_named_in_any_way_that_means_it(archives: Path, columns: Any) -> None:
    assert list(outfox.load("sentiment", 1, path=archives, columns=columns)) == ["text"]
    assert list(next(outfox.iter_load("sentiment", 1, path=archives, columns=columns))) == ["text"]


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


def test_metrics_have_a_row_for_a_round_that_nobody_played(tmp_path: Path, any_databases: Databases) -> None:
    with any_databases.opened() as store:
        played = play(store, examples=8)
        played.freeze(open_archives(str(tmp_path)))
        played.play_next(examples=0).freeze(open_archives(str(tmp_path)))
    both = outfox.metrics("sentiment", path=tmp_path)
    assert both[["round", "collected", "fooled", "train", "held_out"]].iloc[1].tolist() == [2, 0, 0, 0, 0]
    assert both["mer"].isna().tolist() == [False, True]
    empty = outfox.metrics("sentiment", 2, path=tmp_path)
    pd.testing.assert_frame_equal(empty, both[1:].reset_index(drop=True))
    assert outfox.load("sentiment", 2, path=tmp_path).dtypes.equals(outfox.load("sentiment", 1, path=tmp_path).dtypes)


def test_hashes_are_checked_on_request(archives: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(archives / "sentiment" / "round-1", tmp_path / "copy"))
    outfox.load("sentiment", path=copy, verify=True)
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    manifest["files"]["votes.parquet"]["sha256"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    outfox.votes("sentiment", path=copy)
    with pytest.raises(outfox.OutfoxError, match=r"votes\.parquet was changed"):
        outfox.votes("sentiment", path=copy, verify=True)


@pytest.mark.parametrize("table", ["examples", "votes", "attempts", "contexts", "models"])
def test_every_way_to_a_table_checks_its_hash_on_request(archive: Path, tmp_path: Path, table: str) -> None:
    manifest = json.loads((archive / "manifest.json").read_text("utf-8"))
    manifest["files"][f"{table}.parquet"]["sha256"] = "0" * 64
    (archive / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    ways: dict[str, list[Callable[..., Any]]] = {
        "examples": [
            outfox.load,
            outfox.metrics,
            lambda task, **at: next(outfox.iter_load(task, **at)),
            lambda task, **at: outfox.export(task, "datasets", tmp_path / "data", **at),
        ],
        "votes": [outfox.votes],
        "attempts": [outfox.attempts],
        "contexts": [outfox.contexts],
        "models": [outfox.models],
    }
    for way in ways[table]:
        assert len(way("sentiment", path=archive)) > 0
        with pytest.raises(outfox.OutfoxError, match=rf"{table}\.parquet was changed"):
            way("sentiment", path=archive, verify=True)


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"task": "nobody"}, "there is no archive of nobody at"),
        ({"rounds": 7}, "round 7 of sentiment is not at .*; there are rounds 1, 2"),
        ({"columns": ["txt"]}, "sentiment has no column 'txt'; there are id, round"),
        ({"columns": "txt"}, "sentiment has no column 'txt'; there are id, round"),
        ({"columns": []}, "`columns` is empty; leave it out"),
        ({"rounds": []}, "`rounds` is empty; leave it out"),
        ({"rounds": "1"}, r"`rounds` is a number like 2, or several like \[1, 2\], and '1' is none"),
        ({"rounds": [1, 1.5]}, "and 1.5 is none"),
        ({"rounds": float("nan")}, "and nan is none"),
        ({"rounds": [None]}, "and None is none"),
        ({"rounds": True}, "and True is none"),
        ({"rounds": object}, "is none"),
        ({"path": "~nobody-has-this-name/archives"}, "name the folder in full"),
    ],
)
def test_a_mistake_is_one_line_with_its_cure(archives: Path, wish: dict[str, Any], told: str) -> None:
    with pytest.raises(outfox.OutfoxError, match=told) as error:
        outfox.load(**{"task": "sentiment", "path": archives, **wish})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("verify", [True, False])
def test_a_manifest_of_another_round_is_not_believed(archives: Path, tmp_path: Path, verify: bool) -> None:
    copy = Path(shutil.copytree(archives, tmp_path / "copy"))
    manifest = copy / "sentiment" / "round-1" / "manifest.json"
    told = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps({**told, "round": 7}), encoding="utf-8")
    with pytest.raises(outfox.OutfoxError, match=r"round-1/manifest\.json is of round 7; copy the archive again"):
        outfox.load("sentiment", path=copy, rounds=7, verify=verify)


def test_a_text_that_is_none_any_more_is_told_in_one_line_too(archives: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(archives / "sentiment" / "round-1", tmp_path / "copy"))
    table = parquet.read_table(copy / "examples.parquet")
    votes = table["votes"].combine_chunks()
    odd = pa.array([b"\xb0"] * len(votes.values), pa.binary()).view(pa.string())
    fields = list(votes.type.value_type)
    parts = [odd if field.name == "worker" else votes.values.field(field.name) for field in fields]
    spoiled = pa.ListArray.from_arrays(votes.offsets, pa.StructArray.from_arrays(parts, fields=fields))
    place = table.schema.get_field_index("votes")
    parquet.write_table(table.set_column(place, "votes", spoiled), copy / "examples.parquet")
    with pytest.raises(outfox.OutfoxError, match=r"examples\.parquet was spoiled .*; copy the archive again"):
        outfox.load("sentiment", path=copy)


@pytest.mark.parametrize("bytes_of_none", [b"\xb0", b"caf\xe9", b"\xed\xa0\x80"])
def test_a_flat_text_that_is_none_any_more_is_told_too(archive: Path, bytes_of_none: bytes) -> None:
    table = parquet.read_table(archive / "examples.parquet")
    texts = [*table["text"].cast(pa.binary()).to_pylist()[:-1], bytes_of_none]
    place = table.schema.get_field_index("text")
    spoiled = table.set_column(place, "text", pa.array(texts, pa.binary()).view(pa.string()))
    parquet.write_table(spoiled, archive / "examples.parquet")
    told = r"examples\.parquet was spoiled .*; copy the archive again"
    with pytest.raises(outfox.OutfoxError, match=told):
        outfox.load("sentiment", path=archive)
    with pytest.raises(outfox.OutfoxError, match=told):
        list(outfox.iter_load("sentiment", path=archive, chunk=7))
    # What can be read is.
    assert len(outfox.load("sentiment", path=archive, columns=["id", "gold_label"])) == 40
    assert len(outfox.metrics("sentiment", path=archive)) == 1


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_a_text_that_is_none_is_told_however_it_is_stored(archive: Path, kind: pa.DataType) -> None:
    table = parquet.read_table(archive / "examples.parquet")
    texts = pa.array([b"fine", b"caf\xe9"] * 20, pa.binary()).view(pa.string())
    coded = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    parquet.write_table(
        table.set_column(table.schema.get_field_index("text"), "text", coded), archive / "examples.parquet"
    )
    with pytest.raises(outfox.OutfoxError, match="was spoiled"):
        outfox.load("sentiment", path=archive)


def test_texts_of_any_language_are_loaded_as_they_were_written(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [None, "", "Zürich", "好的电影", "🙂", *(f"plain {number}" for number in range(35))]
    forge(archive, lambda table: set_column(table, "text", texts))
    for rows in (7, 1 << 16):
        # Large tables are looked at in pieces.
        monkeypatch.setattr(outfox, "PIECE_ROWS", rows)
        assert outfox.load("sentiment", path=archive)["text"].fillna("-").tolist() == ["-", *texts[1:]]
        some = pd.concat(outfox.iter_load("sentiment", path=archive, columns="text", chunk=9))
        assert some["text"].fillna("-").tolist() == ["-", *texts[1:]]


def test_a_folders_name_is_no_column(archive: Path, tmp_path: Path) -> None:
    odd = archive.rename(tmp_path / "status=copied")
    assert set(outfox.load("sentiment", path=odd)["status"]) > {"verified"}


def test_tables_with_other_values_than_any_archive_has_are_told_in_one_line(archive: Path) -> None:
    forge(archive, lambda table: set_column(table, "settings", ["no JSON"] * len(table)), "models")
    with pytest.raises(outfox.OutfoxError, match=r"models\.parquet has values that no archive has"):
        outfox.models("sentiment", path=archive)
    texts = pa.array(["often"] * 40)
    forge(archive, lambda table: table.set_column(table.schema.get_field_index("tries"), "tries", texts))
    with pytest.raises(outfox.OutfoxError, match=r"examples\.parquet has values that no archive has") as error:
        outfox.metrics("sentiment", path=archive, verify=True)
    assert "\n" not in str(error.value)


def test_an_index_that_a_file_wants_to_have_is_none(archive: Path) -> None:
    for told in (b"no JSON", b'{"index_columns": ["id"], "columns": []}'):
        forge(archive, lambda table, told=told: table.replace_schema_metadata({b"pandas": told}))  # type: ignore[misc]
        df = outfox.load("sentiment", path=archive)
        assert (df["id"].nunique(), list(df.index)) == (40, list(range(40)))


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT PROVED: root may read everything")
def test_what_one_may_not_read_is_told_in_one_line(archive: Path) -> None:
    (archive / "votes.parquet").chmod(0)
    for verify in (True, False):
        with pytest.raises(outfox.OutfoxError, match=r"votes\.parquet: Permission denied"):
            outfox.votes("sentiment", path=archive, verify=verify)
    archive.chmod(0)
    try:
        with pytest.raises(outfox.OutfoxError, match="Permission denied"):
            outfox.votes("sentiment", path=archive)
    finally:
        archive.chmod(0o700)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(1_000) + b"PAR1"])
def test_a_spoiled_file_is_told_in_one_line_too(archives: Path, tmp_path: Path, content: bytes) -> None:
    copy = Path(shutil.copytree(archives / "sentiment" / "round-1", tmp_path / "copy"))
    (copy / "examples.parquet").write_bytes(content)
    told = r"examples\.parquet was spoiled .*; copy the archive again"
    with pytest.raises(outfox.OutfoxError, match=told):
        outfox.load("sentiment", path=copy)
    with pytest.raises(outfox.OutfoxError, match=told):
        next(outfox.iter_load("sentiment", path=copy))


@pytest.mark.parametrize(
    "changed",
    [
        {"round": "abc"}, {"round": None}, {"round": 1e999}, {"round": True}, {"task": None}, {"spec": []},
        {"spec": {"fields": [1]}}, {"files": []}, {"files": {}}, {"files": {"examples.parquet": "x"}},
    ],
    ids=repr,
)  # fmt: skip
def test_a_forged_manifest_is_told_in_one_line(archives: Path, tmp_path: Path, changed: dict[str, Any]) -> None:
    copy = shutil.copytree(archives / "sentiment" / "round-1", tmp_path / "sentiment" / "round-1")
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    (copy / "manifest.json").write_text(json.dumps(manifest | changed), "utf-8")
    with pytest.raises(outfox.OutfoxError):
        outfox.load("sentiment", path=tmp_path, verify=True)


def test_a_manifest_that_is_nested_beyond_reason_is_told_in_one_line(archives: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(archives / "sentiment" / "round-1", tmp_path / "sentiment" / "round-1")
    (copy / "manifest.json").write_text("[" * 200_000, "utf-8")
    with pytest.raises(outfox.OutfoxError, match="copy the archive again"):
        outfox.load("sentiment", path=tmp_path)


def test_some_at_a_time_are_one_at_least(archives: Path) -> None:
    with pytest.raises(outfox.OutfoxError, match="`chunk` must be 1 or more"):
        next(outfox.iter_load("sentiment", path=archives, chunk=0))


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
