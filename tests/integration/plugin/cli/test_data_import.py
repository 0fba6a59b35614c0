"""`outfox round import` and `outfox suite`, as people type them."""

import json
from pathlib import Path
from typing import Any

import pytest

import outfox as client
from tests.conftest import Outfox
from tests.integration.outfox.published import csv_rows, real_file, write_csv

ABOUT = ("--source", "https://example.org/data", "--licence", "CC-BY-4.0")
USE = {"train": "train", "dev": "held_out"}
pytestmark = pytest.mark.usefixtures("home_tables")


def test_hatemoji_build_is_imported_whole_with_its_published_labels_and_splits(outfox: Outfox, tmp_path: Path) -> None:
    files = [real_file(f"hatemoji-build-{split}.csv") for split in ("train", "dev")]
    assert outfox("task", "create", "hate_speech").code == 0
    done = outfox("round", "import", "hate_speech", "--form", "hatemoji", *ABOUT, *files)
    assert done.code == 0, done.err
    assert "the next round of hate_speech will be round 8" in done.out
    frame = client.load("hate_speech", path=tmp_path / "home" / "archives", verify=True)
    found = {row["id"]: row for row in frame.to_dict("records")}
    for file in files:
        for row in csv_rows(file):
            mine = found.pop(row["entry_id"])
            assert mine["gold_label"] == ("hateful" if row["label_gold"] == "1" else "not_hateful")
            assert (mine["round"], mine["split"]) == (int(row["round.base"]), USE[row["split"]])
            assert mine["original"] == row["matched_id"]
    assert not found
    assert outfox("round", "verify", "hate_speech", "--round", 7).code == 0


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    rows = [
        {"id": number, "text": f"Published text {number}.", "label": "positive", "split": "train" if number else "test"}
        for number in range(4)
    ]
    return write_csv(tmp_path / "plain.csv", rows)


def listed(outfox: Outfox) -> list[tuple[int, str, bool]]:
    found = json.loads(outfox("round", "list", "sentiment", "--json").out)
    return [(one["round"], one["status"], one["imported"]) for one in found]


@pytest.mark.sqlite("the same commands run on PostgreSQL in the snapshots")
def test_imported_rounds_are_marked_wherever_rounds_are_shown(outfox: Outfox, plain: Path) -> None:
    outfox("task", "create", "sentiment")
    cited = ("--citation", "A paper, 2026")
    assert outfox("round", "import", "sentiment", "--form", "csv", *ABOUT, *cited, plain, "--round", 3).code == 0
    assert listed(outfox) == [(3, "closed", True), (4, "draft", False)]
    shown = outfox("round", "show", "sentiment", "--round", 3).out
    wanted = ("closed, imported", "https://example.org/data", "CC-BY-4.0", "A paper, 2026", "plain.csv")
    assert [fact for fact in wanted if fact not in shown] == []
    assert "closed, imported" in outfox("status").out
    assert "round 3 was imported" in outfox("round", "metrics", "sentiment").out


BAD: dict[str, tuple[tuple[object, ...], str, str]] = {
    "no licence": (("--source", "here"), "provenance_missing", "describe_import"),
    "an unknown split": ((*ABOUT, "--split", "later"), "import_invalid", "describe_import"),
    "an unknown label": ((*ABOUT, "--labels", "positive=great"), "import_invalid", "describe_import"),
}


@pytest.mark.sqlite("the same commands run on PostgreSQL in the snapshots")
def test_what_is_wrong_has_a_code_and_a_hint_and_changes_nothing(outfox: Outfox, plain: Path, tmp_path: Path) -> None:
    outfox("task", "create", "sentiment")
    for options, code, hint in BAD.values():
        ran = outfox("round", "import", "sentiment", "--form", "csv", *options, plain, "--json")
        assert ran.failure == (2, code)
        assert ran.error["hint"]["action"] == hint
    broken = write_csv(tmp_path / "broken.csv", [{"id": "1", "text": "x", "label": "good"}])
    ran = outfox("round", "import", "sentiment", "--form", "csv", *ABOUT, broken, "--dry-run", "--json")
    details: list[dict[str, Any]] = ran.error["details"]
    assert [(one["file"], one["line"], one["code"]) for one in details] == [("broken.csv", 2, "label_unknown")]
    assert listed(outfox) == [(1, "draft", False)]
    assert not (tmp_path / "home" / "archives").exists()
    for option in (("--renumber", "x=1"), ("--column", "text")):
        assert outfox("round", "import", "sentiment", "--form", "csv", *ABOUT, *option, plain).code == 2


@pytest.mark.sqlite("the same commands run on PostgreSQL in the snapshots")
def test_a_suite_is_imported_listed_and_verified(outfox: Outfox, plain: Path, tmp_path: Path) -> None:
    outfox("task", "create", "sentiment")
    assert "has no test suites" in outfox("suite", "list", "sentiment").out
    done = outfox("suite", "import", "sentiment", "checks", "--form", "csv", "--hidden", *ABOUT, plain)
    assert "0 to train on, 4 held out" in done.out
    (suite,) = json.loads(outfox("suite", "list", "sentiment", "--json").out)
    assert (suite["name"], suite["examples"], suite["hidden"]) == ("checks", 4, True)
    assert outfox("suite", "verify", "sentiment", "checks").code == 0
    (Path(suite["archive"]) / "votes.jsonl").write_text("changed", "utf-8")
    assert outfox("suite", "verify", "sentiment", "checks").code == 1
    assert outfox("suite", "verify", "sentiment", "nothing", "--json").failure == (2, "suite_not_found")
