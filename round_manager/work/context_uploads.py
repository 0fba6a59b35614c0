"""Uploads of contexts, in addition to those of the pack or instead of them.

An upload is one transaction: all of the file or nothing. Rows are read and written in batches, so that a large file
needs little more memory than its ids.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from round_manager import audit
from round_manager.database.columns import public_id
from round_manager.models import Context, Task, spec_of
from round_manager.novelty.known_texts import add_contexts
from round_manager.tasks.contexts import KEPT, REPLACED, UPLOAD, changed_key, extra_of, key_of
from round_manager.work.leases import lock_task
from templates.rows import Context as PackContext
from templates.texts import CHANGED_SUFFIX

BATCH = 500

Item = TypeVar("Item")


@dataclass(frozen=True)
class ContextsUploaded:
    """The number of contexts that an upload changed."""

    added: int = 0
    brought_back: int = 0
    unchanged: int = 0
    retired: int = 0

    @property
    def changes(self) -> bool:
        """Whether the contexts that workers are shown have changed."""
        return bool(self.added or self.brought_back or self.retired)


def upload_contexts(
    session: Session,
    task: Task,
    contexts: Iterable[PackContext],
    *,
    replace: bool = False,
    actor: str,
    reason: str,
    now: datetime,
) -> ContextsUploaded:
    """Add contexts after the existing ones; repeating the same upload changes nothing.

    A changed text replaces the old one with the same id, which is retired. With `replace`, all other contexts are
    retired, including the pack's, and the order is that of the upload.
    """
    lock_task(session, task.id)
    upload = _Upload(session, task, now)
    for batch in _batches(contexts):
        upload.take(batch)
    if replace:
        upload.retire_others()
        upload.put_in_order()
    done = ContextsUploaded(upload.added, upload.brought_back, upload.unchanged, upload.retired)
    if done.changes:
        audit.note(session, "uploaded contexts", task, actor=actor, reason=reason, now=now, of=task, after=asdict(done))
    session.flush()
    return done


class _Upload:
    """One upload in progress."""

    def __init__(self, session: Session, task: Task, now: datetime) -> None:
        self._session, self._task, self._now, self._spec = session, task, now, spec_of(task)
        self._kept: dict[str, None] = {}
        self._last, self._in_order = -1, True
        last = session.scalar(select(func.max(Context.position)).where(Context.task_id == task.id))
        self._free = 0 if last is None else last + 1
        self._changed = self._living_changed()
        self.added = self.brought_back = self.unchanged = self.retired = 0

    def take(self, batch: Sequence[PackContext]) -> None:
        keys = [key for context in batch for key in (context.id, changed_key(context))]
        rows = self._session.scalars(select(Context).where(Context.task_id == self._task.id, Context.key.in_(keys)))
        known = {row.key: row for row in rows}
        new: list[dict[str, Any]] = []
        for context in batch:
            base = known.get(context.id)
            key = key_of(context, base)
            self._kept[key] = None
            extra = {**extra_of(context), UPLOAD: KEPT}
            row = known.get(key)
            if row is None:
                new.append(
                    {
                        "public_id": public_id(self._now),
                        "task_id": self._task.id,
                        "key": key,
                        "position": self._free + len(new),
                        "fields": dict(context.fields),
                        "extra": extra,
                        "created_at": self._now,
                    }
                )
            else:
                self._keep(row, extra)
            self._see(row.position if row is not None else self._free + len(new) - 1)
            if base is not None and base is not row:
                self._retire(base)
            self._retire_changed(context.id, but=key)
        if new:
            self._session.execute(insert(Context), new)
            add_contexts(self._session, self._task.id, self._spec, [(row["key"], row["fields"]) for row in new])
        self._free += len(new)
        self.added += len(new)
        self._session.flush()
        for row in known.values():
            self._session.expunge(row)

    def retire_others(self) -> None:
        """Retire all contexts that are handed out and were not in the file."""
        last = 0
        living = select(Context).where(Context.task_id == self._task.id, Context.retired_at.is_(None))
        while rows := self._session.scalars(living.where(Context.id > last).order_by(Context.id).limit(BATCH)).all():
            last = rows[-1].id
            for row in rows:
                if row.key not in self._kept:
                    self._retire(row)
            self._session.flush()
            for row in rows:
                self._session.expunge(row)

    def put_in_order(self) -> None:
        """Apply the file's order on unused positions; do nothing if it is the order already."""
        if self._in_order:
            return
        table = Context.__table__
        place = update(Context).where(table.c.task_id == self._task.id, table.c.key == bindparam("of"))
        places = ({"of": key, "to": self._free + number} for number, key in enumerate(self._kept))
        for batch in _batches(places):
            self._session.connection().execute(place.values(position=bindparam("to")), list(batch))

    def _keep(self, row: Context, extra: dict[str, object]) -> None:
        if row.retired_at is not None:
            row.retired_at = None
            self.brought_back += 1
        else:
            self.unchanged += 1
        if row.extra != extra:
            row.extra = extra

    def _retire(self, row: Context) -> None:
        if row.retired_at is None:
            row.retired_at = self._now
            row.extra = {**row.extra, UPLOAD: REPLACED}
            self.retired += 1

    def _retire_changed(self, own_id: str, *, but: str) -> None:
        """Retire other texts with the same id."""
        for key in self._changed.pop(own_id, []):
            if key != but:
                others = select(Context).where(Context.task_id == self._task.id, Context.key == key)
                self._retire(self._session.scalars(others).one())

    def _living_changed(self) -> dict[str, list[str]]:
        """Return the keys of live contexts whose text replaced another one, by the id that they share."""
        keys = select(Context.key).where(
            Context.task_id == self._task.id, Context.retired_at.is_(None), Context.key.contains("@")
        )
        found: dict[str, list[str]] = {}
        for key in self._session.scalars(keys):
            if CHANGED_SUFFIX.search(key):
                found.setdefault(CHANGED_SUFFIX.sub("", key), []).append(key)
        return found

    def _see(self, position: int) -> None:
        self._in_order = self._in_order and position > self._last
        self._last = position


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    some = iter(items)
    while batch := list(islice(some, BATCH)):
        yield batch
