"""Tasks: packs made live, brought up to date as often as their owner likes."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from round_manager import audit
from round_manager.errors import DuplicateError, TaskError
from round_manager.models import GoldItem, Round, RoundStatus, Task
from round_manager.specs import spec_of
from round_manager.tasks.contexts import update_contexts
from round_manager.tasks.rounds import draft_round
from templates import Pack, pack_folders
from templates.contract import judged_fields
from templates.rows import SeedRow

SALT_BYTES = 32
BY_COMMAND = "outfox task create"
WHY_CHANGED = "the pack has another budget for a round"


def create_task(session: Session, pack: Pack, *, now: datetime, who: str = BY_COMMAND) -> Task:
    """The pack's task, made or brought up to date, with its contexts, gold and first round; safe to run again.

    Rounds that were opened keep the terms that they were opened with, and a draft the budget that its owner gave it,
    until the pack itself asks for another.
    """
    known = select(Task).where(Task.name == pack.spec.name).with_for_update(key_share=True)
    task = session.scalar(known)
    if task is None:
        try:
            with session.begin_nested():
                task = _new(pack, now)
                session.add(task)
        except DuplicateError:  # Another process made it at this moment.
            task = session.scalars(known).one()
    _update(session, task, pack, who=who, now=now)
    session.flush()
    update_contexts(session, task, pack.contexts, now=now)
    # What nobody trains on, workers can be asked about: no model in the loop has learnt it either.
    update_gold(session, task, [row for row in pack.seed if row.split == "held_out"], now=now)
    if not session.scalar(select(exists().where(Round.task_id == task.id))):
        draft_round(session, task, now=now)
    return task


def find_task(session: Session, name: str) -> Task:
    """The task of that name, or a TaskError that tells how to find or make it."""
    task = session.scalar(select(Task).where(Task.name == name))
    if task is None:
        raise TaskError(f"there is no task `{name}`; {_cure(session, name)}")
    return task


def list_tasks(session: Session) -> list[Task]:
    """Every task, by name."""
    return list(session.scalars(select(Task).order_by(Task.name)))


def _cure(session: Session, name: str) -> str:
    if name in {folder.name for folder in pack_folders()}:
        return f"`outfox task create {name}` makes it"
    known = session.scalars(select(Task.name)).all()
    if not known:
        return "`outfox task create PACK` makes one, and `outfox templates list` shows the packs"
    near = get_close_matches(name, known, n=1)
    meant = f"did you mean `{near[0]}`? " if near else ""
    return f"{meant}`outfox task list` shows those that there are"


def _new(pack: Pack, now: datetime) -> Task:
    spec = pack.spec.model_dump(mode="json")
    return Task(
        name=pack.spec.name,
        folder=str(pack.folder),
        spec=spec,
        spec_sha256=json_sha256(spec),
        worker_salt=secrets.token_hex(SALT_BYTES),
        budget_cents=pack.spec.budget.task_cents,
        created_at=now,
    )


def _update(session: Session, task: Task, pack: Pack, *, who: str, now: datetime) -> None:
    spec = pack.spec.model_dump(mode="json")
    rounds = session.scalars(select(Round).where(Round.task_id == task.id)).all()
    begun = [one for one in rounds if one.status is not RoundStatus.DRAFT]
    if begun and task.spec.get("kind") != pack.spec.kind:
        raise TaskError(f"task {task.name} has rounds of another kind; copy the pack under another name")
    bound = task.reserved_cents + task.owed_cents + task.sent_cents
    if pack.spec.budget.task_cents < bound:
        text = f"task {task.name} has {bound} cents reserved or spent already"
        raise TaskError(f"{text}; raise budget.task_cents, which is {pack.spec.budget.task_cents}")
    task.folder = str(pack.folder)
    task.budget_cents = pack.spec.budget.task_cents
    # Compared by hash: a JSON value that is set again is written again, and guards look at what is written.
    if task.spec_sha256 != json_sha256(spec):
        task.spec, task.spec_sha256 = spec, json_sha256(spec)
    for draft in rounds:
        if draft.status is RoundStatus.DRAFT:
            _update_draft(session, draft, task, pack, who=who, now=now)


def _update_draft(session: Session, draft: Round, task: Task, pack: Pack, *, who: str, now: datetime) -> None:
    draft.target_fooling = pack.spec.rounds.target_fooling
    before, asked = draft.budget_cents, pack.spec.budget.round_cents
    # The draft has the pack's terms as they were: what differs from them was changed there, not by the owner here.
    if draft.spec["budget"]["round_cents"] != asked and before != asked:
        draft.budget_cents = asked
        note = {"before": {"budget_cents": before}, "after": {"budget_cents": asked}}
        audit.note(session, "changed the budget", draft, who=who, why=WHY_CHANGED, now=now, of=draft, **note)
    if draft.spec_sha256 != task.spec_sha256:
        draft.spec, draft.spec_sha256 = task.spec, task.spec_sha256


LONGEST_ID = 180


def update_gold(session: Session, task: Task, rows: Sequence[SeedRow], *, now: datetime) -> int:
    """The task's gold items are these rows; others are retired. Rows that lack what people judge are passed over."""
    judged = judged_fields(spec_of(task))
    known = {row.key: row for row in session.scalars(select(GoldItem).where(GoldItem.task_id == task.id))}
    live = set()
    for row in rows:
        if not set(judged) <= set(row.fields):
            continue
        fields = {name: row.fields[name] for name in judged}
        answer = _answer(row)
        key = f"{row.id[:LONGEST_ID]}@{json_sha256([fields, row.label, answer])[:12]}"
        if key not in known:
            known[key] = GoldItem(
                task_id=task.id, key=key, fields=fields, label=row.label, answer=answer, created_at=now
            )
            session.add(known[key])
        live.add(key)
    for key, item in known.items():
        item.retired_at = None if key in live else item.retired_at or now
    session.flush()
    return len(live)


def _answer(row: SeedRow) -> dict[str, Any] | None:
    if row.answer is None or row.answer_start is None:
        return None
    return {"text": row.answer, "start": row.answer_start, "end": row.answer_start + len(row.answer)}
