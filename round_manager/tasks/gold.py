"""The owner's gold: items with a known answer from a private file, which is no part of a pack."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from round_manager import audit
from round_manager.models import GoldExample, GoldItem, GoldShowing, Task, spec_of
from templates import SeedRow, TaskSpec
from templates.contract import judged_fields
from templates.rows import text_key
from templates.texts import lookalike_key

LONGEST_ID = 180


@dataclass(frozen=True)
class GoldUploaded:
    """The number of gold items that an upload changed, and how many are in use now; `spent` ones stay retired."""

    added: int = 0
    restored: int = 0
    unchanged: int = 0
    spent: int = 0
    retired: int = 0
    live: int = 0

    @property
    def changes(self) -> bool:
        """Whether the items in use have changed."""
        return bool(self.added or self.restored or self.retired)


@dataclass(frozen=True)
class GoldCounts:
    """The gold of a task: the owner's items and verified examples, each in use and retired."""

    items: int
    items_retired: int
    examples: int
    examples_retired: int

    @property
    def live(self) -> int:
        """The number of items that pages can show."""
        return self.items + self.examples


def upload_gold(
    session: Session, task: Task, rows: Sequence[SeedRow], *, replace: bool, actor: str, reason: str, now: datetime
) -> GoldUploaded:
    """Add gold items; with `replace`, retire all others of the owner. Repeating it changes nothing.

    An item that enough workers have seen stays retired.
    """
    spec = spec_of(task)
    known = {row.key: row for row in session.scalars(select(GoldItem).where(GoldItem.task_id == task.id))}
    seen = _showings(session, task)
    counts = dict.fromkeys(("added", "restored", "unchanged", "spent", "retired"), 0)
    kept = set()
    for row in rows:
        item = _item(task, spec, row, now)
        kept.add(item.key)
        old = known.get(item.key)
        if old is None:
            session.add(item)
            known[item.key] = item
            counts["added"] += 1
        elif old.retired_at is None:
            counts["unchanged"] += 1
        elif seen.get(old.id, 0) >= spec.validation.gold_showings:
            counts["spent"] += 1
        else:
            old.retired_at = None
            counts["restored"] += 1
    for item in known.values():
        if replace and item.retired_at is None and item.key not in kept:
            item.retired_at = now
            counts["retired"] += 1
    session.flush()
    done = GoldUploaded(**counts, live=sum(item.retired_at is None for item in known.values()))
    if done.changes:
        # Without the texts: many people may read the audit log.
        audit.note(session, "uploaded gold", task, actor=actor, reason=reason, now=now, of=task, after=asdict(done))
    return done


def retire_published(session: Session, task: Task, seed: Sequence[SeedRow], *, now: datetime) -> None:
    """Retire the owner's gold items whose text is in the seed, which everyone can read."""
    live = session.scalars(select(GoldItem).where(GoldItem.task_id == task.id, GoldItem.retired_at.is_(None))).all()
    spec = spec_of(task)
    published = {text_key(row, spec) for row in seed} if live else set()
    for item in live:
        # An item of an earlier spec may lack a field.
        if tuple(lookalike_key(item.fields.get(name, "")) for name in spec.model_input) in published:
            item.retired_at = now


def gold_counts(session: Session, task_id: int) -> GoldCounts:
    """Return the task's gold."""
    items = select(func.count(), func.count(GoldItem.retired_at)).where(GoldItem.task_id == task_id)
    examples = select(func.count(), func.count(GoldExample.retired_at)).where(GoldExample.task_id == task_id)
    (all_items, old_items), (all_examples, old_examples) = session.execute(items).one(), session.execute(examples).one()
    return GoldCounts(all_items - old_items, old_items, all_examples - old_examples, old_examples)


def _item(task: Task, spec: TaskSpec, row: SeedRow, now: datetime) -> GoldItem:
    fields = {name: row.fields[name] for name in judged_fields(spec)}
    answer = _answer(row)
    key = f"{row.id[:LONGEST_ID]}@{json_sha256([fields, row.label, answer])[:12]}"
    return GoldItem(task_id=task.id, key=key, fields=fields, label=row.label, answer=answer, created_at=now)


def _answer(row: SeedRow) -> dict[str, Any] | None:
    if row.answer is None or row.answer_start is None:
        return None
    return {"text": row.answer, "start": row.answer_start, "end": row.answer_start + len(row.answer)}


def _showings(session: Session, task: Task) -> dict[int, int]:
    counted = (
        select(GoldShowing.gold_id, func.count())
        .join(GoldItem, GoldItem.id == GoldShowing.gold_id)
        .where(GoldItem.task_id == task.id)
        .group_by(GoldShowing.gold_id)
    )
    return {gold_id: int(number) for gold_id, number in session.execute(counted) if gold_id is not None}
