"""`verify` finds every change since the freeze, even if all hashes were recomputed."""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from sqlalchemy import text

from round_manager.archive.files import FILE
from round_manager.archive.split_plan import FIRST_RULE, plan_splits
from round_manager.archive.storage import open_archives
from round_manager.archive.verification import Verification, verify
from round_manager.errors import ArchiveCorrupt, ArchiveNotFound
from round_manager.models import ExampleStatus, Round
from round_manager.services import archives as archive_services
from tests.campaign import Campaign, start_closed
from tests.campaign.closed_rounds import text_of
from tests.integration.databases import Databases
from tests.integration.round_manager.archive.forging import change_manifest, forge, set_column


def mentions(problems: Sequence[str], *facts: str) -> bool:
    """Whether one of the problems has all these facts."""
    return any(all(fact in problem for fact in facts) for problem in problems)


@pytest.mark.parametrize("task", ["sentiment", "nli", "qa"])
def test_an_unchanged_archive_passes_verification(archives: Path, task: str) -> None:
    proof = verify(archives / task / "round-1")
    assert proof.problems == ()
    assert mentions(proof.checked, "gold labels")
    assert mentions(proof.checked, "splits")
    assert mentions(proof.unchecked, "10 examples")


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
    with pytest.raises(ArchiveCorrupt):
        verify(archive)


def test_a_missing_archive_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ArchiveNotFound):
        verify(tmp_path)


def test_an_example_that_was_moved_to_the_other_part_is_found(archive: Path) -> None:
    def move(table: pa.Table) -> pa.Table:
        other = {"train": "held_out", "held_out": "train", None: None}
        splits = table["split"].to_pylist()
        return set_column(table, "split", [other[splits[0]], *splits[1:]])

    forge(archive, move)
    problems = " ".join(verify(archive).problems)
    assert "1 example is not in the part" in problems
    assert "in both parts" in problems


def test_a_status_that_was_changed_is_found(archive: Path) -> None:
    forge(archive, lambda table: set_column(table, "status", ["disputed"] * table.num_rows))
    problems = " ".join(verify(archive).problems)
    assert "the examples' statuses are {'disputed': 40}" in problems
    assert "the splits would be" in problems


def test_removed_votes_are_found(archive: Path) -> None:
    forge(archive, lambda table: table.slice(0, 50), "votes")
    assert "the examples have 70 votes, the table votes has 50" in " ".join(verify(archive).problems)


def test_votes_that_differ_from_those_in_the_examples_are_found(archive: Path) -> None:
    def relabel(table: pa.Table) -> pa.Table:
        return set_column(table, "label", [label and "neutral" for label in table["label"].to_pylist()])

    forge(archive, relabel, "votes")
    assert "50 votes are different in examples and in votes" in " ".join(verify(archive).problems)


def test_votes_that_were_moved_to_other_examples_are_found(archive: Path) -> None:
    forge(archive, lambda table: set_column(table, "example", table["example"].to_pylist()[::-1]), "votes")
    assert "votes are different in examples and in votes" in " ".join(verify(archive).problems)


def test_a_gold_label_that_the_votes_do_not_give_is_found(archive: Path) -> None:
    def relabel(table: pa.Table) -> pa.Table:
        return set_column(table, "gold_label", [gold and "positive" for gold in table["gold_label"].to_pylist()])

    forge(archive, relabel)
    assert mentions(verify(archive).problems, "30 examples", "votes")


def test_rows_of_another_round_are_found(archive: Path) -> None:
    forge(archive, lambda table: set_column(table, "round", [9] * table.num_rows), "attempts")
    assert mentions(verify(archive).problems, "40 rows", "attempts")


def test_a_model_that_differs_from_the_manifest_is_found(archive: Path) -> None:
    models = change_manifest(archive, lambda manifest: manifest["models"][0].update(sha256="0" * 64))["models"]
    assert models[0]["sha256"] == "0" * 64
    assert mentions(verify(archive).problems, "manifest", "models")


def test_terms_that_were_changed_are_found(archive: Path) -> None:
    change_manifest(archive, lambda manifest: manifest["spec"]["pay"].update(budget_cents=1))
    assert mentions(verify(archive).problems, "task", "manifest")


def test_unreadable_terms_are_reported_as_a_problem(archive: Path) -> None:
    change_manifest(archive, lambda manifest: manifest["spec"].update(brand_new=1))
    assert mentions(verify(archive).problems, "task", "manifest")


def test_columns_that_do_not_belong_to_the_task_are_found(archive: Path) -> None:
    forge(archive, lambda table: table.drop_columns(["votes"]))
    assert mentions(verify(archive).problems, "examples", "columns")


def test_a_rounds_splits_are_compared_with_those_of_other_rounds(archives: Path, tmp_path: Path) -> None:
    task = Path(shutil.copytree(archives / "sentiment", tmp_path / "sentiment"))
    assert verify(task / "round-2").problems == ()
    shutil.rmtree(task / "round-1")
    alone = verify(task / "round-2")
    assert (alone.problems, mentions(alone.unchecked, "rounds 1")) == ((), True)


def test_a_worker_whose_split_changed_between_rounds_is_found(archives: Path, tmp_path: Path) -> None:
    task = Path(shutil.copytree(archives / "sentiment", tmp_path / "sentiment"))
    change_manifest(task / "round-2", _exchange)
    assert mentions(verify(task / "round-2").problems, "workers", "rounds 1")


def _exchange(manifest: dict[str, Any]) -> None:
    splits = manifest["splits"]
    splits["came_to_train"], splits["came_held_out"] = splits["came_held_out"], splits["came_to_train"]


def test_a_round_split_without_regard_to_other_rounds_is_found(
    archives: Path, any_databases: Databases, tmp_path: Path
) -> None:
    with any_databases.opened() as store:
        alone = start_closed(store).next_closed_round().freeze(open_archives(str(tmp_path)))
    shutil.copytree(archives / "sentiment" / "round-1", tmp_path / "sentiment" / "round-1")
    assert mentions(verify(Path(alone.where)).problems, "part", "round 1")


def against(campaign: Campaign, folder: str) -> Verification:
    with campaign.store.read() as session:
        return verify(Path(folder), database=(session, session.get_one(Round, campaign.round_id)))


@pytest.mark.any_database
def test_an_archive_is_compared_with_its_database(campaign: Campaign, tmp_path: Path) -> None:
    frozen = campaign.freeze(open_archives(str(tmp_path)))
    proof = against(campaign, frozen.where)
    assert (proof.problems, proof.checked[-1]) == ((), "the database")


@pytest.mark.any_database
def test_another_rounds_archive_is_refused(campaign: Campaign, tmp_path: Path) -> None:
    campaign.freeze(open_archives(str(tmp_path)))
    other = campaign.next_closed_round(examples=12)
    frozen = other.freeze(open_archives(str(tmp_path)))
    problems = against(campaign, frozen.where).problems
    assert mentions(problems, "database", "hash")
    assert mentions(problems, "70 votes", "23")
    assert mentions(problems, "40 attempts", "12")


def test_a_database_that_lost_votes_is_found(campaign: Campaign, tmp_path: Path) -> None:
    frozen = campaign.freeze(open_archives(str(tmp_path)))
    with campaign.store.write() as session:
        sqlite = session.get_bind().dialect.name == "sqlite"
        session.execute(text("DROP TRIGGER guard_vote_kept" + ("" if sqlite else " ON vote")))
        session.execute(text("DELETE FROM uncounted_vote"))
        session.execute(text("DELETE FROM vote WHERE example_id = (SELECT min(example_id) FROM vote)"))
        session.flush()
        proof = verify(Path(frozen.where), database=(session, session.get_one(Round, campaign.round_id)))
        session.rollback()
    assert mentions(proof.problems, "votes", "70")


def test_an_archive_with_splits_of_the_first_rule_passes_verification(
    any_databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def text(number: int) -> str:
        return f"{text_of(number - number % 2)}{'!' * (number % 2)}"

    monkeypatch.setattr(archive_services, "plan_splits", partial(plan_splits, rule=FIRST_RULE))
    with any_databases.opened() as store:
        # The second worker's every text is nearly one of the first's.
        campaign = start_closed(store, text=text, author=lambda number: number % 2, statuses=(ExampleStatus.VERIFIED,))
        campaign.forget_duplicates()
        old = campaign.freeze(open_archives(str(tmp_path)))
        monkeypatch.undo()
        again = campaign.freeze(open_archives(str(tmp_path)))
    assert (old.splits.kept_apart, old.splits.note, again.sha256) == (20, "", old.sha256)
    assert verify(Path(old.where)).problems == ()


def test_splits_of_an_unknown_rule_are_reported(archive: Path) -> None:
    change_manifest(archive, lambda manifest: manifest["splits"].update(rule=4))
    assert mentions(verify(archive).problems, "rule 4")


def test_an_archive_with_splits_of_the_second_rule_passes_verification(
    any_databases: Databases, tmp_path: Path
) -> None:
    with any_databases.opened() as store:
        campaign = start_closed(store, text=lambda number: text_of(number % 30))
        campaign.forget_duplicates()
        old = campaign.freeze(open_archives(str(tmp_path)))
    assert (old.splits.rule, old.splits.exact_duplicates > 0) == (2, True)
    assert verify(Path(old.where)).problems == ()
    assert "duplicate" not in pa.parquet.read_schema(Path(old.where) / "examples.parquet").names


def test_a_duplicate_that_is_not_similar_to_what_it_names_is_found(any_databases: Databases, tmp_path: Path) -> None:
    with any_databases.opened() as store:
        campaign = start_closed(store, text=lambda number: text_of(number % 30), decided=True)
        frozen = campaign.freeze(open_archives(str(tmp_path)))
    folder = Path(frozen.where)
    assert verify(folder).problems == ()

    def swap(table: pa.Table) -> pa.Table:
        """Name the next original instead."""
        names = table["duplicate_of"].to_pylist()
        originals = [name for name in names if name]
        moved = dict(zip(originals, [*originals[1:], originals[0]], strict=True))
        return set_column(table, "duplicate_of", [moved.get(name) for name in names])

    forge(folder, swap)
    assert mentions(verify(folder).problems, "not similar")
