"""Credited time: every moment of a worker's time counts for one assignment at most.

When the marketplace lists an assignment, it is credited with the moments that its page claimed (`work.active_time`), or
else with the time from its start to its submission, except those that an earlier assignment of the same worker has. So
the time of a worker, over all sessions, tasks and browsers, is the wall time in which one of their pages was open and
used: eighteen HITs that are held for 400 seconds are worth 400 seconds together. Alternating between two pages loses
nothing, because a page claims only the moments in which it was used.

Only assignments that the marketplace lists are credited, to the worker whom it names. Pages that strangers open in a
worker's name take no time from the worker, and a worker cannot spend the time of another one. What was credited never
changes, so it does not matter who asks for it, or when.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.models import (
    Assignment,
    CreditedSpan,
    Example,
    ExampleStatus,
    Round,
    Worker,
    WorkItem,
    WorkSession,
)
from round_manager.tasks.rounds import LIVE
from round_manager.work.active_time import claimed_spans
from round_manager.work.spans import Span, as_time, in_ms, joined, length_of, without


def lock_workers(session: Session, worker_ids: Collection[int]) -> None:
    """Lock workers until the transaction ends, so that no other process credits their time meanwhile.

    A transaction locks workers after sessions and examples, and all of them at once, in one order.
    """
    held = select(Worker.id).where(Worker.id.in_(worker_ids)).order_by(Worker.id).with_for_update(key_share=True)
    session.execute(held).all()


def credit_time(session: Session, assignments: Sequence[Assignment], pages: Mapping[int, WorkSession]) -> None:
    """Credit new assignments with their time, in the order of submission; `pages` has their sessions, by assignment.

    The workers must be locked. Items, examples and votes of a page whose time was not credited in full get less of it
    in proportion.
    """
    for assignment in sorted(assignments, key=lambda one: (one.submitted_at or one.accepted_at, one.id)):
        page = pages.get(assignment.id)
        spans = _claimed(assignment, page)
        own = without(spans, _taken(session, assignment.worker_id, spans))
        assignment.active_ms = length_of(own)
        session.add_all(
            CreditedSpan(
                assignment_id=assignment.id,
                worker_id=assignment.worker_id,
                starts_at=as_time(start),
                ends_at=as_time(end),
            )
            for start, end in own
        )
        session.flush()
        if page is not None and page.active_ms > assignment.active_ms:
            _reduce_times(session, page, assignment.active_ms)


def _claimed(assignment: Assignment, page: WorkSession | None) -> list[Span]:
    if page is None:
        return _between(assignment.accepted_at, assignment.submitted_at)
    if page.empty_at is not None:
        return []
    # A page that never reported any time, such as a quiz that was answered at once, has the time that it was open.
    end = page.submitted_at or assignment.submitted_at or page.started_at
    return claimed_spans(page) or _between(page.started_at, min(end, page.expires_at))


def _between(start: datetime, end: datetime | None) -> list[Span]:
    return joined([(in_ms(start), in_ms(end or start))])


def _taken(session: Session, worker_id: int, spans: Sequence[Span]) -> list[Span]:
    """Return the moments near these spans that were credited to other assignments."""
    if not spans:
        return []
    found = select(CreditedSpan.starts_at, CreditedSpan.ends_at).where(
        CreditedSpan.worker_id == worker_id,
        CreditedSpan.ends_at > as_time(spans[0][0]),
        CreditedSpan.starts_at < as_time(spans[-1][1]),
    )
    return joined((in_ms(start), in_ms(end)) for start, end in session.execute(found))


def _reduce_times(session: Session, page: WorkSession, credited_ms: int) -> None:
    """Reduce the times of a page's items and of its new examples to the part of its time that was credited."""
    items = select(WorkItem).where(WorkItem.session_id == page.id)
    # The examples of a closed round stay as they are: they may be in an archive.
    written = (
        select(Example)
        .join(Round, Round.id == Example.round_id)
        .where(Example.session_id == page.id, Example.session_id.is_not(None))
        .where(Example.status == ExampleStatus.UNCONFIRMED, Round.status.in_(LIVE))
    )
    rows: list[WorkItem | Example] = [*session.scalars(items), *session.scalars(written)]
    for row in rows:
        if row.active_ms is not None:
            row.active_ms = row.active_ms * credited_ms // page.active_ms
    session.flush()
