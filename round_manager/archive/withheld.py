"""Examples that a round's archive leaves out, because they serve as gold and workers read archives.

Which ones is decided once, before the round is split. They have no split, so that no model is trained or measured on
them, and they stay out of the archive for good: an archive never changes. Its manifest has their number. Once such an
example is retired as gold, its row can be published on its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, or_, select, true, update
from sqlalchemy.orm import Session, aliased

from round_manager.models import Attempt, Example, GoldExample, Round, SessionStatus, Task, WorkItem, WorkSession


@dataclass(frozen=True)
class WithheldRows:
    """The number of examples that the archive of a round leaves out, and how many of them are still gold."""

    round: int
    examples: int
    live: int


def withhold(session: Session, round: Round, *, now: datetime) -> None:
    """Withhold the examples of a closed round that serve as gold; safe to repeat, and no others are added later."""
    closed = round.closed_at or now
    serving = or_(GoldExample.retired_at.is_(None), GoldExample.retired_at >= closed)
    of_round = (GoldExample.round_id == round.id, GoldExample.withheld_at.is_(None))
    session.execute(update(GoldExample).where(*of_round, serving).values(withheld_at=now))


def withheld_examples(session: Session, round: Round, *, retired: bool = False) -> list[int]:
    """Return the ids of the examples that the round's archive leaves out; with `retired`, those that can be published.

    An example on a page that is still open cannot be published yet.
    """
    wanted = select(GoldExample.example_id).where(
        GoldExample.round_id == round.id, GoldExample.withheld_at.is_not(None)
    )
    if retired:
        shown = (
            select(WorkItem.id)
            .join(WorkSession, WorkSession.id == WorkItem.session_id)
            .where(WorkItem.example_id == GoldExample.example_id, WorkItem.example_id.is_not(None))
            .where(WorkSession.status == SessionStatus.OPEN)
        )
        wanted = wanted.where(GoldExample.retired_at.is_not(None), ~shown.exists())
    return list(session.scalars(wanted.order_by(GoldExample.example_id)))


def examples_without(examples: Sequence[int]) -> ColumnElement[bool]:
    """Return the condition that an example is not one of these."""
    return Example.id.not_in(examples) if examples else true()


def attempts_without(examples: Sequence[int]) -> ColumnElement[bool]:
    """Return the condition that an attempt did not lead to one of these examples.

    All attempts of the author on the same context are left out: they have nearly the same text and the same label.
    """
    if not examples:
        return true()
    own, tried = aliased(Example), aliased(Attempt)
    of_author = or_(tried.worker_id == own.author_id, tried.worker_id.is_(None))
    led = (
        select(tried.id)
        .join(own, (tried.round_id == own.round_id) & (tried.context_id == own.context_id) & of_author)
        .where(own.id.in_(examples))
    )
    linked = select(tried.id).where(tried.example_id.in_(examples), tried.example_id.is_not(None))
    return Attempt.id.not_in(led.union(linked))


def withheld_counts(session: Session, task: Task) -> Iterator[WithheldRows]:
    """Yield the rounds with withheld examples, oldest first."""
    live = func.count() - func.count(GoldExample.retired_at)
    counted = (
        select(Round.number, func.count(), live)
        .join(GoldExample, GoldExample.round_id == Round.id)
        .where(Round.task_id == task.id, GoldExample.withheld_at.is_not(None))
        .group_by(Round.number)
    )
    for number, examples, serving in session.execute(counted.order_by(Round.number)):
        yield WithheldRows(number, examples, serving)
