"""Freezing a closed round creates a complete, reproducible archive, or none."""

import json
import threading
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import select

from common.errors import Hint
from round_manager.archive.round_rows import ArchiveRules, RoundRows
from round_manager.archive.storage import open_archives
from round_manager.archive.verification import verify
from round_manager.database.store import Store, open_store
from round_manager.errors import ArchiveConflict, ArchiveError, RoundNotClosed
from round_manager.models import AuditEntry, Context, Example, Round, Task, Worker
from round_manager.services.archives import freeze_round, split_round
from round_manager.services.context import Actor, ServiceContext
from tests.campaign import DAY, Campaign, start_campaign, start_closed
from tests.campaign.closed_rounds import text_of
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.disk import full_disk
from tests.integration.databases import Databases


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lines_of(folder: Path, table: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / f"{table}.jsonl").read_text("utf-8").split("\n") if line]


@pytest.mark.any_database
def test_a_frozen_round_holds_every_example_with_its_verdict_votes_and_split(
    campaign: Campaign, tmp_path: Path
) -> None:
    frozen = campaign.freeze(open_archives(str(tmp_path)))
    folder = Path(frozen.where)
    first = lines_of(folder, "examples")[3]
    assert frozen.rows == {"examples": 40, "votes": 70, "attempts": 40, "contexts": 1, "models": 2}
    assert (first["text"], first["why_right"]) == (text_of(3), "Because.")
    assert (first["label"], first["gold_label"], first["status"]) == ("negative", "negative", "verified")
    assert first["split"] in ("train", "held_out")
    assert [said["version"] for said in first["verdicts"]] == list(campaign.versions)  # type: ignore[attr-defined]
    assert [vote["label"] for vote in first["votes"]] == ["negative", "negative", None]  # type: ignore[attr-defined]
    assert first["votes"][2]["flag"] == 'It says "nothing"'  # type: ignore[index]
    assert (first["submitted_at"], first["tries"]) == ("2027-03-01T12:00:03.123456Z", 1)


@pytest.mark.any_database
def test_only_verified_examples_have_a_split(campaign: Campaign, tmp_path: Path) -> None:
    folder = Path(campaign.freeze(open_archives(str(tmp_path))).where)
    told = {(row["status"], row["split"] is not None) for row in lines_of(folder, "examples")}
    assert told == {("verified", True), ("disputed", False), ("unchecked", False), ("withdrawn", False)}


@pytest.mark.any_database
def test_an_archive_names_workers_only_by_pseudonyms_that_can_be_joined(campaign: Campaign, tmp_path: Path) -> None:
    folder = Path(campaign.freeze(open_archives(str(tmp_path))).where)
    with campaign.store.read() as session:
        ids = [worker.external_id.encode() for worker in session.scalars(select(Worker))]
    assert len(ids) > 6
    assert not [name for name, content in bytes_of(folder).items() for one in ids if b'"' + one + b'"' in content]
    authors = {row["author"] for row in lines_of(folder, "examples")}
    assert len(authors) == 6
    assert {row["worker"] for row in lines_of(folder, "votes")} <= authors


def test_the_round_says_where_its_archive_is_and_who_froze_it(campaign: Campaign, tmp_path: Path) -> None:
    frozen = campaign.freeze(open_archives(str(tmp_path)), SettableClock(NOON + 91 * DAY))
    row = campaign.round
    assert (row.frozen_at, row.archive_sha256, row.archive_uri) == (NOON + 91 * DAY, frozen.sha256, frozen.where)
    with campaign.store.read() as session:
        of_round = select(AuditEntry).where(AuditEntry.round_id == row.id)
        entries = session.scalars(of_round.order_by(AuditEntry.id)).all()
    assert [entry.action for entry in entries[-2:]] == ["split", "frozen"]
    assert {entry.actor for entry in entries[-2:]} == {"ada"}


@pytest.mark.any_database
def test_a_second_freeze_is_byte_identical_there_and_elsewhere(campaign: Campaign, tmp_path: Path) -> None:
    first = campaign.freeze(open_archives(str(tmp_path / "one")))
    content = bytes_of(Path(first.where))
    again = campaign.freeze(open_archives(str(tmp_path / "one")), SettableClock(NOON + 99 * DAY))
    elsewhere = campaign.freeze(open_archives(str(tmp_path / "two")), SettableClock(NOON + 99 * DAY))
    assert again.already
    assert content == bytes_of(Path(first.where)) == bytes_of(Path(elsewhere.where))
    assert campaign.round.archive_uri == first.where


@pytest.mark.any_database
def test_contexts_are_read_some_at_a_time_by_their_ids(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        task = session.get_one(Task, campaign.task.id)
        for number in (7, 3, 9, 1, 5):
            fields = {**campaign.context.fields, "prompt": f"Prompt {number}."}
            context = Context(public_id=UUID(int=number), task_id=task.id, key=f"ä{number}", fields=fields, extra={},
                              position=100 + number, created_at=NOON)  # fmt: skip
            session.add(context)
            session.flush()
            campaign.add_late_attempt(session, 4_000 + number, context_id=context.id)
        rows = RoundRows(session, task, campaign.round, rules=ArchiveRules(1_000, 1_000), batch=2)
        for _ in (*rows.examples(), *rows.attempts()):
            pass
        batches = list(rows.contexts())
    assert [batch.num_rows for batch in batches] == [2, 2, 2]
    keys = [key for batch in batches for key in batch["id"].to_pylist()]
    assert keys == [campaign.context.key, "ä1", "ä3", "ä5", "ä7", "ä9"]
    assert batches[2]["prompt"].to_pylist() == ["Prompt 7.", "Prompt 9."]


@pytest.mark.any_database
def test_the_next_freeze_repairs_corrupt_and_missing_files(campaign: Campaign, tmp_path: Path) -> None:
    folder = Path(campaign.freeze(open_archives(str(tmp_path))).where)
    content = bytes_of(folder)
    (folder / "votes.jsonl").write_text("spoiled")
    (folder / "models.parquet").unlink()
    campaign.freeze(open_archives(str(tmp_path)))
    assert bytes_of(folder) == content


@pytest.mark.parametrize("name", ["sentiment", "nli", "qa"])
def test_both_databases_and_rows_in_any_order_give_the_same_bytes(
    name: str, sqlite_databases: Databases, postgresql_databases: Databases, tmp_path: Path
) -> None:
    contents: list[dict[str, bytes]] = []
    for databases, backwards in ((sqlite_databases, False), (sqlite_databases, True), (postgresql_databases, True)):
        with open_store(databases.migrated()) as store:
            campaign = start_closed(store, name, backwards=backwards)
            place = tmp_path / str(len(contents))
            contents.append(bytes_of(Path(campaign.freeze(open_archives(str(place))).where)))
    assert contents[0] == contents[1] == contents[2]


def test_two_concurrent_freezes_create_one_archive(campaign: Campaign, tmp_path: Path) -> None:
    done: list[str] = []

    def run() -> None:
        with open_store(campaign.store.engine.url.render_as_string(hide_password=False)) as own:
            archives = open_archives(str(tmp_path))
            context, task = ServiceContext(own, SettableClock()), campaign.task.name
            done.append(freeze_round(context, Actor("ada"), task, archives, number=campaign.round.number).sha256)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == [campaign.round.archive_sha256] * 2
    assert [path.name for path in (tmp_path / "sentiment").iterdir()] == ["round-1"]


class Dies(SettableClock):
    """A clock that kills the process when it is read for the n-th time."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    def now(self) -> datetime:
        self._looks -= 1
        if self._looks < 0:
            raise SystemExit
        return super().now()


@pytest.mark.parametrize("looks", [0, 1])
def test_the_next_freeze_finishes_a_killed_one(campaign: Campaign, tmp_path: Path, looks: int) -> None:
    with pytest.raises(SystemExit):
        campaign.freeze(open_archives(str(tmp_path)), Dies(looks))
    assert campaign.round.frozen_at is None
    frozen = campaign.freeze(open_archives(str(tmp_path)))
    assert not frozen.already
    assert campaign.round.archive_sha256 == frozen.sha256
    assert verify(Path(frozen.where)).problems == ()


@pytest.mark.any_database
@pytest.mark.parametrize("most_bytes", [2, 5_000, 20_000])
def test_a_full_disk_leaves_no_archive_no_draft_and_an_unfrozen_round(
    store: Store, tmp_path: Path, most_bytes: int
) -> None:
    campaign = start_closed(store)
    kept = campaign.freeze(open_archives(str(tmp_path / "kept")))
    other = campaign.next_closed_round()
    split_round(ServiceContext(store, SettableClock()), Actor("ada"), other.round_id)
    with full_disk(most_bytes), pytest.raises(ArchiveError, match="File too large"):
        other.freeze(open_archives(str(tmp_path / "kept")))
    assert [path.name for path in Path(kept.where).parent.iterdir()] == ["round-1"]
    assert other.round.frozen_at is None
    other.freeze(open_archives(str(tmp_path / "kept")))


@pytest.mark.any_database
def test_a_full_disk_leaves_no_empty_archive_folders(campaign: Campaign, tmp_path: Path) -> None:
    split_round(ServiceContext(campaign.store, SettableClock()), Actor("ada"), campaign.round_id)
    (tmp_path / "mine").mkdir()
    for place in (tmp_path / "new" / "place", tmp_path / "mine"):
        with full_disk(5_000), pytest.raises(ArchiveError):
            campaign.freeze(open_archives(str(place)))
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["mine"]


@pytest.mark.any_database
def test_a_full_disk_during_the_duplicate_search_leaves_the_round_unchanged(campaign: Campaign, tmp_path: Path) -> None:
    campaign.forget_duplicates()
    with full_disk(2), pytest.raises(ArchiveError, match="File too large"):
        campaign.freeze(open_archives(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
    with campaign.store.read() as session:
        assert session.scalars(select(Example.split).distinct()).all() == [None]


@pytest.mark.any_database
def test_a_round_that_is_open_is_not_frozen(store: Store, tmp_path: Path) -> None:
    campaign = start_campaign(store)
    context, archives = ServiceContext(store, SettableClock()), open_archives(str(tmp_path))
    with pytest.raises(RoundNotClosed):
        freeze_round(context, Actor("ada"), campaign.task.name, archives, number=campaign.round.number)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.any_database
def test_a_round_that_is_being_validated_need_not_be_closed_again(store: Store, tmp_path: Path) -> None:
    campaign = start_campaign(store)
    campaign.mark_validating()
    context, archives = ServiceContext(store, SettableClock()), open_archives(str(tmp_path))
    for number in (None, campaign.round.number):
        with pytest.raises(RoundNotClosed) as caught:
            freeze_round(context, Actor("ada"), campaign.task.name, archives, number=number)
        assert caught.value.hint == Hint("show_status")


@pytest.mark.any_database
def test_another_archive_in_its_place_is_never_replaced(campaign: Campaign, tmp_path: Path) -> None:
    folder = tmp_path / "sentiment" / "round-1"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(ArchiveConflict):
        campaign.freeze(open_archives(str(tmp_path)))
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    with campaign.store.read() as session:
        assert session.get_one(Round, campaign.round_id).frozen_at is None
