"""`outfox round freeze` and `outfox round verify`, as people type them."""

import json
import shutil
from pathlib import Path

import pytest

from round_manager.database.store import open_store
from tests.campaign import start_campaign, start_closed
from tests.conftest import Outfox
from tests.integration.databases import Databases
from tests.integration.round_manager.archive.forging import change_manifest


@pytest.fixture(scope="session")
def closed(any_databases: Databases) -> str:
    """A database with a closed round, to be copied."""
    url = any_databases.migrated()
    with open_store(url) as store:
        start_closed(store)
    return url


@pytest.fixture
def home(closed: str, any_databases: Databases, home_url: str, tmp_path: Path) -> Path:
    """A home with that round."""
    any_databases.copy(closed, home_url)
    return tmp_path / "home"


def test_a_round_is_frozen_into_the_home_and_verified(home: Path, outfox: Outfox) -> None:
    frozen = outfox("round", "freeze", "sentiment", "--why", "the paper")
    assert frozen.code == 0
    where = home / "archives" / "sentiment" / "round-1"
    assert [fact for fact in (str(where), "40 examples", "70 votes", "40 attempts") if fact not in frozen.out] == []
    assert json.loads(outfox("round", "freeze", "sentiment", "--json").out)["already"]
    checked = {}
    for what in ("sentiment", where):
        verified = outfox("round", "verify", what, "--json")
        checked[what] = json.loads(verified.out)["checked"]
        assert (verified.code, json.loads(verified.out)["problems"]) == (0, [])
    # Only a task's name leads to the database.
    assert len(checked["sentiment"]) > len(checked[where])


def test_programs_read_json(home: Path, outfox: Outfox, tmp_path: Path) -> None:
    frozen = json.loads(outfox("round", "freeze", "sentiment", "--to", tmp_path / "data", "--json").out)
    assert (frozen["rows"]["examples"], frozen["splits"]["verified"], frozen["already"]) == (40, 25, False)
    proof = json.loads(outfox("round", "verify", frozen["archive"], "--json").out)
    assert (proof["sha256"], proof["problems"]) == (frozen["sha256"], [])


def test_a_corrupt_archive_ends_with_exit_code_1(home: Path, outfox: Outfox) -> None:
    outfox("round", "freeze", "sentiment")
    (home / "archives" / "sentiment" / "round-1" / "votes.jsonl").write_text("spoiled")
    proof = outfox("round", "verify", "sentiment")
    assert proof.code == 1
    assert "votes.jsonl" in proof.out


@pytest.mark.usefixtures("home")
def test_what_cannot_be_frozen_or_verified_is_an_error(outfox: Outfox, tmp_path: Path) -> None:
    for arguments, code in (
        (("freeze", "nobody"), "task_not_found"),
        (("freeze", "sentiment", "--round", "9"), "round_not_found"),
        (("verify", "sentiment"), "archive_not_found"),
        (("verify", tmp_path), "archive_not_found"),
    ):
        ran = outfox("round", *arguments, "--json")
        assert (ran.code, json.loads(ran.err)["code"]) == (2, code)


def test_a_round_that_is_not_closed_is_not_frozen(home_tables: str, outfox: Outfox) -> None:
    with open_store(home_tables) as store:
        start_campaign(store)
    for number in ((), ("--round", "1")):
        ran = outfox("round", "freeze", "sentiment", *number, "--json")
        assert (ran.code, json.loads(ran.err)["code"]) == (2, "round_not_closed")


def test_a_changed_or_unreadable_manifest_fails_verification(home: Path, outfox: Outfox) -> None:
    outfox("round", "freeze", "sentiment")
    archive = home / "archives" / "sentiment" / "round-1"
    change_manifest(archive, lambda manifest: manifest["spec"].update(brand_new=1))
    for what in (archive, "sentiment"):
        proof = outfox("round", "verify", what)
        assert (proof.code, len(proof.out.splitlines()) > 0) == (1, True)
    manifest = archive / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"round": 1', '"round":  1'), "utf-8")
    for what in (archive, "sentiment"):
        proof = outfox("round", "verify", what)
        assert (proof.code, "manifest.json" in proof.out) == (1, True)
    assert len(json.loads(outfox("round", "verify", archive, "--json").out)["problems"]) == 1
    manifest.unlink()
    for what in (archive, "sentiment"):
        proof = outfox("round", "verify", what)
        assert (proof.code, "manifest" in proof.out) == (1, True)


def test_a_folder_with_the_tasks_name_is_not_mistaken_for_its_archive(
    home: Path, outfox: Outfox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outfox("round", "freeze", "sentiment")
    (tmp_path / "sentiment").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "is valid" in outfox("round", "verify", "sentiment").out
    monkeypatch.chdir(home / "archives" / "sentiment")
    assert "is valid" in outfox("round", "verify", "round-1").out


def test_a_round_is_moved_to_another_place_on_request(home: Path, outfox: Outfox, tmp_path: Path) -> None:
    outfox("round", "freeze", "sentiment")
    copied = outfox("round", "freeze", "sentiment", "--to", tmp_path / "copy")
    assert str(home / "archives") in copied.out
    moved = outfox("round", "freeze", "sentiment", "--to", tmp_path / "new", "--move", "--why", "the disk is full")
    where = tmp_path / "new" / "sentiment" / "round-1"
    assert str(where) in moved.out
    shutil.rmtree(home / "archives")
    assert str(where) in outfox("round", "verify", "sentiment").out
