"""Wrong arguments raise InvalidArgument with a message of one printable line, before anything is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import outfox

TABLES: list[Callable[..., Any]] = [
    outfox.load, outfox.iter_load, outfox.votes, outfox.attempts, outfox.contexts, outfox.models, outfox.metrics,
]  # fmt: skip
FRAME = pd.DataFrame({"several": [1, 2]})


def refused(name: str, call: Callable[..., Any], *given: Any, **named: Any) -> None:
    """The error names the argument, on one line that is safe to print."""
    with pytest.raises(outfox.InvalidArgument) as error:
        call(*given, **named)
    assert f"`{name}`" in str(error.value)
    assert str(error.value).isprintable()
    assert (error.value.code, error.value.retry) == ("invalid_argument", False)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("place", [{"path": "archives"}, {"url": "http://127.0.0.1:9"}], ids=["path", "url"])
def test_a_task_must_be_a_printable_text(table: Callable[..., Any], place: dict[str, str]) -> None:
    for task in (None, 5, b"sentiment", ["sentiment"], "", " ", "a\nb", "a\0b", "\ud800", FRAME):
        refused("task", table, task, **place)


@pytest.mark.parametrize("table", TABLES)
def test_the_other_arguments_are_checked_at_the_call(table: Callable[..., Any], archives: Path) -> None:
    for path in (5, b"archives", True, ["archives"], "a\0b", "\ud800", "~unknown-user/archives", FRAME):
        refused("path", table, "sentiment", path=path)
    for url in (5, b"http://here", ["http://here"], "", "nonsense", "http://[", "http://a\nb", "http://a b", FRAME):
        refused("url", table, "sentiment", url=url)
    for token in (5, b"outfox-data-1", ["outfox-data-1"], "outfox-data-1€", "outfox-data-1\nx", FRAME):
        refused("token", table, "sentiment", url="http://here", token=token)
    not_rounds: list[Any] = [
        [], "1", b"12", np.array(2), [[1]], [None], [1, 1.5], float("nan"), True, [FRAME], FRAME, object(), object,
    ]  # fmt: skip
    for rounds in not_rounds:
        refused("rounds", table, "sentiment", rounds, path=archives)
    for verify in ("no", None, 2, "", FRAME):
        refused("verify", table, "sentiment", path=archives, verify=verify)
    with pytest.raises(outfox.DataUnreadable):
        table("sentiment", path="x" * 5_000)


def test_either_path_or_url_is_required(archives: Path) -> None:
    refused("path", outfox.load, "sentiment")
    refused("path", outfox.load, "sentiment", path=archives, url="http://here")


def test_an_error_does_not_repeat_a_token_that_is_part_of_the_url() -> None:
    for url in ("http://here?token=outfox-data-1", "http://outfox-data-1@here"):
        with pytest.raises(outfox.InvalidArgument) as error:
            outfox.load("sentiment", url=url)
        assert "outfox-data-1" not in str(error.value)


@pytest.mark.parametrize("table", TABLES[:-2])
def test_columns_must_be_texts(table: Callable[..., Any], archives: Path) -> None:
    for columns in ([], 5, [5], b"text", [None], [["text"]], object(), FRAME.assign(n=1).T):
        refused("columns", table, "sentiment", path=archives, columns=columns)


def test_a_chunk_must_be_a_whole_number_of_rows_and_may_exceed_the_rows_there_are(archives: Path) -> None:
    for chunk in ("7", None, 1.5, True, [1], 0, -1, FRAME):
        refused("chunk", outfox.iter_load, "sentiment", path=archives, chunk=chunk)
    enough: tuple[Any, ...] = (np.int64(40), 10**30)
    for chunk in enough:
        assert [len(some) for some in outfox.iter_load("sentiment", 1, path=archives, chunk=chunk)] == [40]


@pytest.mark.parametrize(
    "rounds", [np.int64(2), 2.0, np.float32(2), [np.int32(2)], (2,), {2}, range(2, 3), pd.Series([2, 2]), [2, 2]]
)
def test_rounds_may_be_any_number_or_iterable(archives: Path, rounds: Any) -> None:
    df = outfox.load("sentiment", rounds, path=archives)
    assert (len(df), set(df["round"])) == (40, {2})


@pytest.mark.parametrize("columns", ["text", ("text",), ["text", "text"], pd.Index(["text"])])
def test_columns_may_be_a_text_or_any_iterable(archives: Path, columns: Any) -> None:
    assert list(outfox.load("sentiment", 1, path=archives, columns=columns)) == ["text"]
    assert list(next(outfox.iter_load("sentiment", 1, path=archives, columns=columns))) == ["text"]


def test_export_checks_its_arguments(archives: Path, tmp_path: Path) -> None:
    df, to = outfox.load("sentiment", path=archives), tmp_path / "data"
    wrong: list[Any] = [5, None, [], {}, b"sentiment", df["text"], archives]
    for data in wrong:
        refused("data", outfox.export, data, "datasets", to)
    for form in [*wrong[:4], "csv", FRAME]:
        refused("form", outfox.export, df, form, to)
    for folder in [*wrong[:5], "a\0b", FRAME]:
        refused("to", outfox.export, df, "datasets", folder)
    refused("path", outfox.export, "sentiment", "datasets", to)
    refused("task", outfox.export, "", "datasets", to, path=archives)
    refused("verify", outfox.export, df, "datasets", to, verify="no")
    assert not to.exists()


def test_export_of_a_frame_refuses_arguments_that_only_apply_to_loading(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    for name, value in (("rounds", 1), ("verify", True)):
        refused(name, outfox.export, df, "datasets", tmp_path / "data", **{name: value})
    assert not (tmp_path / "data").exists()
