"""Gold: items with a known answer, mixed in among the others to judge, and how workers did on them.

The answer is known if the owner gave it, or if validators agreed on it (a verified example). A judgement of gold is not
a vote. It counts once the marketplace has confirmed who gave it. Flags, which the owner decides, and examples that were
withdrawn since do not count against a worker.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, or_, select
from sqlalchemy.orm import Session

from ml_backend.verdict import f1_score
from round_manager.examples.submissions import VALID_SESSIONS
from round_manager.models import (
    Example,
    ExampleStatus,
    GoldItem,
    Hit,
    SessionStatus,
    Task,
    Vote,
    WorkItem,
    WorkSession,
    spec_of,
)
from round_manager.work.context_strategies import order_key, seed_of
from round_manager.work.sessions import SessionContext
from templates import TaskSpec

# Only the newest verified examples serve as gold, which is enough for every worker in a task of any size.
NEWEST = 200
READ_AT_ONCE = 1_000
FLAG = WorkItem.judgement["flag"].as_string()


@dataclass(frozen=True)
class GoldFlag:
    """A worker's objection to a gold item: a verified example, or an item of the owner's own."""

    item_id: int
    example_id: int | None
    gold_id: int | None
    reason: str
    comment: str | None


def gold_count(session: Session, context: SessionContext, items: int) -> int:
    """Return how many of a session's items are gold: the task's rate, on average over sessions."""
    whole, rest = divmod(items * context.spec.validation.gold_rate, 1)
    drawn = int.from_bytes(order_key(seed_of(session, context.work, context.hit.task_id), "gold")[:8]) / 2**64
    return int(whole) + (drawn < rest)


def choose_gold(session: Session, context: SessionContext, most: int) -> list[WorkItem]:
    """Return up to `most` items with a known answer that this worker has neither seen nor written."""
    found = [*_from_owner(session, context), *_from_votes(session, context)] if most else []
    seed = seed_of(session, context.work, context.hit.task_id)
    drawn = sorted(found, key=lambda one: order_key(seed, "which", one.get("gold_id"), one.get("example_id")))[:most]
    # Thousands may qualify; only the chosen ones become rows.
    return [WorkItem(session_id=context.work.id, worker_id=context.work.worker_id, item=0, **one) for one in drawn]


def each_gold_answer(session: Session, task: Task) -> Iterator[tuple[WorkItem, bool]]:
    """Yield the judged items of the task's gold, without flags, and whether each judgement is right; oldest first."""
    spec = spec_of(task)
    holds = or_(WorkItem.gold_id.is_not(None), Example.status == ExampleStatus.VERIFIED)
    wanted = _judged_gold().outerjoin(Example, Example.id == WorkItem.example_id)
    wanted = wanted.where(Hit.task_id == task.id, holds, FLAG.is_(None))
    for row in session.scalars(wanted.execution_options(yield_per=READ_AT_ONCE)):
        yield row, _is_right(spec, row)


def each_gold_flag(session: Session, *where: ColumnElement[bool]) -> Iterator[GoldFlag]:
    """Yield the flags on gold, the oldest first, that meet conditions on the item and the HIT of its page."""
    wanted = _judged_gold().where(FLAG.is_not(None), *where).execution_options(yield_per=READ_AT_ONCE)
    for row in session.scalars(wanted):
        said = row.judgement or {}
        yield GoldFlag(row.id, row.example_id, row.gold_id, str(said.get("flag")), said.get("comment"))


def _judged_gold() -> Select[WorkItem]:
    return (
        select(WorkItem)
        .join(WorkSession, WorkSession.id == WorkItem.session_id)
        .join(Hit, Hit.id == WorkSession.hit_id)
        .where(
            WorkSession.status == SessionStatus.CONFIRMED,
            WorkItem.judgement.is_not(None),
            WorkItem.expected_label.is_not(None) | WorkItem.expected_answer.is_not(None),
        )
        .order_by(WorkItem.id)
    )


def _is_right(spec: TaskSpec, row: WorkItem) -> bool:
    given = row.judgement or {}
    if row.expected_label is not None:
        return bool(given.get("label") == row.expected_label)
    text, expected = ((answer or {}).get("text") for answer in (given.get("answer"), row.expected_answer))
    return text is not None and f1_score(str(text), str(expected)) >= spec.validation.span_f1


def _from_owner(session: Session, context: SessionContext) -> list[dict[str, Any]]:
    rows = select(GoldItem.id, GoldItem.label, GoldItem.answer).where(
        GoldItem.task_id == context.hit.task_id,
        GoldItem.retired_at.is_(None),
        # The owner may have renamed labels since the round was opened.
        or_(GoldItem.label.is_(None), GoldItem.label.in_(context.spec.label_names)),
        GoldItem.id.not_in(_seen(context, WorkItem.gold_id)),
    )
    return [
        {"gold_id": gold_id, "expected_label": label, "expected_answer": answer}
        for gold_id, label, answer in session.execute(rows)
    ]


def _from_votes(session: Session, context: SessionContext) -> list[dict[str, Any]]:
    voted = select(Vote.example_id).where(Vote.worker_id == context.work.worker_id)
    rows = (
        select(Example.id, Example.author_id, Example.gold_label, Example.gold_answer)
        .where(
            Example.task_id == context.hit.task_id,
            Example.status == ExampleStatus.VERIFIED,
            Example.author_id != context.work.worker_id,
            Example.id.not_in(voted),
            Example.id.not_in(_seen(context, WorkItem.example_id)),
        )
        .order_by(Example.id.desc())
        .limit(NEWEST)
    )
    return [
        {"example_id": example_id, "author_id": author, "expected_label": label, "expected_answer": answer}
        for example_id, author, label, answer in session.execute(rows)
    ]


def _seen(context: SessionContext, column: Any) -> Any:
    return (
        select(column)
        .join(WorkSession, WorkSession.id == WorkItem.session_id)
        .where(
            WorkItem.worker_id == context.work.worker_id, column.is_not(None), WorkSession.status.in_(VALID_SESSIONS)
        )
    )
