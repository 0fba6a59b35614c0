"""Uploaded contexts: a file is stored completely or not at all, and adds to the pack's contexts or replaces them."""

from collections.abc import Iterable, Sequence

import pytest
from sqlalchemy import select

from round_manager.models import AuditEntry, Context
from round_manager.tasks.contexts import count_contexts, list_contexts, update_contexts
from round_manager.work.context_uploads import ContextsUploaded, upload_contexts
from templates.errors import PackError, Problem
from templates.rows import Context as PackContext
from tests.campaign import DAY, OWNER, Campaign
from tests.fakes.contexts import live_contexts

LABELS = ("negative", "neutral", "positive")


def row(key: str, text: str = "", **extra: str) -> PackContext:
    return PackContext(key, {"prompt": text or f"Write about {key}."}, LABELS, extra)


def upload(campaign: Campaign, rows: Iterable[PackContext], *, replace: bool = False) -> ContextsUploaded:
    with campaign.store.write() as session:
        now = campaign.now
        return upload_contexts(session, campaign.task, rows, replace=replace, actor=OWNER, reason="more", now=now)


def bring_up_to_date(campaign: Campaign, rows: Sequence[PackContext]) -> None:
    """As `outfox task create` does."""
    with campaign.store.write() as session:
        update_contexts(session, campaign.task, rows, now=campaign.now)


def given_out(campaign: Campaign) -> list[str]:
    with campaign.store.read() as session:
        return [one.key for one in live_contexts(session, campaign.task.id)]


def snapshot(campaign: Campaign) -> list[tuple[object, ...]]:
    return [
        (one.key, one.position, one.retired_at, one.created_at, one.fields, one.extra) for one in campaign.rows(Context)
    ]


def test_uploaded_contexts_follow_the_packs_in_the_order_of_the_file(campaign: Campaign) -> None:
    pack = given_out(campaign)
    assert upload(campaign, [row("b"), row("a", source="me")]) == ContextsUploaded(added=2)
    assert given_out(campaign) == [*pack, "b", "a"]
    with campaign.store.read() as session:
        last = list_contexts(session, campaign.task.id, most=100)[-1]
        assert count_contexts(session, campaign.task.id) == len(pack) + 2
    assert (last.context, last.origin, last.used) == (row("a", source="me"), "upload", 0)
    (entry,) = campaign.rows(AuditEntry, AuditEntry.subject == "task")
    assert (entry.actor, entry.action, entry.reason, entry.after["added"]) == (OWNER, "uploaded contexts", "more", 2)


@pytest.mark.parametrize("replace", [False, True])
def test_uploading_the_same_file_again_changes_nothing(campaign: Campaign, *, replace: bool) -> None:
    rows = [row(f"c{number}") for number in range(1_100)]
    upload(campaign, rows, replace=replace)
    before = snapshot(campaign)
    campaign.clock.advance(DAY)
    assert upload(campaign, rows, replace=replace) == ContextsUploaded(unchanged=1_100)
    assert snapshot(campaign) == before
    assert len(campaign.rows(AuditEntry, AuditEntry.subject == "task")) == 1


def test_a_mistake_late_in_a_file_stores_nothing(campaign: Campaign) -> None:
    def broken() -> Iterable[PackContext]:
        yield from (row(f"c{number}") for number in range(700))
        raise PackError([Problem("contexts.csv", 702, "text_missing", "has no text")])

    before = snapshot(campaign)
    with pytest.raises(PackError, match=r"contexts\.csv:702"):
        upload(campaign, broken(), replace=True)
    assert snapshot(campaign) == before
    assert campaign.rows(AuditEntry, AuditEntry.subject == "task") == []


def test_replacing_retires_contexts_missing_from_the_file_and_uses_its_order(campaign: Campaign) -> None:
    pack = given_out(campaign)
    upload(campaign, [row("a"), row("b"), row("c")])
    assert upload(campaign, [row("c"), row("new"), row("a")], replace=True) == ContextsUploaded(
        added=1, unchanged=2, retired=len(pack) + 1
    )
    assert given_out(campaign) == ["c", "new", "a"]
    assert upload(campaign, [row("b"), row("a")], replace=True) == ContextsUploaded(
        brought_back=1, unchanged=1, retired=2
    )
    assert given_out(campaign) == ["b", "a"]


def test_a_changed_text_replaces_the_old_one_and_can_be_restored(campaign: Campaign) -> None:
    upload(campaign, [row("a", "One."), row("b")], replace=True)
    assert upload(campaign, [row("a", "Two.")]) == ContextsUploaded(added=1, retired=1)
    assert upload(campaign, [row("a", "Three.")]) == ContextsUploaded(added=1, retired=1)
    assert [text(campaign, key) for key in given_out(campaign)] == ["Write about b.", "Three."]
    assert upload(campaign, [row("a", "One.")]) == ContextsUploaded(brought_back=1, retired=1)
    assert given_out(campaign) == ["a", "b"]


def text(campaign: Campaign, key: str) -> str:
    (found,) = campaign.rows(Context, Context.key == key)
    return str(found.fields["prompt"])


def test_updating_the_pack_keeps_uploaded_contexts(campaign: Campaign) -> None:
    pack = [row("p1"), row("p2")]
    bring_up_to_date(campaign, pack)
    upload(campaign, [row("mine"), row("p2")])
    bring_up_to_date(campaign, pack)
    assert given_out(campaign) == ["p1", "p2", "mine"]
    # The upload has p2 too, so it stays when the pack changes.
    bring_up_to_date(campaign, [row("p3")])
    assert given_out(campaign) == ["p3", "p2", "mine"]
    before = snapshot(campaign)
    bring_up_to_date(campaign, [row("p3")])
    assert snapshot(campaign) == before


def test_contexts_replaced_by_an_upload_do_not_return_with_the_pack(campaign: Campaign) -> None:
    pack = [row("p1"), row("p2", "One.")]
    bring_up_to_date(campaign, pack)
    upload(campaign, [row("p2", "Two.")])
    upload(campaign, [row("p2", "Two."), row("mine")], replace=True)
    bring_up_to_date(campaign, pack)
    assert [text(campaign, key) for key in given_out(campaign)] == ["Two.", "Write about mine."]
    # Contexts that the owner adds to the pack afterwards are new.
    bring_up_to_date(campaign, [*pack, row("p3")])
    assert given_out(campaign)[0] == "p3"
    # Contexts that are uploaded again are active again.
    upload(campaign, [row("p1")])
    assert "p1" in given_out(campaign)


def test_a_worker_can_finish_a_retired_context(campaign: Campaign) -> None:
    page = campaign.open_page("W1")
    upload(campaign, [row("mine")], replace=True)
    (example,) = campaign.write_examples(page)
    with campaign.store.read() as session:
        retired = session.scalars(select(Context.id).where(Context.retired_at.is_not(None))).all()
    assert example.context_id in retired
    assert campaign.context_of(campaign.open_page("W2")).key == "mine"
