"""`verify` finds whatever is not as it was frozen, also where every hash was made to fit again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlalchemy import text

from ml_backend.hashing import file_sha256
from round_manager.archive.archives import open_archives
from round_manager.archive.json_lines import json_lines
from round_manager.archive.manifest import FILE, ArchiveManifest, FileEntry
from round_manager.archive.proof import Proof, read_manifest, verify
from round_manager.errors import ArchiveError
from round_manager.models import Round
from tests.integration.rounds_data.played import Played


@pytest.fixture
def archive(archives: Path, tmp_path: Path) -> Path:
    """A copy of a frozen round, to be spoiled."""
    return Path(shutil.copytree(archives / "sentiment" / "round-1", tmp_path / "copy"))


def forge(archive: Path, change: Callable[[pa.Table], pa.Table], table: str = "examples") -> None:
    """Changes a table in both forms and lets the manifest tell the new hashes."""
    changed = change(parquet.read_table(archive / f"{table}.parquet"))
    parquet.write_table(changed, archive / f"{table}.parquet")
    (archive / f"{table}.jsonl").write_bytes(b"".join(json_lines(batch) for batch in changed.to_batches()))
    manifest = read_manifest(archive)
    names = [f"{table}.parquet", f"{table}.jsonl"]
    files = {
        name: FileEntry(file_sha256(archive / name), (archive / name).stat().st_size, changed.num_rows)
        for name in names
    }
    told = {**vars(manifest), "files": {**manifest.files, **files}}
    (archive / FILE).write_bytes(ArchiveManifest(**told).written())


def set_column(table: pa.Table, name: str, values: list[object]) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize("task", ["sentiment", "nli", "qa"])
def test_an_archive_as_it_was_frozen_is_proved(archives: Path, task: str) -> None:
    proof = verify(archives / task / "round-1")
    assert proof.problems == ()
    assert "splits, recomputed" in proof.checked


def test_a_changed_a_missing_and_an_added_file_are_named(archive: Path) -> None:
    content = bytearray((archive / "votes.jsonl").read_bytes())
    content[10] ^= 1
    (archive / "votes.jsonl").write_bytes(content)
    (archive / "models.parquet").unlink()
    (archive / "notes.txt").write_text("mine")
    problems = verify(archive).problems
    assert [problem.split()[0] for problem in problems] == ["notes.txt", "models.parquet", "votes.jsonl"]


def test_a_changed_manifest_is_refused(archive: Path) -> None:
    content = (archive / FILE).read_text("utf-8")
    (archive / FILE).write_text(content.replace('"round": 1', '"round":  1'), "utf-8")
    with pytest.raises(ArchiveError, match="was changed"):
        verify(archive)


def test_a_place_without_an_archive_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="there is no archive"):
        verify(tmp_path)


def test_an_example_that_was_moved_to_the_other_part_is_found(archive: Path) -> None:
    def move(table: pa.Table) -> pa.Table:
        other = {"train": "held_out", "held_out": "train", None: None}
        splits = table["split"].to_pylist()
        return set_column(table, "split", [other[splits[0]], *splits[1:]])

    forge(archive, move)
    problems = " ".join(verify(archive).problems)
    assert "1 examples are not in the part that follows from their ids" in problems
    assert "workers are in both parts" in problems


def test_a_status_that_was_changed_is_found(archive: Path) -> None:
    forge(archive, lambda table: set_column(table, "status", ["disputed"] * table.num_rows))
    problems = " ".join(verify(archive).problems)
    assert "the examples' statuses are {'disputed': 40}" in problems
    assert "the splits would be" in problems


def test_votes_that_were_taken_out_are_missed(archive: Path) -> None:
    forge(archive, lambda table: table.slice(0, 50), "votes")
    assert "the examples have 60 votes, there are 50" in " ".join(verify(archive).problems)


def against(played: Played, folder: str) -> Proof:
    with played.store.read() as session:
        return verify(Path(folder), database=(session, session.get_one(Round, played.round_id)))


def test_an_archive_is_held_against_its_database(played: Played, tmp_path: Path) -> None:
    frozen = played.freeze(open_archives(str(tmp_path)))
    proof = against(played, frozen.where)
    assert (proof.problems, proof.checked[-1]) == ((), "the database")


def test_another_rounds_archive_is_not_this_ones(played: Played, tmp_path: Path) -> None:
    played.freeze(open_archives(str(tmp_path)))
    other = played.play_next(examples=12)
    frozen = other.freeze(open_archives(str(tmp_path)))
    problems = " ".join(against(played, frozen.where).problems)
    assert "the database knows the archive as" in problems
    assert "the database has 60 votes, the archive 18" in problems
    assert "the database has 40 attempts, the archive 12" in problems


def test_a_database_that_lost_votes_is_found_out(played: Played, tmp_path: Path) -> None:
    frozen = played.freeze(open_archives(str(tmp_path)))
    with played.store.write() as session:
        sqlite = session.get_bind().dialect.name == "sqlite"
        session.execute(text("DROP TRIGGER guard_vote_kept" + ("" if sqlite else " ON vote")))
        session.execute(text("DELETE FROM uncounted_vote"))
        session.execute(text("DELETE FROM vote WHERE example_id = (SELECT min(example_id) FROM vote)"))
        session.flush()
        proof = verify(Path(frozen.where), database=(session, session.get_one(Round, played.round_id)))
        session.rollback()
    assert "votes, the archive 60" in " ".join(proof.problems)
