"""`outfox data`, as people type it."""

import json

import pytest

from round_manager.database.store import open_store
from round_manager.tasks.tasks import create_task
from templates import BUILT_IN, load_pack
from tests.conftest import Outfox
from tests.fakes.clock import NOON


@pytest.fixture
def task(home_tables: str) -> str:
    """The name of a task in the home that the commands work on."""
    with open_store(home_tables) as store, store.write() as session:
        create_task(session, load_pack(BUILT_IN / "sentiment"), now=NOON)
    return "sentiment"


def test_a_token_is_shown_once_listed_by_its_name_and_revoked(task: str, outfox: Outfox) -> None:
    made = outfox("data", "token", task, "--days", "30", "--why", "for Ada's thesis")
    token, about, _ = made.out.split("\n", 2)
    assert (made.code, token.startswith("outfox-data-")) == (0, True)
    assert "it is not shown again" in about
    listed = outfox("data", "list").out
    key = token.split("-")[2]
    assert (key in listed, "valid" in listed, "for Ada's thesis" in listed, token in listed) == (
        True,
        True,
        True,
        False,
    )
    assert f"{key} opens sentiment no more" in outfox("data", "revoke", key).out
    (left,) = json.loads(outfox("data", "list", task, "--json").out)["tokens"]
    assert (left["key"], left["state"]) == (key, "revoked")


def test_programs_get_the_token_as_json(task: str, outfox: Outfox) -> None:
    told = json.loads(outfox("data", "token", task, "--json").out)
    assert (told["token"].split("-")[2], told["url"]) == (told["key"], "http://127.0.0.1:8000/data/sentiment")


def test_a_task_is_public_until_it_is_not(task: str, outfox: Outfox) -> None:
    assert "anybody may read the frozen rounds of sentiment" in outfox("data", "publish", task).out
    assert "public: sentiment" in outfox("data", "list").out
    assert "only tokens open" in outfox("data", "unpublish", task).out
    assert json.loads(outfox("data", "list", "--json").out) == {"public": [], "tokens": []}


@pytest.mark.usefixtures("task")
def test_mistakes_are_one_line_and_code_2(outfox: Outfox) -> None:
    for arguments, told in (
        (("token", "nobody"), "there is no task `nobody`"),
        (("publish", "nobody"), "there is no task `nobody`"),
        (("revoke", "nobody"), "there is no token nobody; `outfox data list` lists them"),
    ):
        ran = outfox("data", *arguments)
        assert (ran.code, told in ran.err, ran.err.count("\n")) == (2, True, 1)
