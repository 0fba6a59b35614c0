"""The workers of a marketplace: their work, their earnings, and who may work on a task and who may not.

Grants and blocks are made on the marketplace first: our rows never claim more than is true there. Calls are repeatable.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from statistics import median
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from common.clock import Clock
from crowd.errors import CrowdAccessDenied, CrowdRefused
from crowd.port import Crowd
from round_manager import audit
from round_manager.crowd.fair_pay import earned_work
from round_manager.database.engine import find_or_add
from round_manager.database.store import Store, process_lock
from round_manager.errors import DuplicateError, ReasonRequired
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
    ensure_worker,
    spec_of,
)
from round_manager.pseudonyms import pseudonym
from round_manager.tasks.groups import groups_of_workers
from round_manager.work.quizzes import ungranted_passes

ON_THE_WAY = (EntryState.OWED, EntryState.SENT)
SHOWN = (AssignmentStatus.APPROVED, AssignmentStatus.REJECTED, AssignmentStatus.SUBMITTED)
# A block from all tasks.
LIVE_BLOCK = (Block.lifted_at.is_(None), Block.task_id.is_(None))


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
    # The name that the owner gave, and the pseudonym in the data of the task, if there is only one.
    name: str = ""
    pseudonym: str = ""
    groups: tuple[str, ...] = ()
    simulated: bool = False


def worker_figures(session: Session, marketplace: str, tasks: Sequence[Task]) -> list[WorkerFigures]:
    """Return the workers who worked on these tasks, may work on them, or are blocked; the latest submission first."""
    ids = [task.id for task in tasks]
    work = _work(session, marketplace, ids)
    money = _money(session, marketplace, ids)
    wages = _hourly(session, tasks)
    grants = _grants(session, marketplace, ids)
    blocks = _blocks(session, marketplace)
    groups = groups_of_workers(session)
    wanted = select(Worker).where(Worker.marketplace == marketplace).order_by(Worker.id.desc())
    found = []
    for worker in session.scalars(wanted):
        number = worker.id
        if number in work or number in grants or number in blocks:
            approved, rejected, undecided, last = work.get(number, (0, 0, 0, None))
            earned, owed = money.get(number, (0, 0))
            pay = int(median(wages[number])) if number in wages else None
            may, blocked = tuple(grants.get(number, ())), blocks.get(number, "")
            figures = (approved, rejected, undecided, earned, owed, pay, may, blocked, last)
            alias = pseudonym(tasks[0], worker) if len(tasks) == 1 else ""
            person = (worker.name or "", alias, tuple(groups.get(number, ())))
            found.append(WorkerFigures(worker.external_id, *figures, *person, simulated=worker.simulated))
    return sorted(found, key=lambda one: one.last_work_at.timestamp() if one.last_work_at else 0.0, reverse=True)


def is_blocked(session: Session, marketplace: str, worker_id: str) -> bool:
    """Return whether the worker is blocked, according to our database."""
    found = select(Block.id).join(Worker, Worker.id == Block.worker_id).where(*LIVE_BLOCK)
    mine = found.where(Worker.marketplace == marketplace, Worker.external_id == worker_id)
    return session.scalar(mine.limit(1)) is not None


def _work(session: Session, marketplace: str, tasks: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """Return how much work was approved, rejected and not decided, and when the last was submitted, by worker."""
    counts = [func.count().filter(Assignment.status == status) for status in SHOWN]
    wanted = (
        select(Assignment.worker_id, *counts, func.max(Assignment.submitted_at))
        .join(Hit, Hit.id == Assignment.hit_id)
        .where(Assignment.marketplace == marketplace, Hit.task_id.in_(tasks))
        .group_by(Assignment.worker_id)
    )
    return {row[0]: tuple(row[1:]) for row in session.execute(wanted)}


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
    return {row[0] or 0: (int(row[1] or 0), int(row[2] or 0)) for row in session.execute(wanted)}


def _hourly(session: Session, tasks: Sequence[Task]) -> dict[int, list[float]]:
    """Return the hourly pay of each approved assignment, by worker."""
    wages: dict[int, list[float]] = {}
    for one in chain.from_iterable(earned_work(session, task) for task in tasks):
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
        .where(Worker.marketplace == marketplace, *LIVE_BLOCK)
    )
    return dict(session.execute(wanted).all())


FULL_SCORE = 100
QUIZ_ACTOR = "quiz"


class WorkerAccess:
    """Qualifications and blocks on one marketplace."""

    def __init__(self, store: Store, crowd: Crowd, clock: Clock) -> None:
        self._store = store
        self._crowd = crowd
        self._clock = clock

    def qualification(self, task: Task) -> Qualification:
        """Return the task's qualification; create it on the marketplace if it is missing."""
        wanted = select(Qualification).where(
            Qualification.task_id == task.id, Qualification.marketplace == self._crowd.name
        )
        with self._store.read() as session:
            known = session.scalar(wanted.limit(1))
        if known is not None and known.external_id:
            return known
        name = f"outfox {task.name}"
        made = self._crowd.ensure_qualification(name, _description(task))
        with self._store.write() as session:
            row = find_or_add(
                session,
                wanted.limit(1),
                lambda: Qualification(
                    task_id=task.id, marketplace=self._crowd.name, name=name, created_at=self._clock.now()
                ),
            )
            row.external_id = made.qualification_id
            session.flush()
        return row

    def grant(self, task: Task, worker_id: str, *, actor: str, reason: str, score: int = FULL_SCORE) -> None:
        """Grant the task's qualification to a worker; a worker who has it keeps the first grant."""
        held = self.qualification(task)
        self._crowd.grant(held.external_id or "", worker_id, score)
        now = self._clock.now()
        with self._store.write() as session:
            worker = ensure_worker(session, self._crowd.name, worker_id, now=now)
            if session.scalar(self._live_grant(held, worker)) is not None:
                return
            row = QualificationGrant(qualification_id=held.id, worker_id=worker.id, score=score, granted_at=now)
            # If another process grants it at the same time, its grant is the first one.
            with suppress(DuplicateError), session.begin_nested():
                session.add(row)
                session.flush()
                audit.note(session, "granted", row, actor=actor, reason=reason, now=now, of=held)

    def withdraw(self, task: Task, worker_id: str, *, actor: str, reason: str) -> None:
        """Revoke a worker's qualification: the consequence of bad work, instead of a rejection."""
        if not reason.strip():
            raise ReasonRequired("withdrawing a qualification needs a reason for the worker")
        held = self.qualification(task)
        self._crowd.revoke(held.external_id or "", worker_id, reason.strip())
        now = self._clock.now()
        with self._store.write() as session:
            worker = ensure_worker(session, self._crowd.name, worker_id, now=now)
            row = session.scalar(self._live_grant(held, worker))
            if row is not None:
                row.revoked_at, row.reason = now, reason.strip()
                audit.note(session, "withdrew", row, actor=actor, reason=reason, now=now, of=held)

    def block(self, worker_id: str, *, actor: str, reason: str) -> None:
        """Block a worker from all tasks; repeating the call changes nothing."""
        if not reason.strip():
            raise ReasonRequired("a block needs a reason")
        self._crowd.block(worker_id, reason.strip())
        now = self._clock.now()
        with self._store.write() as session:
            worker = ensure_worker(session, self._crowd.name, worker_id, now=now)
            if session.scalar(self._live_block(worker)) is None:
                row = Block(worker_id=worker.id, reason=reason.strip(), blocked_by=actor, blocked_at=now)
                session.add(row)
                session.flush()
                audit.note(session, "blocked", row, actor=actor, reason=reason, now=now)

    def unblock(self, worker_id: str, *, actor: str, reason: str) -> None:
        """Lift a worker's block."""
        self._crowd.unblock(worker_id, reason.strip())
        now = self._clock.now()
        with self._store.write() as session:
            worker = ensure_worker(session, self._crowd.name, worker_id, now=now)
            row = session.scalar(self._live_block(worker))
            if row is not None:
                row.lifted_at = now
                audit.note(session, "unblocked", row, actor=actor, reason=reason, now=now)

    def _live_grant(self, held: Qualification, worker: Worker) -> Select[QualificationGrant]:
        return select(QualificationGrant).where(
            QualificationGrant.qualification_id == held.id,
            QualificationGrant.worker_id == worker.id,
            QualificationGrant.revoked_at.is_(None),
        )

    def _live_block(self, worker: Worker) -> Select[Block]:
        return select(Block).where(Block.worker_id == worker.id, *LIVE_BLOCK)


def _description(task: Task) -> str:
    """Return the description that workers without the qualification read."""
    spec = spec_of(task)
    if spec.quiz is None or not spec.pay.quiz_cents:
        return f"The requester of “{spec.title}” grants it."
    return f"Pass the quiz of “{spec.title}”, which is one of our tasks. The quiz is paid, passed or not."


class _LockedElsewhere(Exception):
    """Another process is granting."""


def grant_passed_quizzes(store: Store, marketplace: str, access: Callable[[], WorkerAccess]) -> int:
    """Grant the qualification to workers who passed a quiz, unless another process is doing it; return how many.

    One worker's refusal does not stop the others. Processes on several machines use a lock in the database, and read
    who is due while they hold it: a worker who was qualified and lost the qualification since is not due again.
    """
    try:
        with process_lock(store, f"qualifying-{marketplace}", _skip):
            return _grant_passed(store, marketplace, access)
    except _LockedElsewhere:
        return 0


def _grant_passed(store: Store, marketplace: str, access: Callable[[], WorkerAccess]) -> int:
    with store.read() as session:
        passed = ungranted_passes(session, marketplace)
    if not passed:
        return 0
    granting = access()
    refused: list[CrowdRefused] = []
    for one in passed:
        why = f"passed the quiz with {one.score} of 100"
        try:
            granting.grant(one.task, one.worker_id, actor=QUIZ_ACTOR, reason=why, score=one.score)
        except CrowdAccessDenied:
            raise
        except CrowdRefused as error:
            refused.append(error)
    if refused:
        raise refused[0]
    return len(passed)


def _skip() -> None:
    raise _LockedElsewhere
