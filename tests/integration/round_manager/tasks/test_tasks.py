import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from common.errors import Hint
from round_manager.database.store import Store
from round_manager.errors import StoredSpecInvalid, TaskError, TaskNotFound
from round_manager.models import AuditEntry, Context, GoldItem, Round, RoundStatus, Task, spec_of
from round_manager.money.budget import set_round_budget
from round_manager.tasks.contexts import pack_context
from round_manager.tasks.rounds import draft_round, list_rounds
from round_manager.tasks.tasks import create_task, find_task, list_tasks
from templates import find_pack, load_pack
from tests.campaign import Campaign
from tests.conftest import PACKS, replace_in
from tests.fakes.clock import NOON
from tests.fakes.contexts import live_contexts
from tests.fakes.gold import update_gold

CopyOf = Callable[[str], Path]


def create(store: Store, folder: Path, later: int = 0) -> Task:
    with store.write() as session:
        return create_task(session, load_pack(folder), actor="ada@here", now=NOON + timedelta(hours=later))


def shown(store: Store, task: Task) -> list[tuple[str, str]]:
    with store.read() as session:
        return [(row.key, next(iter(row.fields.values()))) for row in live_contexts(session, task.id)]


def rewrite(folder: Path, rows: list[dict[str, object]]) -> None:
    (folder / "contexts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_is_stored_completely_and_returns_its_spec(store: Store, name: str) -> None:
    pack = find_pack(name)
    with store.write() as session:
        create_task(session, pack, now=NOON)
    with store.read() as session:
        task = find_task(session, name)
        (draft,) = list_rounds(session, task)
        contexts = live_contexts(session, task.id)
    assert spec_of(task) == spec_of(draft) == pack.spec
    assert (draft.number, draft.status, draft.budget_cents) == (1, RoundStatus.DRAFT, pack.spec.budget.round_cents)
    assert task.budget_cents == pack.spec.budget.task_cents
    assert [pack_context(row) for row in contexts] == list(pack.contexts)


@pytest.mark.any_database
def test_creating_a_task_again_changes_nothing(store: Store) -> None:
    pack = find_pack("nli")
    with store.write() as session:
        first = create_task(session, pack, now=NOON)
    with store.write() as session:
        again = create_task(session, pack, now=NOON + timedelta(hours=1))
        assert not session.dirty
        assert [one.number for one in list_rounds(session, again)] == [1]
        assert {row.created_at for row in session.scalars(select(Context))} == {NOON}
    assert (first.id, first.worker_salt, first.created_at) == (again.id, again.worker_salt, again.created_at)


def test_a_changed_pack_changes_the_task_and_its_draft_but_no_round_that_was_opened(
    campaign: Campaign, copy_of: CopyOf
) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", f"title: {campaign.spec.title}", "title: Another title")
    task = create(campaign.store, folder)
    with campaign.store.write() as session:
        live = session.get_one(Round, campaign.round_id)
        assert spec_of(task).title == "Another title"
        assert spec_of(live).title == campaign.spec.title
        draft = draft_round(session, find_task(session, "sentiment"), now=NOON)
        assert (draft.number, spec_of(draft).title) == (2, "Another title")
    replace_in(folder / "task.yaml", "title: Another title", "title: A third title")
    create(campaign.store, folder)
    with campaign.store.read() as session:
        opened, draft = list_rounds(session, find_task(session, "sentiment"))
    assert (spec_of(opened).title, spec_of(draft).title) == (campaign.spec.title, "A third title")


def test_the_owners_budget_for_a_draft_stays_until_the_pack_changes_it(store: Store, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    cents = load_pack(folder).spec.budget.round_cents

    def budgets() -> tuple[int, list[tuple[str, str, int]]]:
        with store.read() as session:
            (draft,) = list_rounds(session, find_task(session, "sentiment"))
            noted = session.scalars(select(AuditEntry).where(AuditEntry.subject == "round").order_by(AuditEntry.id))
            return draft.budget_cents, [(one.actor, one.action, (one.after or {})["budget_cents"]) for one in noted]

    create(store, folder)
    with store.write() as session:
        task = find_task(session, "sentiment")
        (draft,) = list_rounds(session, task)
        set_round_budget(session, task, draft, 500, actor="owner", reason="a trial", now=NOON)
    mine = ("owner", "changed the budget", 500)
    create(store, folder)
    replace_in(folder / "task.yaml", f"title: {load_pack(folder).spec.title}", "title: Another title")
    create(store, folder)
    assert budgets() == (500, [mine])
    replace_in(folder / "task.yaml", f"round_cents: {cents}", f"round_cents: {cents + 1}")
    create(store, folder)
    create(store, folder)
    assert budgets() == (cents + 1, [mine, ("ada@here", "changed the budget", cents + 1)])


@pytest.mark.any_database
def test_a_context_whose_text_changed_is_retired_and_the_new_text_is_another_context(
    store: Store, copy_of: CopyOf
) -> None:
    folder = copy_of("sentiment")
    field = next(iter(load_pack(folder).contexts[0].fields))
    rows: list[dict[str, object]] = [{"id": f"c{number}", field: f"text {number}"} for number in range(3)]
    rewrite(folder, rows)
    task = create(store, folder)
    assert shown(store, task) == [("c0", "text 0"), ("c1", "text 1"), ("c2", "text 2")]
    rows[1][field] = "something else"
    rewrite(folder, rows)
    create(store, folder, later=1)
    (first, changed, last) = shown(store, task)
    assert (first[0], last[0], changed[1]) == ("c0", "c2", "something else")
    assert changed[0].startswith("c1@")
    rows[1][field] = "text 1"
    rewrite(folder, rows)
    create(store, folder, later=2)
    assert shown(store, task) == [("c0", "text 0"), ("c1", "text 1"), ("c2", "text 2")]
    with store.read() as session:
        retired = session.scalars(select(Context).where(Context.retired_at.is_not(None))).all()
    assert [row.fields[field] for row in retired] == ["something else"]


def test_contexts_can_be_put_in_another_order_removed_and_added(store: Store, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    field = next(iter(load_pack(folder).contexts[0].fields))
    rows: list[dict[str, object]] = [{"id": f"c{number}", field: f"text {number}"} for number in range(4)]
    rewrite(folder, rows)
    task = create(store, folder)
    rewrite(folder, [{"id": "new", field: "new text"}, rows[3], rows[0], rows[2]])
    create(store, folder)
    assert [key for key, _ in shown(store, task)] == ["new", "c3", "c0", "c2"]
    with store.read() as session:
        assert [one.key for one in session.scalars(select(Context).where(Context.retired_at.is_not(None)))] == ["c1"]


def test_no_seed_row_becomes_gold_and_gold_that_enters_the_seed_is_retired(store: Store) -> None:
    pack = find_pack("sentiment")
    with store.write() as session:
        task = create_task(session, pack, now=NOON)
        assert session.scalars(select(GoldItem)).all() == []
        published = [replace(pack.seed[0], id="mine"), replace(pack.seed[0], id="own", fields={"text": "Mine alone."})]
        assert update_gold(session, task, published, now=NOON) == 2
        create_task(session, pack, now=NOON)
        items = session.scalars(select(GoldItem).where(GoldItem.retired_at.is_(None))).all()
    assert [one.key.rpartition("@")[0] for one in items] == ["own"]


@pytest.mark.any_database
def test_the_kind_of_a_task_with_rounds_stays(campaign: Campaign, tmp_path: Path, copy_of: CopyOf) -> None:
    folder = copy_of("qa").rename(tmp_path / "sentiment")
    replace_in(folder / "task.yaml", "name: qa", "name: sentiment")
    with pytest.raises(TaskError):
        create(campaign.store, folder)


@pytest.mark.any_database
def test_a_missing_task_has_a_hint_to_create_it(store: Store) -> None:
    with store.read() as session:
        assert list_tasks(session) == []
        with pytest.raises(TaskNotFound) as caught:
            find_task(session, "sentiment")
    assert caught.value.hint == Hint("create_task", pack="sentiment")


@pytest.mark.any_database
def test_a_stored_spec_of_an_unknown_kind_is_refused(campaign: Campaign) -> None:
    campaign.task.spec = {**campaign.task.spec, "kind": "regression"}
    with pytest.raises(StoredSpecInvalid, match="kind"):
        spec_of(campaign.task)
