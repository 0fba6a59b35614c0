"""Gold items: what the owner knows the answer of, as it stands in the pack's seed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from round_manager.models import GoldItem, Task
from round_manager.specs import spec_of
from templates.contract import judged_fields
from templates.rows import SeedRow

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
