"""Contexts: what workers are shown, kept as it was once it was shown."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from round_manager.ids import public_id
from round_manager.models import Context, Task
from templates.rows import Context as PackContext

LONGEST_ID = 180
TARGETS = "targets"


def update_contexts(session: Session, task: Task, contexts: Sequence[PackContext], *, now: datetime) -> None:
    """The task's contexts are those of its pack, in the pack's order; what is not there any more is retired.

    A context never changes: where a text did, the old one is retired and the new one gets a key of its own, so that
    bringing the old text back brings the old context back.
    """
    known = {row.key: row for row in session.scalars(select(Context).where(Context.task_id == task.id))}
    free = max((row.position for row in known.values()), default=-1) + 1
    live: list[Context] = []
    for context in contexts:
        key = _key(context, known.get(context.id))
        row = known.get(key)
        extra = {**context.extra, TARGETS: list(context.targets)}
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
        row.retired_at = row.retired_at or now
    session.flush()
    _put_in_order(session, task, [*live, *rest])


def live_contexts(session: Session, task_id: int) -> list[Context]:
    """The contexts that are still given out, in the owner's order."""
    living = select(Context).where(Context.task_id == task_id, Context.retired_at.is_(None))
    return list(session.scalars(living.order_by(Context.position)))


def pack_context(row: Context) -> PackContext:
    """A stored context as a pack has it; its id is its key here."""
    extra = {name: value for name, value in row.extra.items() if name != TARGETS}
    return PackContext(row.key, dict(row.fields), tuple(row.extra.get(TARGETS, ())), extra)


def _key(context: PackContext, known: Context | None) -> str:
    if known is None or known.fields == dict(context.fields):
        return context.id
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
