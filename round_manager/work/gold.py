"""How workers did on gold: items with a known answer, mixed in among the others to judge.

The answer is known if the owner gave it, or if validators agreed on it (a verified example). A judgement of gold is not
a vote. It counts once the marketplace has confirmed who gave it. Flags, which the owner decides, and examples that were
withdrawn since do not count against a worker.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, or_, select
from sqlalchemy.orm import Session

from ml_backend.verdict import f1_score
from round_manager.models import (
    Example,
    ExampleStatus,
    Hit,
    SessionStatus,
    Task,
    WorkItem,
    WorkSession,
    spec_of,
)
from templates import TaskSpec

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


def each_gold_answer(session: Session, task: Task) -> Iterator[tuple[WorkItem, bool]]:
    """Yield the judged items of the task's gold, without flags, and whether each judgement is right; oldest first."""
    yield from _answers(session, task)


def each_answer_of(session: Session, task: Task, worker_id: int) -> Iterator[bool]:
    """Yield whether each judgement of gold by one worker is right."""
    # One after the other, because each has its own index.
    for subject in (WorkItem.gold_id, WorkItem.example_id):
        mine = (WorkItem.worker_id == worker_id, subject.is_not(None))
        yield from (is_right for _, is_right in _answers(session, task, *mine))


def _answers(session: Session, task: Task, *where: ColumnElement[bool]) -> Iterator[tuple[WorkItem, bool]]:
    spec = spec_of(task)
    holds = or_(WorkItem.gold_id.is_not(None), Example.status == ExampleStatus.VERIFIED)
    wanted = _judged_gold().outerjoin(Example, Example.id == WorkItem.example_id)
    wanted = wanted.where(Hit.task_id == task.id, holds, FLAG.is_(None), *where)
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
