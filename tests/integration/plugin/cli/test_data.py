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
    assert "not shown again" in about
    listed = outfox("data", "list").out
    key = token.split("-")[2]
    assert (key in listed, "valid" in listed, "for Ada's thesis" in listed, token in listed) == (
        True,
        True,
        True,
        False,
    )
    assert json.loads(outfox("data", "revoke", key, "--json").out)["state"] == "revoked"
    (left,) = json.loads(outfox("data", "list", task, "--json").out)["tokens"]
    assert (left["key"], left["state"]) == (key, "revoked")


def test_programs_get_the_token_as_json(task: str, outfox: Outfox) -> None:
    made = json.loads(outfox("data", "token", task, "--json").out)
    assert (made["token"].split("-")[2], made["url"]) == (made["key"], "http://127.0.0.1:8000/data/sentiment")


def test_a_task_is_public_until_it_is_not(task: str, outfox: Outfox) -> None:
    assert json.loads(outfox("data", "publish", task, "--json").out)["public"] is True
    assert "public: sentiment" in outfox("data", "list").out
    assert json.loads(outfox("data", "unpublish", task, "--json").out)["public"] is False
    assert json.loads(outfox("data", "list", "--json").out) == {"public": [], "tokens": []}


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("token", "nobody"), "task_not_found"),
        (("publish", "nobody"), "task_not_found"),
        (("revoke", "nobody"), "data_token_not_found"),
    ],
)
def test_a_missing_task_or_token_is_an_error(outfox: Outfox, arguments: tuple[str, str], code: str) -> None:
    ran = outfox("data", *arguments, "--json")
    assert (ran.code, json.loads(ran.err)["code"]) == (2, code)
