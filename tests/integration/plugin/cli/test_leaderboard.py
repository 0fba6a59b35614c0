"""`outfox leaderboard`, as people type it."""

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import outfox as client
from round_manager.database.store import open_store
from round_manager.tasks.tasks import create_task
from templates import BUILT_IN, load_pack
from tests.conftest import Outfox
from tests.fakes.clock import NOON
from tests.fakes.evaluations import ROUNDS, TASK, MeasuredData, store_evaluations

MODELS = {"va": "ada", "vb": "=cmd|' /C calc'!A0", "vc": "cy"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stored evaluations in the archives of the command's home, without a database."""
    folder = tmp_path / "archives"
    store_evaluations(folder, MODELS)
    monkeypatch.setenv("OUTFOX_ARCHIVES", str(folder))
    return folder


@pytest.fixture
def task(place: Path, home_tables: str) -> str:
    """The name of a task with stored evaluations in the home that the commands work on."""
    with open_store(home_tables) as store, store.write() as session:
        create_task(session, load_pack(BUILT_IN / TASK), now=NOON)
    return TASK


def data_of(outfox: Outfox, *arguments: object) -> Any:
    ran = outfox("leaderboard", *arguments, "--json")
    assert ran.code == 0, ran
    return json.loads(ran.out)


def test_the_ranking_is_that_of_the_client_and_needs_no_database(place: Path, outfox: Outfox) -> None:
    found = data_of(outfox, TASK)
    wide = client.leaderboard(TASK, path=place)
    assert [one["model"] for one in found["ranking"]] == wide["model"].tolist()
    assert [one["dynascore"] for one in found["ranking"]] == wide["dynascore"].tolist()
    swap = found["nearest_swap"]
    beyond = {**found["weights"], swap["axis"]: swap["swap_weight"] + 0.01 * swap["change"]}
    again = data_of(outfox, TASK, "--weights", ",".join(f"{axis}={weight}" for axis, weight in beyond.items()))
    names = [one["model"] for one in again["ranking"]]
    assert names.index(swap["below"]) < names.index(swap["above"])
    shown = outfox("leaderboard", "show", TASK)
    assert (shown.code, "Dynascore" in shown.out, swap["below"] in shown.out.splitlines()[-1]) == (0, True, True)


def test_files_are_safe_in_spreadsheets_and_complete_in_parquet(place: Path, outfox: Outfox, tmp_path: Path) -> None:
    wide, long = tmp_path / "wide.csv", tmp_path / "long.parquet"
    assert data_of(outfox, TASK, "--to", wide)["rows"] == 3
    assert outfox("leaderboard", TASK, "--to", long, "--long").code == 0
    rows = list(csv.DictReader(wide.open(newline="")))
    assert sorted(one["model"] for one in rows) == sorted(["ada", f"'{MODELS['vb']}", "cy"])
    assert {one.name for one in ROUNDS} <= set(rows[0])
    expected = client.leaderboard(TASK, path=place, form="long")
    assert pd.read_parquet(long)["value"].tolist() == expected["value"].tolist()
    for wrong in (("--to", tmp_path / "x.xlsx"), ("--long",), ("--board", "b", "--weights", "performance=1"),
                  ("--weights", "performance"), ("--weights", "charm=1")):  # fmt: skip
        assert outfox("leaderboard", TASK, *wrong).code == 2
    assert (
        outfox("leaderboard", TASK, "--to", tmp_path / "missing" / "x.csv", "--json").failure[1] == "input_file_error"
    )


def test_the_name_of_a_data_set_is_safe_in_the_head_of_a_file(place: Path, outfox: Outfox, tmp_path: Path) -> None:
    store_evaluations(place, MODELS, [MeasuredData("=1+1", "suite")])
    data_of(outfox, TASK, "--to", tmp_path / "wide.csv")
    head = (tmp_path / "wide.csv").read_text().splitlines()[0]
    assert '"\'=1+1"' in head


def test_boards_are_created_forked_listed_and_removed(task: str, outfox: Outfox) -> None:
    made = data_of(
        outfox, "create", task, "Fast", "--weights", "performance=4,throughput=5", "--data-weights", "seed=0"
    )
    forked = data_of(outfox, "create", task, "Mine", "--from", "Fast", "--data-weights", "round 1=2")
    assert (forked["weights"], forked["parent"]) == (made["weights"], "Fast")
    assert forked["data_weights"] == {"seed": 0.0, "round 1": 2.0}
    assert made["url"].endswith(f"/leaderboard/{task}?board={made['key']}")
    assert data_of(outfox, task, "--board", "fast")["weights"] == {
        **made["weights"],
        "calibration": 0,
        "worst_round": 0,
    }
    assert data_of(outfox, task, "--board", forked["key"])["board"] == "Mine"
    assert [one["name"] for one in data_of(outfox, "list", task)["boards"]] == ["Mine", "Fast"]
    assert outfox("leaderboard", "create", task, "FAST", "--json").failure == (2, "board_name_taken")
    assert data_of(outfox, "remove", task, "Fast", "--why", "unused")["name"] == "Fast"
    assert outfox("leaderboard", task, "--board", "Fast", "--json").failure == (2, "board_not_found")
    listed = outfox("leaderboard", "list", task).out
    assert ("Mine" in listed, "Fast" in listed) == (True, False)


def test_a_snapshot_shows_what_was(task: str, place: Path, outfox: Outfox) -> None:
    before = data_of(outfox, task)
    taken = data_of(outfox, "snapshot", task, "--why", "for the paper")
    store_evaluations(place, {**MODELS, "vd": "dee"}, seed=3)
    assert data_of(outfox, task)["ranking"] != before["ranking"]
    assert data_of(outfox, task, "--snapshot", taken["key"])["ranking"] == before["ranking"]
    assert [one["sha256"] for one in data_of(outfox, "list", task)["snapshots"]] == [taken["sha256"]]
    assert outfox("leaderboard", task, "--snapshot", "0" * 16, "--json").failure == (2, "snapshot_not_found")


def test_a_model_is_left_out_and_shown_again(task: str, outfox: Outfox) -> None:
    def models() -> set[str]:
        return {one["model"] for one in data_of(outfox, task)["ranking"]}

    assert data_of(outfox, "hide", task, "cy", "--why", "withdrawn")["model"] == "vc"
    assert models() == {"ada", MODELS["vb"]}
    assert data_of(outfox, "list", task)["left_out"] == ["vc"]
    data_of(outfox, "unhide", task, "cy")
    assert "cy" in models()
    assert outfox("leaderboard", "hide", task, "nobody", "--json").failure == (2, "board_model_not_found")


def test_what_is_missing_has_a_code_and_a_hint(outfox: Outfox, tmp_path: Path, home_tables: str) -> None:
    missing = outfox("leaderboard", TASK, "--json")
    assert missing.failure == (2, "evaluations_missing")
    assert missing.error["hint"]["command"].startswith("outfox evaluate")
    assert outfox("leaderboard", "create", "nothing", "x", "--json").failure == (2, "task_not_found")
