"""The state of the work on a marketplace, from our database: HIT groups, planned HITs, and loose ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Integer, Subquery, and_, case, cast, exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryState,
    Hit,
    HitKind,
    HitStatus,
    LedgerEntry,
    Task,
    Worker,
)

CAN_BE_TAKEN = (HitStatus.ASSIGNABLE, HitStatus.UNASSIGNABLE)


@dataclass(frozen=True)
class GroupFigures:
    """A HIT group; `unfilled` counts the places of unfinished HITs without a submission."""

    group_id: str
    task: str
    kind: HitKind
    reward_cents: int
    hits: int
    unfinished: int
    unfilled: int
    undecided: int
    approved: int
    rejected: int
    posted_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class PlannedHits:
    """Planned HITs of one kind: never sent, or sent without an answer (`in_doubt`)."""

    task: str
    kind: HitKind
    unsent: int
    in_doubt: int
    cents: int


@dataclass(frozen=True)
class LooseEnd:
    """A HIT or a payment that needs attention; `what` is `HIT` or the kind of payment.

    `key` is ours; `hit_id` is the marketplace's, if there is one.
    """

    key: str
    what: str
    task: str
    cents: int
    assignment_id: str
    worker_id: str
    since: datetime
    why: str
    hit_id: str = ""


@dataclass(frozen=True)
class LooseEnds:
    """In doubt: reconciliation settles it. Held: a person decides. Refused: by the marketplace, the newest first.

    Astray: posted HITs that the marketplace does not know, or whose work cannot be recorded here.
    """

    in_doubt: list[LooseEnd]
    held: list[LooseEnd]
    refused: list[LooseEnd]
    astray: list[LooseEnd]


@dataclass(frozen=True)
class LiveHit:
    """A HIT that workers can still accept, or that has money reserved."""

    hit_id: str
    group_id: str
    kind: HitKind
    can_be_taken: bool
    reserved_cents: int


def group_figures(session: Session, marketplace: str, task_id: int | None = None) -> list[GroupFigures]:
    """Return every posted HIT group, the newest first."""
    work = (
        select(
            Assignment.hit_id,
            func.count().filter(Assignment.status == AssignmentStatus.SUBMITTED).label("undecided"),
            func.count().filter(Assignment.status == AssignmentStatus.APPROVED).label("approved"),
            func.count().filter(Assignment.status == AssignmentStatus.REJECTED).label("rejected"),
        )
        .where(Assignment.marketplace == marketplace)
        .group_by(Assignment.hit_id)
        .subquery()
    )
    undecided, approved, rejected = (
        func.coalesce(column, 0) for column in (work.c.undecided, work.c.approved, work.c.rejected)
    )
    unfilled = case((Hit.finished_at.is_(None), Hit.max_assignments - undecided - approved - rejected), else_=0)
    wanted = (
        select(
            Hit.group_id,
            Task.name,
            Hit.kind,
            Hit.reward_cents,
            func.count(),
            func.count().filter(Hit.finished_at.is_(None)),
            *(cast(func.sum(count), Integer) for count in (unfilled, undecided, approved, rejected)),
            func.max(Hit.posted_at),
            func.max(Hit.expires_at),
        )
        .join(Task, Task.id == Hit.task_id)
        .outerjoin(work, work.c.hit_id == Hit.id)
        .where(*_of(marketplace, task_id), Hit.external_id.is_not(None))
        .group_by(Hit.group_id, Task.name, Hit.kind, Hit.reward_cents)
        .order_by(func.max(Hit.posted_at).desc(), Hit.group_id)
    )
    names = ("group_id", "task", "kind", "reward_cents", "hits", "unfinished", "unfilled", "undecided", "approved",
             "rejected", "posted_at", "expires_at")  # fmt: skip
    return [GroupFigures(**dict(zip(names, row, strict=True))) for row in session.execute(wanted)]


def planned(session: Session, marketplace: str, task_id: int | None = None) -> list[PlannedHits]:
    """Return the HITs that were planned and not posted, with their reserved money."""
    reserved = _reserved()
    unsent, in_doubt = func.count().filter(Hit.sent_at.is_(None)), func.count().filter(Hit.sent_at.is_not(None))
    wanted = (
        select(Task.name, Hit.kind, unsent, in_doubt, func.coalesce(func.sum(reserved.c.cents), 0))
        .join(Task, Task.id == Hit.task_id)
        .outerjoin(reserved, reserved.c.hit_id == Hit.id)
        .where(*_of(marketplace, task_id), Hit.status == HitStatus.PLANNED)
        .group_by(Task.name, Hit.kind)
        .order_by(Task.name, Hit.kind)
    )
    return [
        PlannedHits(task, kind, never, doubtful, int(cents))
        for task, kind, never, doubtful, cents in session.execute(wanted)
    ]


def loose_ends(session: Session, marketplace: str, task_id: int | None = None) -> LooseEnds:
    """Return HITs and payments that are in doubt, held, refused or astray, the newest first."""
    here = _of(marketplace, task_id)
    unheard = (*here, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_not(None))
    unsettled = (*here, LedgerEntry.state == EntryState.SENT, LedgerEntry.held_at.is_(None))
    astray = (*here, Hit.external_id.is_not(None), Hit.finished_at.is_(None), Hit.last_error.is_not(None))
    lost = (*here, LedgerEntry.state == EntryState.REFUSED, _not_replaced())
    return LooseEnds(
        in_doubt=_hits(session, unheard) + _payments(session, unsettled),
        held=_hits(session, (*here, Hit.status == HitStatus.HELD))
        + _payments(session, (*here, LedgerEntry.held_at.is_not(None))),
        refused=sorted(
            _hits(session, (*here, Hit.status == HitStatus.REFUSED)) + _payments(session, lost),
            key=lambda one: one.since,
            reverse=True,
        ),
        astray=_hits(session, astray),
    )


def live_hits(session: Session, marketplace: str, task_id: int | None = None) -> list[LiveHit]:
    """Return posted HITs that can still get work or release money, the newest first."""
    reserved = _reserved()
    can_be_taken = and_(Hit.status.in_(CAN_BE_TAKEN), Hit.finished_at.is_(None))
    cents = func.coalesce(reserved.c.cents, 0)
    wanted = (
        select(Hit.external_id, Hit.group_id, Hit.kind, can_be_taken, cents)
        .outerjoin(reserved, reserved.c.hit_id == Hit.id)
        .where(*_of(marketplace, task_id), Hit.external_id.is_not(None), or_(can_be_taken, cents > 0))
        .order_by(Hit.id.desc())
    )
    return [
        LiveHit(hit_id or "", group_id or "", kind, bool(taken), int(cents))
        for hit_id, group_id, kind, taken, cents in session.execute(wanted)
    ]


def _of(marketplace: str, task_id: int | None) -> tuple[ColumnElement[bool], ...]:
    here = (Hit.marketplace == marketplace,)
    return here if task_id is None else (*here, Hit.task_id == task_id)


def _reserved() -> Subquery:
    total = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents).label("cents")
    entries = select(LedgerEntry.hit_id, total).where(LedgerEntry.state == EntryState.RESERVED)
    return entries.group_by(LedgerEntry.hit_id).subquery()


def _hits(session: Session, which: Sequence[ColumnElement[bool]]) -> list[LooseEnd]:
    reserved = _reserved()
    wanted = (
        select(Hit, Task.name, func.coalesce(reserved.c.cents, 0))
        .join(Task, Task.id == Hit.task_id)
        .outerjoin(reserved, reserved.c.hit_id == Hit.id)
        .where(*which)
        .order_by(Hit.id.desc())
    )
    return [
        LooseEnd(
            hit.key,
            "HIT",
            task,
            int(cents),
            "",
            "",
            hit.sent_at or hit.created_at,
            hit.last_error or "",
            hit.external_id or "",
        )
        for hit, task, cents in session.execute(wanted)
    ]


def _payments(session: Session, which: Sequence[ColumnElement[bool]]) -> list[LooseEnd]:
    wanted = (
        select(LedgerEntry, Task.name, Assignment.external_id, Worker.external_id)
        .join(Hit, Hit.id == LedgerEntry.hit_id)
        .join(Task, Task.id == LedgerEntry.task_id)
        .join(Assignment, Assignment.id == LedgerEntry.assignment_id)
        .join(Worker, Worker.id == LedgerEntry.worker_id)
        .where(*which)
        .order_by(LedgerEntry.id.desc())
    )
    return [
        LooseEnd(
            entry.key,
            entry.kind.value,
            task,
            entry.cents + entry.fee_cents,
            assignment,
            worker,
            entry.sent_at or entry.reserved_at,
            entry.held_reason or entry.last_error or "",
        )
        for entry, task, assignment, worker in session.execute(wanted)
    ]


def _not_replaced() -> ColumnElement[bool]:
    """Return the condition that a refused payment was not replaced by another entry."""
    other = aliased(LedgerEntry)
    same = (other.assignment_id == LedgerEntry.assignment_id, other.kind == LedgerEntry.kind)
    return ~exists().where(*same, other.cents == LedgerEntry.cents, other.state != EntryState.REFUSED)
