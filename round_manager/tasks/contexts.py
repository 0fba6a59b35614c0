"""Contexts: what workers are shown, kept as it was once it was shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from round_manager.database.columns import public_id
from round_manager.models import Context, ContextTally, Round, Task
from templates.rows import Context as PackContext

LONGEST_ID = 180
TARGETS = "targets"
# Beside what the owner wrote: whether an upload has the context, or put others in its place. Packs leave both alone.
UPLOAD = "@upload"
KEPT, REPLACED = "kept", "replaced"


@dataclass(frozen=True)
class Listed:
    """A context, whether the pack or an upload brought it, and the examples on it, of which some fooled."""

    context: PackContext
    origin: str
    used: int
    fooled: int


def update_contexts(session: Session, task: Task, contexts: Sequence[PackContext], *, now: datetime) -> None:
    """The task's contexts are those of its pack, in its order, then those that were uploaded; others are retired.

    A context never changes: where a text did, the old one is retired and the new one gets a key of its own, so that
    bringing the old text back brings the old context back.
    """
    known = {row.key: row for row in session.scalars(select(Context).where(Context.task_id == task.id))}
    free = max((row.position for row in known.values()), default=-1) + 1
    live: list[Context] = []
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
    _put_in_order(session, task, [*live, *rest])


def live_contexts(session: Session, task_id: int) -> list[Context]:
    """The contexts that are still given out, in the owner's order."""
    living = select(Context).where(Context.task_id == task_id, Context.retired_at.is_(None))
    return list(session.scalars(living.order_by(Context.position)))


def count_contexts(session: Session, task_id: int, *, retired: bool = False) -> int:
    """How many contexts are given out, or are not any more."""
    return session.scalar(select(func.count()).select_from(Context).where(*_which(task_id, retired=retired))) or 0


def list_contexts(session: Session, task_id: int, *, most: int, retired: bool = False) -> list[Listed]:
    """The first contexts in the owner's order, with the examples of all rounds on them."""
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
        Listed(pack_context(row), "upload" if row.extra.get(UPLOAD) == KEPT else "pack", *counts.get(row.id, (0, 0)))
        for row in found
    ]


def pack_context(row: Context) -> PackContext:
    """A stored context as a pack has it; its id is its key here."""
    extra = {name: value for name, value in row.extra.items() if name not in (TARGETS, UPLOAD)}
    return PackContext(row.key, dict(row.fields), tuple(row.extra.get(TARGETS, ())), extra)


def extra_of(context: PackContext) -> dict[str, Any]:
    """What is kept of a context beside its texts."""
    return {**context.extra, TARGETS: list(context.targets)}


def _which(task_id: int, *, retired: bool) -> tuple[ColumnElement[bool], ...]:
    over = Context.retired_at.is_not(None) if retired else Context.retired_at.is_(None)
    return Context.task_id == task_id, over


def key_of(context: PackContext, known: Context | None) -> str:
    """The context's id, or where another text has that already, its id and its text's hash."""
    if known is None or known.fields == dict(context.fields):
        return context.id
    return changed_key(context)


def changed_key(context: PackContext) -> str:
    """The key of a context whose id has another text."""
    return f"{context.id[:LONGEST_ID]}@{json_sha256(dict(context.fields))[:12]}"


def _put_in_order(session: Session, task: Task, rows: Sequence[Context]) -> None:
    """Each row's position is its place in the list; two steps, for no two may have one position for a moment."""
    if all(row.position == place for place, row in enumerate(rows)):
        return
    beyond = max(len(rows), *(row.position + 1 for row in rows))
    everyone = update(Context).where(Context.task_id == task.id)
    session.execute(everyone.values(position=Context.position + beyond).execution_options(synchronize_session=False))
    session.execute(update(Context), [{"id": row.id, "position": place} for place, row in enumerate(rows)])
    for row in rows:
        session.refresh(row, ["position"])
