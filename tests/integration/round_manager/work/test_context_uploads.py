"""Uploaded contexts: a file is stored completely or not at all, and adds to the pack's contexts or replaces them."""

from collections.abc import Iterable, Sequence

import pytest
from sqlalchemy import select

from round_manager.models import AuditEntry, Context
from round_manager.tasks.contexts import count_contexts, list_contexts, update_contexts
from round_manager.work.context_uploads import ContextsUploaded, upload_contexts
from templates.errors import PackError, Problem
from templates.rows import Context as PackContext
from tests.fakes.contexts import live_contexts
from tests.integration.round_manager.season import DAY, OWNER, Season

LABELS = ("negative", "neutral", "positive")


def row(key: str, text: str = "", **extra: str) -> PackContext:
    return PackContext(key, {"prompt": text or f"Write about {key}."}, LABELS, extra)


def upload(season: Season, rows: Iterable[PackContext], *, replace: bool = False) -> ContextsUploaded:
    with season.store.write() as session:
        now = season.floor.now
        return upload_contexts(session, season.floor.task, rows, replace=replace, actor=OWNER, reason="more", now=now)


def bring_up_to_date(season: Season, rows: Sequence[PackContext]) -> None:
    """As `outfox task create` does."""
    with season.store.write() as session:
        update_contexts(session, season.floor.task, rows, now=season.floor.now)


def given_out(season: Season) -> list[str]:
    with season.store.read() as session:
        return [one.key for one in live_contexts(session, season.floor.task.id)]


def snapshot(season: Season) -> list[tuple[object, ...]]:
    return [
        (one.key, one.position, one.retired_at, one.created_at, one.fields, one.extra)
        for one in season.floor.rows(Context)
    ]


def test_uploaded_contexts_follow_the_packs_in_the_order_of_the_file(season: Season) -> None:
    pack = given_out(season)
    assert upload(season, [row("b"), row("a", source="me")]) == ContextsUploaded(added=2)
    assert given_out(season) == [*pack, "b", "a"]
    with season.store.read() as session:
        last = list_contexts(session, season.floor.task.id, most=100)[-1]
        assert count_contexts(session, season.floor.task.id) == len(pack) + 2
    assert (last.context, last.origin, last.used) == (row("a", source="me"), "upload", 0)
    (entry,) = season.floor.rows(AuditEntry, AuditEntry.subject == "task")
    assert (entry.actor, entry.action, entry.reason, entry.after["added"]) == (OWNER, "uploaded contexts", "more", 2)


@pytest.mark.parametrize("replace", [False, True])
def test_uploading_the_same_file_again_changes_nothing(season: Season, *, replace: bool) -> None:
    rows = [row(f"c{number}") for number in range(1_100)]
    upload(season, rows, replace=replace)
    before = snapshot(season)
    season.floor.clock.advance(DAY)
    assert upload(season, rows, replace=replace) == ContextsUploaded(unchanged=1_100)
    assert snapshot(season) == before
    assert len(season.floor.rows(AuditEntry, AuditEntry.subject == "task")) == 1


def test_a_mistake_late_in_a_file_stores_nothing(season: Season) -> None:
    def broken() -> Iterable[PackContext]:
        yield from (row(f"c{number}") for number in range(700))
        raise PackError([Problem("contexts.csv", 702, "text_missing", "has no text")])

    before = snapshot(season)
    with pytest.raises(PackError, match=r"contexts\.csv:702"):
        upload(season, broken(), replace=True)
    assert snapshot(season) == before
    assert season.floor.rows(AuditEntry, AuditEntry.subject == "task") == []


def test_replacing_retires_contexts_missing_from_the_file_and_uses_its_order(season: Season) -> None:
    pack = given_out(season)
    upload(season, [row("a"), row("b"), row("c")])
    assert upload(season, [row("c"), row("new"), row("a")], replace=True) == ContextsUploaded(
        added=1, unchanged=2, retired=len(pack) + 1
    )
    assert given_out(season) == ["c", "new", "a"]
    assert upload(season, [row("b"), row("a")], replace=True) == ContextsUploaded(
        brought_back=1, unchanged=1, retired=2
    )
    assert given_out(season) == ["b", "a"]


def test_a_changed_text_replaces_the_old_one_and_can_be_restored(season: Season) -> None:
    upload(season, [row("a", "One."), row("b")], replace=True)
    assert upload(season, [row("a", "Two.")]) == ContextsUploaded(added=1, retired=1)
    assert upload(season, [row("a", "Three.")]) == ContextsUploaded(added=1, retired=1)
    assert [text(season, key) for key in given_out(season)] == ["Write about b.", "Three."]
    assert upload(season, [row("a", "One.")]) == ContextsUploaded(brought_back=1, retired=1)
    assert given_out(season) == ["a", "b"]


def text(season: Season, key: str) -> str:
    (found,) = season.floor.rows(Context, Context.key == key)
    return str(found.fields["prompt"])


def test_updating_the_pack_keeps_uploaded_contexts(season: Season) -> None:
    pack = [row("p1"), row("p2")]
    bring_up_to_date(season, pack)
    upload(season, [row("mine"), row("p2")])
    bring_up_to_date(season, pack)
    assert given_out(season) == ["p1", "p2", "mine"]
    # The upload has p2 too, so it stays when the pack changes.
    bring_up_to_date(season, [row("p3")])
    assert given_out(season) == ["p3", "p2", "mine"]
    before = snapshot(season)
    bring_up_to_date(season, [row("p3")])
    assert snapshot(season) == before


def test_contexts_replaced_by_an_upload_do_not_return_with_the_pack(season: Season) -> None:
    pack = [row("p1"), row("p2", "One.")]
    bring_up_to_date(season, pack)
    upload(season, [row("p2", "Two.")])
    upload(season, [row("p2", "Two."), row("mine")], replace=True)
    bring_up_to_date(season, pack)
    assert [text(season, key) for key in given_out(season)] == ["Two.", "Write about mine."]
    # Contexts that the owner adds to the pack afterwards are new.
    bring_up_to_date(season, [*pack, row("p3")])
    assert given_out(season)[0] == "p3"
    # Contexts that are uploaded again are active again.
    upload(season, [row("p1")])
    assert "p1" in given_out(season)


def test_a_worker_can_finish_a_retired_context(season: Season) -> None:
    page = season.floor.open("W1")
    upload(season, [row("mine")], replace=True)
    (example,) = season.floor.write_all(page)
    with season.store.read() as session:
        retired = session.scalars(select(Context.id).where(Context.retired_at.is_not(None))).all()
    assert example.context_id in retired
    assert season.floor.context(season.floor.open("W2")).key == "mine"
