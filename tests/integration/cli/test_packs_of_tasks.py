"""A pack that lies anywhere is found by its task's name, from wherever a command is typed."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Outfox


@pytest.fixture
def made(tmp_path: Path, home_tables: str, outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pack that a task was made from; the test stands elsewhere."""
    assert home_tables
    assert outfox("templates", "new", "--from", "sentiment", tmp_path / "vendor" / "my_task").code == 0
    assert outfox("task", "create", tmp_path / "vendor" / "my_task").code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "vendor" / "my_task"


@pytest.mark.parametrize("command", [("show",), ("check",), ("render",)])
def test_the_name_of_a_task_is_enough_for_commands_on_its_pack(
    outfox: Outfox, made: Path, command: tuple[str, ...]
) -> None:
    ran = outfox("templates", *command, made.name)
    assert (ran.code, ran.err) == (0, "")


def test_such_a_pack_is_listed_and_checked_with_the_owners_own(outfox: Outfox, made: Path) -> None:
    listed = json.loads(outfox("templates", "list", "--json").out)
    assert [one["folder"] for one in listed if one["name"] == "my_task"] == [str(made)]
    assert listed[0]["name"] == "my_task"
    assert "my_task: fine" in outfox("templates", "check").out


def test_a_built_in_task_is_listed_once(outfox: Outfox, made: Path) -> None:
    assert made
    assert outfox("task", "create", "sentiment").code == 0
    listed = json.loads(outfox("templates", "list", "--json").out)
    assert [one["name"] for one in listed].count("sentiment") == 1


def test_the_folders_of_packs_come_first(outfox: Outfox, made: Path, tmp_path: Path) -> None:
    assert outfox("templates", "new", "--from", "sentiment", tmp_path / "home" / "templates" / "my_task").code == 0
    assert json.loads(outfox("templates", "show", "my_task", "--json").out)["folder"] != str(made)


def test_a_pack_that_is_gone_or_was_never_there_is_told_as_before(outfox: Outfox, made: Path) -> None:
    shutil.rmtree(made)
    for name in ("my_task", "other_task"):
        ran = outfox("templates", "show", name)
        assert (ran.code, f"there is no task pack `{name}`" in ran.err) == (2, True)


def test_packs_need_no_database(outfox: Outfox, tmp_path: Path) -> None:
    assert outfox("templates", "list").code == 0
    assert "there is no task pack `my_task`" in outfox("model", "train", "my_task").err
    assert not (tmp_path / "home" / "outfox.db").exists()
