"""Contexts: what workers start from; a context never changes once it exists."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from round_manager.database.columns import public_id
from round_manager.models import Context, ContextTally, Round, Task, spec_of
from round_manager.novelty.known_texts import add_contexts
from templates.rows import Context as PackContext

LONGEST_ID = 180
TARGETS = "targets"
# A key in `extra`: whether an upload contains the context or replaced it. Updating the pack does not change either.
UPLOAD = "@upload"
KEPT, REPLACED = "kept", "replaced"


@dataclass(frozen=True)
class ContextUse:
    """A context, whether it comes from the pack or an upload, and how many examples on it there are and fooled."""

    context: PackContext
    origin: str
    used: int
    fooled: int


def update_contexts(session: Session, task: Task, contexts: Sequence[PackContext], *, now: datetime) -> None:
    """Make the task's contexts those of its pack, in its order, followed by uploaded ones; retire all others.

    If a text changed, the old context is retired and the new text gets a new key, so that restoring the old text
    restores the old context.
    """
    known = {row.key: row for row in session.scalars(select(Context).where(Context.task_id == task.id))}
    free = max((row.position for row in known.values()), default=-1) + 1
    live: list[Context] = []
    added: list[Context] = []
    for context in contexts:
        key = key_of(context, known.get(context.id))
        row = known.get(key)
        extra = extra_of(context)
        if row is not None and UPLOAD in row.extra:
            extra[UPLOAD] = row.extra[UPLOAD]
        if extra.get(UPLOAD) == REPLACED:
            continue
        if row is None:
            row = Context(
                public_id=public_id(now),
                task_id=task.id,
                key=key,
                position=free + len(live),
                fields=dict(context.fields),
                extra=extra,
                created_at=now,
            )
            session.add(row)
            added.append(row)
        if row.extra != extra:
            row.extra = extra
        row.retired_at = None
        live.append(row)
    keys = {row.key for row in live}
    rest = sorted((row for row in known.values() if row.key not in keys), key=lambda row: row.position)
    for row in rest:
        if row.extra.get(UPLOAD) != KEPT:
            row.retired_at = row.retired_at or now
    session.flush()
    add_contexts(session, task.id, spec_of(task), [(row.key, row.fields) for row in added])
    _put_in_order(session, task, [*live, *rest])


def count_contexts(session: Session, task_id: int, *, retired: bool = False) -> int:
    """Return the number of contexts that are handed out, or that are retired."""
    return session.scalar(select(func.count()).select_from(Context).where(*_which(task_id, retired=retired))) or 0


def list_contexts(session: Session, task_id: int, *, most: int, retired: bool = False) -> list[ContextUse]:
    """Return the first contexts in the owner's order, with the number of examples of all rounds on them."""
    rows = select(Context).where(*_which(task_id, retired=retired)).order_by(Context.position).limit(most)
    found = session.scalars(rows).all()
    written = (
        select(ContextTally.context_id, func.sum(ContextTally.used), func.sum(ContextTally.fooled))
        .join(Round, Round.id == ContextTally.round_id)
        .where(Round.task_id == task_id, ContextTally.context_id.in_([row.id for row in found]))
        .group_by(ContextTally.context_id)
    )
    counts = {context_id: (int(used), int(fooled)) for context_id, used, fooled in session.execute(written)}
    return [
        ContextUse(
            pack_context(row), "upload" if row.extra.get(UPLOAD) == KEPT else "pack", *counts.get(row.id, (0, 0))
        )
        for row in found
    ]


def pack_context(row: Context) -> PackContext:
    """Return a stored context as a pack describes it; its id is its key."""
    extra = {name: value for name, value in row.extra.items() if name not in (TARGETS, UPLOAD)}
    return PackContext(row.key, dict(row.fields), tuple(row.extra.get(TARGETS, ())), extra)


def extra_of(context: PackContext) -> dict[str, Any]:
    """Return what is stored of a context besides its texts."""
    return {**context.extra, TARGETS: list(context.targets)}


def _which(task_id: int, *, retired: bool) -> tuple[ColumnElement[bool], ...]:
    over = Context.retired_at.is_not(None) if retired else Context.retired_at.is_(None)
    return Context.task_id == task_id, over


def key_of(context: PackContext, known: Context | None) -> str:
    """Return the context's id, followed by a hash of its text if another text has that id already."""
    if known is None or known.fields == dict(context.fields):
        return context.id
    return changed_key(context)


def changed_key(context: PackContext) -> str:
    """Return the key of a context whose id already has another text."""
    return f"{context.id[:LONGEST_ID]}@{json_sha256(dict(context.fields))[:12]}"


def _put_in_order(session: Session, task: Task, rows: Sequence[Context]) -> None:
    """Set each row's position to its place in the list; in two steps, because positions must stay unique throughout."""
    if all(row.position == place for place, row in enumerate(rows)):
        return
    beyond = max(len(rows), *(row.position + 1 for row in rows))
    everyone = update(Context).where(Context.task_id == task.id)
    session.execute(everyone.values(position=Context.position + beyond).execution_options(synchronize_session=False))
    session.execute(update(Context), [{"id": row.id, "position": place} for place, row in enumerate(rows)])
    for row in rows:
        session.refresh(row, ["position"])
