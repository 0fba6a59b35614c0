"""Archives in a folder: which rounds are found, and what is refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import outfox


def change_manifest(archive: Path, **changes: Any) -> None:
    file = archive / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | changes), encoding="utf-8")


def with_wrong_hash(archive: Path, table: str) -> None:
    files = json.loads((archive / "manifest.json").read_bytes())["files"]
    files[f"{table}.parquet"]["sha256"] = "0" * 64
    change_manifest(archive, files=files)


def refused(archive: Path, error: type[outfox.OutfoxError] = outfox.DataCorrupt) -> None:
    """The error names the manifest on one line, and keeps its cause."""
    with pytest.raises(error) as caught:
        outfox.load("sentiment", path=archive)
    assert str(archive / "manifest.json") in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_path_may_be_a_folder_of_archives_a_tasks_folder_or_one_archive(archives: Path) -> None:
    whole = outfox.load("sentiment", path=archives)
    pd.testing.assert_frame_equal(outfox.load("sentiment", path=archives / "sentiment"), whole)
    first = outfox.load("sentiment", path=archives / "sentiment" / "round-1")
    pd.testing.assert_frame_equal(first, outfox.load("sentiment", 1, path=archives))


@pytest.mark.parametrize("wanted", [{"task": "unknown"}, {"rounds": 7}, {"columns": ["txt"]}, {"columns": "txt"}])
def test_a_task_round_or_column_that_is_not_there_is_an_error(archives: Path, wanted: dict[str, Any]) -> None:
    with pytest.raises(outfox.DataNotFound) as error:
        outfox.load(**{"task": "sentiment", "path": archives, **wanted})
    assert (error.value.code, "\n" in str(error.value)) == ("data_not_found", False)
    with pytest.raises(outfox.DataNotFound):
        outfox.load("nli", path=archives / "sentiment")


def test_a_round_without_its_manifest_is_an_error_and_not_skipped(archives: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(archives, tmp_path / "copy"))
    (copy / "sentiment" / "round-3").mkdir()
    # File managers put such files into folders that they show.
    (copy / "sentiment" / "round-3" / ".DS_Store").touch()
    assert len(outfox.load("sentiment", path=copy)) == 80
    (copy / "sentiment" / "round-1" / "manifest.json").unlink()
    with pytest.raises(outfox.DataUnreadable):
        outfox.load("sentiment", path=copy)


@pytest.mark.parametrize("verify", [True, False])
def test_a_manifest_of_another_round_is_refused(archives: Path, tmp_path: Path, verify: bool) -> None:
    copy = Path(shutil.copytree(archives, tmp_path / "copy"))
    change_manifest(copy / "sentiment" / "round-1", round=7)
    with pytest.raises(outfox.DataCorrupt):
        outfox.load("sentiment", path=copy, rounds=7, verify=verify)


@pytest.mark.parametrize(
    "content", [b"{oops", b"", b"\xff\xfe", b"[" * 200_000, b"[1, 2]", b"null", b"{}"], ids=lambda one: one[:8]
)
def test_a_file_that_is_not_a_manifest_is_refused(archive: Path, content: bytes) -> None:
    (archive / "manifest.json").write_bytes(content)
    refused(archive)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2}, {"round": "abc"}, {"round": None}, {"round": 1e999}, {"round": True}, {"task": None},
        {"spec": []}, {"spec": None}, {"spec": {"fields": [1]}}, {"files": []}, {"files": None}, {"files": {}},
        {"files": {"examples.parquet": "x"}},
    ],
    ids=repr,
)  # fmt: skip
def test_a_manifest_with_invalid_parts_is_refused(archive: Path, changes: dict[str, Any]) -> None:
    change_manifest(archive, **changes)
    refused(archive)


@pytest.mark.parametrize("table", ["examples", "votes", "attempts", "contexts", "models"])
def test_every_function_compares_hashes_on_request(archive: Path, tmp_path: Path, table: str) -> None:
    with_wrong_hash(archive, table)
    readers: dict[str, list[Callable[..., Any]]] = {
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
    for read in readers[table]:
        assert len(read("sentiment", path=archive)) > 0
        with pytest.raises(outfox.DataCorrupt, match=f"{table}.parquet"):
            read("sentiment", path=archive, verify=True)


def test_an_intact_archive_passes_the_comparison_of_hashes(archive: Path) -> None:
    assert len(outfox.load("sentiment", path=archive, verify=True)) == 40


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT PROVED: root may read everything")
def test_a_file_without_read_permission_is_an_error(archive: Path) -> None:
    (archive / "votes.parquet").chmod(0)
    for verify in (True, False):
        with pytest.raises(outfox.DataUnreadable):
            outfox.votes("sentiment", path=archive, verify=verify)
    archive.chmod(0)
    try:
        with pytest.raises(outfox.DataUnreadable):
            outfox.votes("sentiment", path=archive)
    finally:
        archive.chmod(0o700)
