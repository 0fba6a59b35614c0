import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Outfox, replace_in
from tests.fakes.registry import load_fixed, make_version
from tests.integration.databases import Databases


@pytest.fixture(autouse=True)
def _models_that_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)


@pytest.fixture
def home(tmp_path: Path, home_tables: str) -> Path:
    assert home_tables
    return tmp_path / "home"


@pytest.mark.usefixtures("home")
def test_a_task_is_created_and_the_next_step_is_printed(outfox: Outfox) -> None:
    made = outfox("task", "create", "sentiment", "--json")
    assert made.code == 0, made.err
    assert json.loads(made.out)["next"] == "outfox model train sentiment"
    assert "round 1 is a draft; next: `outfox model train sentiment`" in outfox("task", "create", "sentiment").out
    assert json.loads(outfox("task", "list", "--json").out) == [
        {"task": "sentiment", "kind": "classification", "round": 1, "status": "draft"}
    ]


def test_a_round_is_opened_and_shown(outfox: Outfox, home: Path) -> None:
    version = make_version(home / "models")
    assert json.loads(outfox("task", "create", "sentiment", "--json").out)["next"] == "outfox round open sentiment"
    opened = outfox("round", "open", "sentiment", "--yes", "--why", "the first one", "--json")
    assert opened.code == 0, opened.err
    expected = {"task": "sentiment", "round": 1, "versions": [version], "already": False, "in_house": False}
    assert json.loads(opened.out) == {**expected, "servers": [], "label_studio": None}
    assert "is open already" in outfox("round", "open", "sentiment", "--yes").out

    shown = json.loads(outfox("task", "show", "sentiment", "--json").out)
    (one,) = shown["rounds"]
    assert (one["status"], one["versions"], one["examples"], one["attempts"]) == ("open", [version], 0, 0)
    shown_to_people = outfox("task", "show", "sentiment").out
    assert f"open against {version}; 0 attempts" in shown_to_people
    assert ["budget", "$2,400.00"] in [line.split() for line in shown_to_people.splitlines()]
    (listed,) = json.loads(outfox("round", "list", "sentiment", "--json").out)
    assert (listed["round"], listed["status"]) == (1, "open")
    assert version in outfox("round", "list", "sentiment").out


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", [("task", "show"), ("round", "open"), ("round", "list")])
def test_a_missing_task_is_reported_with_the_command_that_creates_it(outfox: Outfox, command: tuple[str, str]) -> None:
    ran = outfox(*command, "sentiment", "--json")
    error = json.loads(ran.err)
    assert (ran.code, error["code"]) == (2, "task_not_found")
    assert error["hint"]["command"] == "outfox task create sentiment"


@pytest.mark.usefixtures("home")
def test_a_name_that_is_not_a_pack_gets_a_list_or_a_close_name(outfox: Outfox) -> None:
    assert "outfox templates list" in outfox("task", "show", "nope").err
    assert outfox("task", "create", "sentiment").code == 0
    assert outfox("task", "show", "nope", "--json").error["hint"]["action"] == "list_tasks"
    assert "did you mean `sentiment`?" in outfox("status", "Sentimnet").err


@pytest.mark.usefixtures("home")
def test_a_pack_with_a_mistake_creates_no_task(outfox: Outfox, copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "create.xml", 'name="text"', 'name="txet"')
    ran = outfox("task", "create", folder)
    assert ran.code == 2
    assert "create.xml" in ran.err
    assert json.loads(outfox("task", "list", "--json").out) == []


@pytest.mark.sqlite("a database elsewhere is not made by the way")
def test_the_first_task_makes_the_database_of_the_home(outfox: Outfox) -> None:
    assert outfox("task", "create", "sentiment").code == 0
    assert "sentiment" in outfox("task", "list").out


def test_without_a_database_a_hint_is_printed(
    outfox: Outfox, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTFOX_DATABASE_URL", databases.empty())
    for command in (("task", "create", "sentiment"), ("task", "list"), ("round", "open", "sentiment", "--yes")):
        ran = outfox(*command, "--json")
        assert ran.code in (2, 3)
        assert ran.error["hint"]["action"] == "upgrade_database"


@pytest.mark.sqlite("the home's own database")
def test_without_a_database_status_says_how_to_name_a_demo(outfox: Outfox) -> None:
    assert "outfox --home .outfox/demo status" in outfox("status").err


@pytest.mark.usefixtures("home")
def test_a_round_without_a_model_prints_the_hint_to_train_one(outfox: Outfox) -> None:
    outfox("task", "create", "sentiment")
    ran = outfox("round", "open", "sentiment", "--yes", "--json")
    assert (ran.code, ran.error["hint"]["action"]) == (2, "train_model")
    ran = outfox("round", "open", "sentiment", "--yes", "--version", "m000000000000", "--json")
    assert ran.failure == (2, "version_not_found")
