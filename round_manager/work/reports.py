"""Workers' reports: what is wrong with a HIT or an item, and why an item was skipped, for the owner to read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.messages import gettext
from round_manager import audit
from round_manager.models import AuditEntry, Hit, Round, SessionStatus, Task, Worker, WorkSession
from round_manager.pseudonyms import pseudonym
from round_manager.work.errors import InvalidInput, TooManyReports
from round_manager.work.sessions import check_text, find_item, lock_session, session_context

AT_ONCE = 500
LONGEST_REPORT = 2_000
LONGEST_ACTOR = 120
REPORTED = "reported"
# Anyone with the link can open a page: no single page may use up all reports or fill the owner's audit log.
MOST_REPORTS = 10
MOST_OF_A_HIT = 500


@dataclass(frozen=True)
class WorkerReport:
    """A worker's report, by the worker's pseudonym in the task's data; `confirmed` once the marketplace named them.

    `hit_id` is the marketplace's; `item` counts from one, as workers do, and is None for the whole page.
    """

    at: datetime
    worker: str
    confirmed: bool
    hit_id: str
    kind: str
    round: int | None
    item: int | None
    text: str


def report(session: Session, work: WorkSession, item: int | None, text: str, *, now: datetime) -> None:
    """Write a worker's problem to the audit log, also after the HIT's time is over."""
    context = session_context(session, lock_session(session, work))
    problem = text.strip()
    if not problem:
        raise InvalidInput(gettext("write a sentence that says what is wrong"))
    check_text(problem, LONGEST_REPORT)
    row = None if item is None else find_item(session, work, item)
    about: dict[str, Any] = {"session": str(work.public_id), "item": item}
    if row is not None:
        about |= {"context": row.context_id, "example": row.example_id, "gold": row.gold_id}
    earlier = select(AuditEntry.after).where(
        AuditEntry.subject == "hit", AuditEntry.subject_id == context.hit.id, AuditEntry.action == REPORTED
    )
    from_pages = [(after or {}).get("session") for after in session.scalars(earlier)]
    if from_pages.count(about["session"]) >= MOST_REPORTS or len(from_pages) >= MOST_OF_A_HIT:
        raise TooManyReports(gettext("enough was reported about this HIT; the owner will look at it"))
    who = session.get_one(Worker, work.worker_id).external_id[:LONGEST_ACTOR]
    audit.note(session, REPORTED, context.hit, actor=who, reason=problem, now=now, of=context.hit, after=about)
    session.flush()


def worker_reports(session: Session, task: Task) -> list[WorkerReport]:
    """Return all reports of the task's workers, and their reasons for skipping, the newest first."""
    wanted = (
        select(AuditEntry, Hit, Round.number)
        .join(Hit, Hit.id == AuditEntry.subject_id)
        .outerjoin(Round, Round.id == Hit.round_id)
        .where(AuditEntry.task_id == task.id, AuditEntry.action == REPORTED, AuditEntry.subject == Hit.__tablename__)
        .order_by(AuditEntry.id.desc())
    )
    rows = [(entry, hit, number, entry.after or {}) for entry, hit, number in session.execute(wanted)]
    pages = _pages(session, [UUID(about["session"]) for *_, about in rows])
    found = []
    for entry, hit, number, about in rows:
        page, worker = pages[UUID(about["session"])]
        found.append(
            WorkerReport(
                at=entry.at,
                worker=pseudonym(task, worker),
                confirmed=page.status is SessionStatus.CONFIRMED,
                hit_id=hit.external_id or "",
                kind=hit.kind.value,
                round=number,
                item=None if about["item"] is None else about["item"] + 1,
                text=entry.reason,
            )
        )
    return found


def _pages(session: Session, public_ids: Sequence[UUID]) -> dict[UUID, tuple[WorkSession, Worker]]:
    known: dict[UUID, tuple[WorkSession, Worker]] = {}
    for first in range(0, len(public_ids), AT_ONCE):
        some = WorkSession.public_id.in_(public_ids[first : first + AT_ONCE])
        pages = select(WorkSession, Worker).join(Worker, Worker.id == WorkSession.worker_id).where(some)
        known |= {page.public_id: (page, worker) for page, worker in session.execute(pages)}
    return known
