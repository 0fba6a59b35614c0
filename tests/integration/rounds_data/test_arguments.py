"""What researchers get who give `outfox` something else than it takes: one line that says what it takes."""

import re
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


def refused(told: str, call: Callable[..., Any], *given: Any, **named: Any) -> None:
    """The call is refused in one line that a terminal shows as it is."""
    with pytest.raises(outfox.OutfoxError, match=told) as error:
        call(*given, **named)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("place", [{"path": "archives"}, {"url": "http://127.0.0.1:9"}], ids=["path", "url"])
def test_a_task_is_named_by_a_text(table: Callable[..., Any], place: dict[str, str]) -> None:
    for task in (None, 5, b"sentiment", ["sentiment"], "", " ", "a\nb", "a\0b", "\ud800", FRAME):
        refused("`task` is the name of a task, like 'sentiment', and .* is none", table, task, **place)


@pytest.mark.parametrize("table", TABLES)
def test_whatever_else_is_given_is_told_at_once(table: Callable[..., Any], archives: Path) -> None:
    for path in (5, b"archives", True, ["archives"], "a\0b", "\ud800", FRAME):
        refused("`path` is a folder, like 'archives', and .* is none", table, "sentiment", path=path)
    refused("cannot read x+: File name too long", table, "sentiment", path="x" * 5_000)
    for url in (5, b"http://here", ["http://here"], "http://a\nb", "http://a b", FRAME):
        refused("check `url`: it is where `outfox serve` answers", table, "sentiment", url=url)
    for token in (5, b"outfox-data-1", ["outfox-data-1"], FRAME):
        refused("`token` has signs in it that no token has", table, "sentiment", url="http://here", token=token)
    for rounds in (b"12", np.array(2), [[1]], [FRAME], FRAME, object()):
        refused("`rounds` is a number like 2, or several .* is none", table, "sentiment", rounds, path=archives)
    for verify in ("no", None, 2, "", FRAME):
        refused("`verify` is True or False, and .* is neither", table, "sentiment", path=archives, verify=verify)


@pytest.mark.parametrize("table", TABLES[:-2])
def test_columns_are_named_by_texts(table: Callable[..., Any], archives: Path) -> None:
    for columns in (5, [5], b"text", [None], [["text"]], object(), FRAME.assign(n=1).T):
        told = "`columns` is a name like 'text', or several like .*, and .* is none"
        refused(told, table, "sentiment", path=archives, columns=columns)


def test_a_chunk_is_a_whole_number_of_rows_and_may_be_more_than_there_are(archives: Path) -> None:
    for chunk in ("7", None, 1.5, True, [1], 0, -1, FRAME):
        refused("`chunk` must be 1 or more rows", outfox.iter_load, "sentiment", path=archives, chunk=chunk)
    enough: tuple[Any, ...] = (np.int64(40), 10**30)
    for chunk in enough:
        assert [len(some) for some in outfox.iter_load("sentiment", 1, path=archives, chunk=chunk)] == [40]


def test_an_export_says_what_it_takes(archives: Path, tmp_path: Path) -> None:
    df, to = outfox.load("sentiment", path=archives), tmp_path / "data"
    wrong: list[Any] = [5, None, [], {}, b"sentiment", df["text"], archives]
    for data in wrong:
        refused("`data` is a DataFrame .*, or a task's name, and .* is neither", outfox.export, data, "datasets", to)
    for form in [*wrong[:4], FRAME]:
        refused("there is no form .*; choose one of anli, datasets", outfox.export, df, form, to)
    for folder in [*wrong[:5], "a\0b", FRAME]:
        refused("`to` is a folder, like 'data', and .* is none", outfox.export, df, "datasets", folder)
    refused("give `path`", outfox.export, "sentiment", "datasets", to)
    refused("`task` is the name of a task", outfox.export, "", "datasets", to, path=archives)
    refused("`verify` is True or False", outfox.export, df, "datasets", to, verify="no")
    odd = df.copy()
    odd.attrs["outfox"] = 5
    refused(re.escape("take one that `outfox.load` returned"), outfox.export, odd, "datasets", to)
    assert not to.exists()


def test_what_a_frame_cannot_obey_any_more_is_not_passed_over(archives: Path, tmp_path: Path) -> None:
    df = outfox.load("sentiment", path=archives)
    for wish in ({"rounds": 1}, {"verify": True}):
        told = "a DataFrame is exported as it is; give `rounds` and `verify` to `outfox.load`"
        refused(re.escape(told), outfox.export, df, "datasets", tmp_path / "data", **wish)
    assert not (tmp_path / "data").exists()
