"""A task's pack is found by the task's name, wherever its folder is."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Outfox


@pytest.fixture
def made(tmp_path: Path, home_tables: str, outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pack that a task was created from; the current directory is another one."""
    assert home_tables
    assert outfox("templates", "new", "--from", "sentiment", tmp_path / "vendor" / "my_task").code == 0
    assert outfox("task", "create", tmp_path / "vendor" / "my_task").code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "vendor" / "my_task"


@pytest.mark.parametrize("command", [("show",), ("check",), ("render",)])
def test_commands_find_a_pack_by_its_tasks_name(outfox: Outfox, made: Path, command: tuple[str, ...]) -> None:
    ran = outfox("templates", *command, made.name)
    assert (ran.code, ran.err) == (0, "")


def test_the_pack_of_a_task_is_listed_and_checked_first(outfox: Outfox, made: Path) -> None:
    listed = json.loads(outfox("templates", "list", "--json").out)
    assert [one["folder"] for one in listed if one["name"] == "my_task"] == [str(made)]
    assert listed[0]["name"] == "my_task"
    assert "my_task: fine" in outfox("templates", "check").out


def test_a_built_in_task_is_listed_once(outfox: Outfox, made: Path) -> None:
    assert made
    assert outfox("task", "create", "sentiment").code == 0
    listed = json.loads(outfox("templates", "list", "--json").out)
    assert [one["name"] for one in listed].count("sentiment") == 1


def test_the_owners_folder_precedes_the_tasks_folder(outfox: Outfox, made: Path, tmp_path: Path) -> None:
    assert outfox("templates", "new", "--from", "sentiment", tmp_path / "home" / "templates" / "my_task").code == 0
    assert json.loads(outfox("templates", "show", "my_task", "--json").out)["folder"] != str(made)


def test_a_deleted_or_unknown_pack_is_not_found(outfox: Outfox, made: Path) -> None:
    shutil.rmtree(made)
    for name in ("my_task", "other_task"):
        ran = outfox("templates", "show", name, "--json")
        assert (ran.code, json.loads(ran.err)["code"]) == (2, "pack_not_found")


def test_packs_work_without_a_database(outfox: Outfox, tmp_path: Path) -> None:
    assert outfox("templates", "list").code == 0
    assert json.loads(outfox("model", "train", "my_task", "--json").err)["code"] == "pack_not_found"
    assert not (tmp_path / "home" / "outfox.db").exists()
