"""Tables as DataFrames: values, types and joins; and files that are not what an archive contains."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import outfox
import outfox.frames
from tests.campaign.closed_rounds import text_of
from tests.integration.round_manager.archive.forging import forge, set_column


def test_load_returns_all_rounds_with_one_row_per_example(archives: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    assert df.groupby("round").size().to_dict() == {1: 40, 2: 40}
    example = df.iloc[3]
    assert (example["text"], example["label"], example["gold_label"], example["fooled"]) == (
        text_of(3), "negative", "negative", True,
    )  # fmt: skip
    assert [vote["label"] for vote in example["votes"]] == ["negative", "negative", None]
    assert example["verdicts"][0]["probabilities"].keys() == {"positive", "negative", "neutral"}
    assert str(df["submitted_at"].dtype) == "datetime64[us, UTC]"


def test_rounds_and_columns_can_be_chosen(archives: Path) -> None:
    df = outfox.load("sentiment", rounds=[2], path=archives, columns=["text", "split"])
    assert (list(df.columns), len(df)) == (["text", "split"], 40)


def test_load_reads_the_same_values_as_pandas(archives: Path) -> None:
    folder = archives / "sentiment" / "round-1"
    pd.testing.assert_frame_equal(
        outfox.load("sentiment", path=folder),
        pd.read_parquet(folder / "examples.parquet"),
        check_flags=False,
        check_dtype=False,
    )


def test_iter_load_returns_the_same_rows_in_chunks(archives: Path) -> None:
    # The order differs from the archive's.
    wanted = ["text", "id", "round", "split", "fooled", "submitted_at"]
    chunks = list(outfox.iter_load("sentiment", path=archives, columns=wanted, chunk=7))
    assert max(map(len, chunks)) == 7
    pd.testing.assert_frame_equal(
        pd.concat(chunks, ignore_index=True), outfox.load("sentiment", path=archives, columns=wanted)
    )


@pytest.mark.parametrize("task", ["sentiment", "qa"])
def test_a_columns_type_does_not_depend_on_the_rows(archives: Path, task: str) -> None:
    whole = outfox.load(task, path=archives).dtypes
    for some in outfox.iter_load(task, path=archives, chunk=1):
        assert some.dtypes.equals(whole)
    for table in (outfox.load, outfox.votes, outfox.attempts):
        frame = table(task, path=archives)
        assert set(frame.select_dtypes("number").dtypes.astype(str)) <= {"Int64", "float64"}
        assert set(frame.select_dtypes("float64")) <= {"confidence"}
        assert "fooled" not in frame or frame["fooled"].dtype == "boolean"


def test_a_missing_number_does_not_turn_the_others_into_floats(archives: Path) -> None:
    df = outfox.load("qa", path=archives)
    starts = df["gold_answer_start"]
    assert starts.isna().tolist() == df["gold_answer"].isna().tolist()
    assert (starts.isna().any(), str(starts.dropna().iloc[0]).isdecimal()) == (True, True)


def test_votes_attempts_and_contexts_join_their_examples(archives: Path) -> None:
    df, votes = outfox.load("sentiment", path=archives), outfox.votes("sentiment", path=archives)
    counted = votes.groupby("example").size()
    assert df.set_index("id")["votes"].map(len).loc[counted.index].equals(counted)
    assert set(votes["worker"]) <= set(df["author"])
    attempts = outfox.attempts("sentiment", rounds=1, path=archives)
    linked = attempts.dropna(subset=["example"]).merge(df, left_on="example", right_on="id")
    assert (len(attempts), len(linked)) == (40, 20)
    assert (linked["worker"] == linked["author"]).all()
    contexts = outfox.contexts("sentiment", path=archives)
    assert set(df["context"]) == set(contexts["id"])


def test_models_have_their_training_data(archives: Path) -> None:
    models = outfox.models("sentiment", rounds=1, path=archives)
    assert list(models["rank"]) == [0, 1]
    assert models.loc[0, "metrics"] == {"accuracy": 81.5}
    assert set(models.loc[0, "data"]) == {"train", "held_out", "base", "base_sha256"}


def test_texts_of_any_language_are_loaded_unchanged(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [None, "", "Zürich", "好的电影", "🙂", *(f"plain {number}" for number in range(35))]
    forge(archive, lambda table: set_column(table, "text", texts))
    for rows in (7, 1 << 16):
        # Large tables are checked in pieces.
        monkeypatch.setattr(outfox.frames, "PIECE_ROWS", rows)
        assert outfox.load("sentiment", path=archive)["text"].fillna("-").tolist() == ["-", *texts[1:]]
        some = pd.concat(outfox.iter_load("sentiment", path=archive, columns="text", chunk=9))
        assert some["text"].fillna("-").tolist() == ["-", *texts[1:]]


def test_a_folders_name_does_not_become_a_column(archive: Path, tmp_path: Path) -> None:
    odd = archive.rename(tmp_path / "status=copied")
    assert set(outfox.load("sentiment", path=odd)["status"]) > {"verified"}


def test_an_index_in_a_files_metadata_is_ignored(archive: Path) -> None:
    for index in (b"not JSON", b'{"index_columns": ["id"], "columns": []}'):
        forge(archive, lambda table, index=index: table.replace_schema_metadata({b"pandas": index}))  # type: ignore[misc]
        df = outfox.load("sentiment", path=archive)
        assert (df["id"].nunique(), list(df.index)) == (40, list(range(40)))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(1_000) + b"PAR1", b"not a table"])
def test_a_file_that_is_not_a_table_is_an_error(archive: Path, content: bytes) -> None:
    (archive / "examples.parquet").write_bytes(content)
    with pytest.raises(outfox.DataCorrupt) as error:
        outfox.load("sentiment", path=archive)
    assert str(archive / "examples.parquet") in str(error.value)
    assert error.value.__cause__ is not None
    with pytest.raises(outfox.DataCorrupt):
        next(outfox.iter_load("sentiment", path=archive))


def test_invalid_utf8_in_a_nested_column_is_an_error(archive: Path) -> None:
    table = parquet.read_table(archive / "examples.parquet")
    votes = table["votes"].combine_chunks()
    odd = pa.array([b"\xb0"] * len(votes.values), pa.binary()).view(pa.string())
    fields = list(votes.type.value_type)
    parts = [odd if field.name == "worker" else votes.values.field(field.name) for field in fields]
    changed = pa.ListArray.from_arrays(votes.offsets, pa.StructArray.from_arrays(parts, fields=fields))
    place = table.schema.get_field_index("votes")
    parquet.write_table(table.set_column(place, "votes", changed), archive / "examples.parquet")
    with pytest.raises(outfox.DataCorrupt):
        outfox.load("sentiment", path=archive)


@pytest.mark.parametrize("invalid", [b"\xb0", b"caf\xe9", b"\xed\xa0\x80"])
def test_invalid_utf8_is_an_error_and_other_columns_can_be_read(archive: Path, invalid: bytes) -> None:
    table = parquet.read_table(archive / "examples.parquet")
    texts = [*table["text"].cast(pa.binary()).to_pylist()[:-1], invalid]
    place = table.schema.get_field_index("text")
    changed = table.set_column(place, "text", pa.array(texts, pa.binary()).view(pa.string()))
    parquet.write_table(changed, archive / "examples.parquet")
    with pytest.raises(outfox.DataCorrupt):
        outfox.load("sentiment", path=archive)
    with pytest.raises(outfox.DataCorrupt):
        list(outfox.iter_load("sentiment", path=archive, chunk=7))
    assert len(outfox.load("sentiment", path=archive, columns=["id", "gold_label"])) == 40
    assert len(outfox.metrics("sentiment", path=archive)) == 1


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_invalid_utf8_is_an_error_in_every_text_type(archive: Path, kind: pa.DataType) -> None:
    table = parquet.read_table(archive / "examples.parquet")
    texts = pa.array([b"fine", b"caf\xe9"] * 20, pa.binary()).view(pa.string())
    changed = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    place = table.schema.get_field_index("text")
    parquet.write_table(table.set_column(place, "text", changed), archive / "examples.parquet")
    with pytest.raises(outfox.DataCorrupt):
        outfox.load("sentiment", path=archive)


def test_values_that_no_archive_contains_are_an_error(archive: Path) -> None:
    forge(archive, lambda table: set_column(table, "settings", ["not JSON"] * len(table)), "models")
    with pytest.raises(outfox.DataCorrupt, match=r"models\.parquet"):
        outfox.models("sentiment", path=archive)
    texts = pa.array(["often"] * 40)
    forge(archive, lambda table: table.set_column(table.schema.get_field_index("tries"), "tries", texts))
    with pytest.raises(outfox.DataCorrupt, match=r"examples\.parquet"):
        outfox.metrics("sentiment", path=archive, verify=True)
