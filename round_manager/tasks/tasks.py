"""Tasks: created from packs and updated as often as their owner likes."""

import secrets
from datetime import datetime
from difflib import get_close_matches

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from common.errors import Hint
from ml_backend.hashing import json_sha256
from round_manager import audit
from round_manager.database.engine import find_or_add
from round_manager.errors import TaskError, TaskNotFound
from round_manager.models import Round, RoundStatus, Task
from round_manager.novelty.known_texts import lock_texts, update_seed
from round_manager.tasks.contexts import update_contexts
from round_manager.tasks.gold import retire_published
from round_manager.tasks.rounds import draft_round
from templates import Pack, pack_folders

SALT_BYTES = 32
BY_PACK = "outfox task create"
BUDGET_CHANGED = "the pack has another budget for a round"


def create_task(session: Session, pack: Pack, *, now: datetime, actor: str = BY_PACK) -> Task:
    """Create or update the pack's task with its contexts and first draft; safe to repeat.

    Opened rounds keep the terms that they were opened with. A draft keeps the budget that its owner set until the pack
    asks for another one.
    """
    known = select(Task).where(Task.name == pack.spec.name).with_for_update(key_share=True)
    task = find_or_add(session, known, lambda: _new(pack, now))
    _update(session, task, pack, actor=actor, now=now)
    session.flush()
    update_contexts(session, task, pack.contexts, now=now)
    retire_published(session, task, pack.seed, now=now)
    # Examples are compared with the seed.
    lock_texts(session, [task.id])
    update_seed(session, task.id, pack.spec, [(row.id, row.fields) for row in pack.seed])
    if not session.scalar(select(exists().where(Round.task_id == task.id))):
        draft_round(session, task, now=now)
    return task


def find_task(session: Session, name: str) -> Task:
    """Return the task of that name; raise TaskNotFound if there is none."""
    task = session.scalar(select(Task).where(Task.name == name))
    if task is None:
        raise _not_found(session, name)
    return task


def list_tasks(session: Session) -> list[Task]:
    """Return every task by name."""
    return list(session.scalars(select(Task).order_by(Task.name)))


def _not_found(session: Session, name: str) -> TaskNotFound:
    text = f"there is no task `{name}`"
    if name in {folder.name for folder in pack_folders()}:
        return TaskNotFound(text, hint=Hint("create_task", pack=name))
    known = session.scalars(select(Task.name)).all()
    if not known:
        return TaskNotFound(f"{text}, nor any other", hint=Hint("list_packs"))
    near = get_close_matches(name, known, n=1)
    return TaskNotFound(f"{text}; did you mean `{near[0]}`?" if near else text, hint=Hint("list_tasks"))


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


def _update(session: Session, task: Task, pack: Pack, *, actor: str, now: datetime) -> None:
    spec = pack.spec.model_dump(mode="json")
    rounds = session.scalars(select(Round).where(Round.task_id == task.id)).all()
    begun = [one for one in rounds if one.status is not RoundStatus.DRAFT]
    if begun and task.spec.get("kind") != pack.spec.kind:
        raise TaskError(f"task {task.name} has opened rounds of another kind; copy the pack under another name")
    bound = task.reserved_cents + task.owed_cents + task.sent_cents
    if pack.spec.budget.task_cents < bound:
        text = f"task {task.name} already has {bound} cents reserved or spent"
        raise TaskError(f"{text}; raise budget.task_cents, which is {pack.spec.budget.task_cents}")
    task.folder = str(pack.folder)
    task.budget_cents = pack.spec.budget.task_cents
    # Compared by hash: setting an equal JSON value would still write it, and triggers check every write.
    if task.spec_sha256 != json_sha256(spec):
        task.spec, task.spec_sha256 = spec, json_sha256(spec)
    for draft in rounds:
        if draft.status is RoundStatus.DRAFT:
            _update_draft(session, draft, task, pack, actor=actor, now=now)


def _update_draft(session: Session, draft: Round, task: Task, pack: Pack, *, actor: str, now: datetime) -> None:
    draft.target_fooling = pack.spec.rounds.target_fooling
    before, asked = draft.budget_cents, pack.spec.budget.round_cents
    # The draft has the pack's previous terms: a difference was made in the pack, not by the owner in the draft.
    if draft.spec["budget"]["round_cents"] != asked and before != asked:
        draft.budget_cents = asked
        note = {"before": {"budget_cents": before}, "after": {"budget_cents": asked}}
        audit.note(session, "changed the budget", draft, actor=actor, reason=BUDGET_CHANGED, now=now, of=draft, **note)
    if draft.spec_sha256 != task.spec_sha256:
        draft.spec, draft.spec_sha256 = task.spec, task.spec_sha256
