"""Examples of a task, page by page, newest first.

A page continues after the id of its last example (`Page.next_after`), so that it costs the same at any depth and no
example is shown twice while new ones arrive.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from round_manager.bulk_rows import worker_names
from round_manager.errors import ExampleNotFound
from round_manager.models import Context, Example, ExampleStatus, Round, Task, Vote
from round_manager.services.context import ServiceContext
from round_manager.tasks.rounds import choose_round
from round_manager.tasks.tasks import find_task

MOST_PER_PAGE = 200


@dataclass(frozen=True)
class ExampleRow:
    """An example as its owner sees it; the author is a pseudonym."""

    id: UUID
    round: int
    context: str | None
    fields: dict[str, Any]
    label: str | None
    answer: dict[str, Any] | None
    explanation: dict[str, Any] | None
    fooled: bool
    status: ExampleStatus
    gold_label: str | None
    gold_answer: dict[str, Any] | None
    author: str
    votes: int
    votes_wanted: int
    submitted_at: datetime


@dataclass(frozen=True)
class ExamplePage:
    """Some examples, and the id to continue after; None on the last page."""

    examples: tuple[ExampleRow, ...]
    next_after: UUID | None


def list_examples(
    context: ServiceContext,
    task: str,
    *,
    number: int | None = None,
    statuses: Collection[ExampleStatus] = (),
    fooled: bool | None = None,
    after: UUID | None = None,
    limit: int = 50,
) -> ExamplePage:
    """Return one page of a round's examples, newest first; by default of the live round, else of the newest."""
    size = max(1, min(limit, MOST_PER_PAGE))
    with context.store.read() as session:
        owner = find_task(session, task)
        round = choose_round(session, owner, number)
        wanted = select(Example).where(Example.round_id == round.id)
        if statuses:
            wanted = wanted.where(Example.status.in_(statuses))
        if fooled is not None:
            wanted = wanted.where(Example.fooled.is_(fooled))
        if after is not None:
            wanted = wanted.where(Example.id < _row_id(session, round, after))
        # One more than a page holds, to know whether there is another page.
        found = session.scalars(wanted.order_by(Example.id.desc()).limit(size + 1)).all()
        rows = _rows(session, owner, round, found[:size])
    return ExamplePage(rows, rows[-1].id if len(found) > size else None)


def _row_id(session: Session, round: Round, public_id: UUID) -> int:
    found = session.scalar(select(Example.id).where(Example.public_id == public_id, Example.round_id == round.id))
    if found is None:
        raise ExampleNotFound(f"round {round.number} has no example {public_id}")
    return found


def _rows(session: Session, task: Task, round: Round, found: Collection[Example]) -> tuple[ExampleRow, ...]:
    ids = [one.id for one in found]
    counted = select(Vote.example_id, func.count()).where(Vote.example_id.in_(ids)).group_by(Vote.example_id)
    votes = {example_id: int(number) for example_id, number in session.execute(counted)}
    contexts = {one.context_id for one in found if one.context_id is not None}
    shown = session.execute(select(Context.id, Context.key).where(Context.id.in_(contexts)))
    keys: dict[int | None, str] = {row.id: row.key for row in shown}
    authors = worker_names(session, task, {one.author_id for one in found})
    return tuple(
        ExampleRow(
            id=one.public_id,
            round=round.number,
            context=keys.get(one.context_id),
            fields=dict(one.fields),
            label=one.label,
            answer=one.answer,
            explanation=one.explanation,
            fooled=one.fooled,
            status=one.status,
            gold_label=one.gold_label,
            gold_answer=one.gold_answer,
            author=authors[one.author_id],
            votes=votes.get(one.id, 0),
            votes_wanted=one.votes_wanted,
            submitted_at=one.submitted_at,
        )
        for one in found
    )
