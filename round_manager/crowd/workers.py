"""The workers of a marketplace, from our database: their work, their earnings and their access."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from round_manager.crowd.fair_pay import earned_work
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    Block,
    EntryState,
    Hit,
    LedgerEntry,
    Qualification,
    QualificationGrant,
    Task,
    Worker,
)

ON_THE_WAY = (EntryState.OWED, EntryState.SENT)


@dataclass(frozen=True)
class WorkerFigures:
    """One worker; amounts are without fees, and the hourly pay is the median of the worker's assignments."""

    worker_id: str
    approved: int
    rejected: int
    undecided: int
    earned_cents: int
    owed_cents: int
    median_hourly_cents: int | None
    qualified_for: tuple[str, ...]
    blocked: str
    last_work_at: datetime | None


def worker_figures(session: Session, marketplace: str, tasks: Sequence[Task]) -> list[WorkerFigures]:
    """Return the workers who worked on these tasks, may work on them, or are blocked; the latest submission first."""
    ids = [task.id for task in tasks]
    work = _work(session, marketplace, ids)
    money = _money(session, marketplace, ids)
    wages = _hourly(session, tasks)
    grants = _grants(session, marketplace, ids)
    blocks = _blocks(session, marketplace)
    wanted = select(Worker).where(Worker.marketplace == marketplace).order_by(Worker.id.desc())
    found = [
        WorkerFigures(
            worker.external_id,
            *work.get(worker.id, (0, 0, 0, None))[:3],
            *money.get(worker.id, (0, 0)),
            int(median(wages[worker.id])) if worker.id in wages else None,
            tuple(grants.get(worker.id, ())),
            blocks.get(worker.id, ""),
            work.get(worker.id, (0, 0, 0, None))[3],
        )
        for worker in session.scalars(wanted)
        if worker.id in work or worker.id in grants or worker.id in blocks
    ]
    return sorted(found, key=lambda one: one.last_work_at.timestamp() if one.last_work_at else 0.0, reverse=True)


def find_worker(session: Session, marketplace: str, worker_id: str) -> Worker | None:
    """Return the worker with the marketplace's id, if known."""
    return session.scalar(select(Worker).where(Worker.marketplace == marketplace, Worker.external_id == worker_id))


def is_blocked(session: Session, marketplace: str, worker_id: str) -> bool:
    """Return whether the worker is blocked, according to our database."""
    worker = find_worker(session, marketplace, worker_id)
    return worker is not None and worker.id in _blocks(session, marketplace)


def _work(session: Session, marketplace: str, tasks: Sequence[int]) -> dict[int, tuple[int, int, int, datetime | None]]:
    def count(status: AssignmentStatus) -> ColumnElement[int]:
        return func.count().filter(Assignment.status == status)

    wanted = (
        select(
            Assignment.worker_id,
            count(AssignmentStatus.APPROVED),
            count(AssignmentStatus.REJECTED),
            count(AssignmentStatus.SUBMITTED),
            func.max(Assignment.submitted_at),
        )
        .join(Hit, Hit.id == Assignment.hit_id)
        .where(Assignment.marketplace == marketplace, Hit.task_id.in_(tasks))
        .group_by(Assignment.worker_id)
    )
    return {
        worker: (approved, rejected, undecided, last)
        for worker, approved, rejected, undecided, last in session.execute(wanted)
    }


def _money(session: Session, marketplace: str, tasks: Sequence[int]) -> dict[int, tuple[int, int]]:
    wanted = (
        select(
            LedgerEntry.worker_id,
            func.sum(LedgerEntry.cents).filter(LedgerEntry.state == EntryState.CONFIRMED),
            func.sum(LedgerEntry.cents).filter(LedgerEntry.state.in_(ON_THE_WAY)),
        )
        .join(Hit, Hit.id == LedgerEntry.hit_id)
        .where(Hit.marketplace == marketplace, LedgerEntry.task_id.in_(tasks), LedgerEntry.worker_id.is_not(None))
        .group_by(LedgerEntry.worker_id)
    )
    rows = session.execute(wanted)
    return {worker: (int(earned or 0), int(owed or 0)) for worker, earned, owed in rows if worker is not None}


def _hourly(session: Session, tasks: Sequence[Task]) -> dict[int, list[float]]:
    """Return the hourly pay of each approved assignment, by worker."""
    wages: dict[int, list[float]] = {}
    for task in tasks:
        for one in earned_work(session, task):
            wages.setdefault(one.worker_id, []).append(one.hourly_cents)
    return wages


def _grants(session: Session, marketplace: str, tasks: Sequence[int]) -> dict[int, list[str]]:
    wanted = (
        select(QualificationGrant.worker_id, Task.name)
        .join(Qualification, Qualification.id == QualificationGrant.qualification_id)
        .join(Task, Task.id == Qualification.task_id)
        .where(
            Qualification.marketplace == marketplace,
            Qualification.task_id.in_(tasks),
            QualificationGrant.revoked_at.is_(None),
        )
        .order_by(Task.name)
    )
    grants: dict[int, list[str]] = {}
    for worker, task in session.execute(wanted):
        grants.setdefault(worker, []).append(task)
    return grants


def _blocks(session: Session, marketplace: str) -> dict[int, str]:
    wanted = (
        select(Block.worker_id, Block.reason)
        .join(Worker, Worker.id == Block.worker_id)
        .where(Worker.marketplace == marketplace, Block.lifted_at.is_(None), Block.task_id.is_(None))
    )
    return dict(session.execute(wanted).all())
