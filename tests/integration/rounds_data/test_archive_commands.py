"""`outfox round freeze` and `outfox round verify`, as people type them."""

import json
import shutil
from pathlib import Path

import pytest

from round_manager.database.store import open_store
from tests.conftest import Outfox
from tests.integration.databases import Databases
from tests.integration.rounds_data.forging import change_manifest
from tests.integration.rounds_data.played import play
from tests.integration.services.stage import set_stage


@pytest.fixture(scope="session")
def closed(any_databases: Databases) -> str:
    """A database with a closed round, to be copied."""
    url = any_databases.migrated()
    with open_store(url) as store:
        play(store)
    return url


@pytest.fixture
def home(closed: str, any_databases: Databases, home_url: str, tmp_path: Path) -> Path:
    """A home with that round."""
    any_databases.copy(closed, home_url)
    return tmp_path / "home"


def test_a_round_is_frozen_into_the_home_and_proved(home: Path, outfox: Outfox) -> None:
    frozen = outfox("round", "freeze", "sentiment", "--why", "the paper")
    assert frozen.code == 0
    where = home / "archives" / "sentiment" / "round-1"
    assert f"round 1 of sentiment is frozen: {where}" in frozen.out
    assert "40 examples, 70 votes, 40 attempts" in frozen.out
    assert "frozen already, and the same" in outfox("round", "freeze", "sentiment").out
    for what in ("sentiment", where):
        proved = outfox("round", "verify", what)
        assert (proved.code, "round 1 of sentiment is proved" in proved.out) == (0, True)
    assert "the database" in outfox("round", "verify", "sentiment").out


def test_programs_read_json(home: Path, outfox: Outfox, tmp_path: Path) -> None:
    told = json.loads(outfox("round", "freeze", "sentiment", "--to", tmp_path / "data", "--json").out)
    assert (told["rows"]["examples"], told["splits"]["verified"], told["already"]) == (40, 25, False)
    proof = json.loads(outfox("round", "verify", told["archive"], "--json").out)
    assert (proof["sha256"], proof["problems"]) == (told["sha256"], [])


def test_a_spoiled_archive_ends_with_code_1_and_says_what_to_do(home: Path, outfox: Outfox) -> None:
    outfox("round", "freeze", "sentiment")
    (home / "archives" / "sentiment" / "round-1" / "votes.jsonl").write_text("spoiled")
    proof = outfox("round", "verify", "sentiment")
    assert proof.code == 1
    assert "votes.jsonl was changed (its SHA-256 differs); restore the archive" in proof.out


def test_mistakes_are_one_line_and_code_2(home: Path, outfox: Outfox, tmp_path: Path) -> None:
    for arguments, told in (
        (("freeze", "nobody"), "nobody"),
        (("freeze", "sentiment", "--round", "9"), "sentiment has no round 9"),
        (("verify", "sentiment"), "round 1 of sentiment is not frozen yet; run `outfox round freeze sentiment`"),
        (("verify", tmp_path), "there is no archive at"),
    ):
        ran = outfox("round", *arguments)
        assert (ran.code, told in ran.err, ran.err.count("\n")) == (2, True, 1)


def test_a_task_without_a_closed_round_is_told_so(home_tables: str, outfox: Outfox) -> None:
    with open_store(home_tables) as store:
        set_stage(store, "sentiment")
    ran = outfox("round", "freeze", "sentiment")
    assert (ran.code, "sentiment has no closed round yet" in ran.err) == (2, True)
    assert "round 1 of sentiment is open; close it" in outfox("round", "freeze", "sentiment", "--round", "1").err


def test_a_manifest_that_was_changed_or_cannot_be_read_is_not_proved(home: Path, outfox: Outfox) -> None:
    outfox("round", "freeze", "sentiment")
    archive = home / "archives" / "sentiment" / "round-1"
    change_manifest(archive, lambda told: told["spec"].update(brand_new=1))
    for what in (archive, "sentiment"):
        proof = outfox("round", "verify", what)
        assert (proof.code, "the task in the manifest cannot be read here" in proof.out) == (1, True)
    manifest = archive / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"round": 1', '"round":  1'), "utf-8")
    for what in (archive, "sentiment"):
        proof = outfox("round", "verify", what)
        assert (proof.code, "manifest.json was changed; restore the archive" in proof.out) == (1, True)
    told = json.loads(outfox("round", "verify", archive, "--json").out)
    assert len(told["problems"]) == 1
    manifest.unlink()
    for what in (archive, "sentiment"):
        proof = outfox("round", "verify", what)
        assert (proof.code, "has lost its manifest; restore the archive" in proof.out) == (1, True)


def test_a_folder_that_is_called_like_the_task_is_not_taken_for_its_archive(
    home: Path, outfox: Outfox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outfox("round", "freeze", "sentiment")
    (tmp_path / "sentiment").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "is proved" in outfox("round", "verify", "sentiment").out
    monkeypatch.chdir(home / "archives" / "sentiment")
    assert "is proved" in outfox("round", "verify", "round-1").out


def test_a_round_is_moved_to_another_place_on_request(home: Path, outfox: Outfox, tmp_path: Path) -> None:
    outfox("round", "freeze", "sentiment")
    copied = outfox("round", "freeze", "sentiment", "--to", tmp_path / "copy")
    assert f"its own archive is still at {home / 'archives'}" in copied.out
    moved = outfox("round", "freeze", "sentiment", "--to", tmp_path / "new", "--move", "--why", "the disk is full")
    where = tmp_path / "new" / "sentiment" / "round-1"
    assert f"its own archive is now at {where}" in moved.out
    shutil.rmtree(home / "archives")
    assert str(where) in outfox("round", "verify", "sentiment").out
