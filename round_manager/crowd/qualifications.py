"""WorkerAccess: who may work on a task, and who may not.

The marketplace is told first and our rows follow, so a row never says more than what holds there; every step can be
repeated.
"""

from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Select, select

from common.clock import Clock
from crowd.errors import CrowdAccessDenied, CrowdRefused
from crowd.port import Crowd
from round_manager import audit
from round_manager.database.locks import process_lock
from round_manager.database.store import Store
from round_manager.errors import CrowdWorkError, DuplicateError
from round_manager.models import Block, Qualification, QualificationGrant, Task, Worker
from round_manager.specs import spec_of
from round_manager.work.quizzes import ungranted_passes
from round_manager.workers import ensure_worker

PASSED = 100


class WorkerAccess:
    """Qualifications and blocks on one marketplace."""

    def __init__(self, store: Store, crowd: Crowd, clock: Clock) -> None:
        self._store = store
        self._crowd = crowd
        self._clock = clock

    def qualification(self, task: Task) -> Qualification:
        """The task's qualification, made on the marketplace where it is missing."""
        wanted = select(Qualification).where(
            Qualification.task_id == task.id, Qualification.marketplace == self._crowd.name
        )
        with self._store.read() as session:
            known = session.scalar(wanted.limit(1))
        if known is not None and known.external_id:
            return known
        name = f"outfox {task.name}"
        made = self._crowd.ensure_qualification(name, _how_to_get(task))
        with self._store.write() as session:
            row = session.scalar(wanted.limit(1))
            if row is None:
                row = Qualification(
                    task_id=task.id, marketplace=self._crowd.name, name=name, created_at=self._clock.now()
                )
                try:
                    with session.begin_nested():
                        session.add(row)
                except DuplicateError:  # Another process made it at this moment.
                    row = session.scalars(wanted.limit(1)).one()
            row.external_id = made.qualification_id
            session.flush()
        return row

    def grant(self, task: Task, worker_id: str, *, who: str, why: str, score: int = PASSED) -> None:
        """The worker may work on the task; a worker who may already keeps the first grant."""
        held = self.qualification(task)
        self._crowd.grant(held.external_id or "", worker_id, score)
        now = self._clock.now()
        with self._store.write() as session:
            worker = ensure_worker(session, self._crowd.name, worker_id, now=now)
            if session.scalar(self._live_grant(held, worker)) is not None:
                return
            row = QualificationGrant(qualification_id=held.id, worker_id=worker.id, score=score, granted_at=now)
            # Another process may grant it at this moment: its grant is the first, and this one no other.
            with suppress(DuplicateError), session.begin_nested():
                session.add(row)
                session.flush()
                audit.note(session, "granted", row, who=who, why=why, now=now, of=held)

    def withdraw(self, task: Task, worker_id: str, *, who: str, why: str) -> None:
        """The worker may no longer work on the task: what follows from bad work, in place of a rejection."""
        if not why.strip():
            raise CrowdWorkError("taking a qualification back needs a reason, which the worker reads")
        held = self.qualification(task)
        self._crowd.revoke(held.external_id or "", worker_id, why.strip())
        now = self._clock.now()
        with self._store.write() as session:
            worker = ensure_worker(session, self._crowd.name, worker_id, now=now)
            row = session.scalar(self._live_grant(held, worker))
            if row is not None:
                row.revoked_at, row.reason = now, why.strip()
                audit.note(session, "withdrew", row, who=who, why=why, now=now, of=held)

    def block(self, worker_id: str, *, who: str, why: str) -> None:
        """The worker gets no more work of any task; once more does no harm."""
        if not why.strip():
            raise CrowdWorkError("a block needs a reason; give one with --reason")
        self._crowd.block(worker_id, why.strip())
        now = self._clock.now()
        with self._store.write() as session:
            worker = ensure_worker(session, self._crowd.name, worker_id, now=now)
            if session.scalar(self._live_block(worker)) is None:
                row = Block(worker_id=worker.id, reason=why.strip(), blocked_by=who, blocked_at=now)
                session.add(row)
                session.flush()
                audit.note(session, "blocked", row, who=who, why=why, now=now)

    def unblock(self, worker_id: str, *, who: str, why: str) -> None:
        """The worker gets work again."""
        self._crowd.unblock(worker_id, why.strip())
        now = self._clock.now()
        with self._store.write() as session:
            worker = ensure_worker(session, self._crowd.name, worker_id, now=now)
            row = session.scalar(self._live_block(worker))
            if row is not None:
                row.lifted_at = now
                audit.note(session, "unblocked", row, who=who, why=why, now=now)

    def _live_grant(self, held: Qualification, worker: Worker) -> Select[QualificationGrant]:
        return select(QualificationGrant).where(
            QualificationGrant.qualification_id == held.id,
            QualificationGrant.worker_id == worker.id,
            QualificationGrant.revoked_at.is_(None),
        )

    def _live_block(self, worker: Worker) -> Select[Block]:
        return select(Block).where(Block.worker_id == worker.id, Block.lifted_at.is_(None), Block.task_id.is_(None))


def _how_to_get(task: Task) -> str:
    """What workers read who do not have the task's qualification."""
    spec = spec_of(task)
    if spec.quiz is None or not spec.pay.quiz_cents:
        return f"Whoever runs “{spec.title}” grants it."
    return f"Pass the quiz of “{spec.title}”; it is paid, passed or not, and stands among our tasks."


WHO = "quiz"


class _Taken(Exception):
    """Another process is at it."""


def grant_passed_quizzes(store: Store, marketplace: str, recruit: Callable[[], WorkerAccess]) -> int:
    """Grants what is due, unless another process is at it now; how many. A marketplace's no holds up nobody else.

    The processes may be on several machines, so they take turns by the database. Who is due is read inside the turn: a
    worker whom another process qualified, and who lost the qualification since, is not among them any more.
    """
    try:
        with process_lock(store, f"qualifying-{marketplace}", _leave):
            return _qualify(store, marketplace, recruit)
    except _Taken:
        return 0


def _qualify(store: Store, marketplace: str, recruit: Callable[[], WorkerAccess]) -> int:
    with store.read() as session:
        passed = ungranted_passes(session, marketplace)
    if not passed:
        return 0
    recruiting = recruit()
    refused: list[CrowdRefused] = []
    for one in passed:
        why = f"passed the quiz with {one.score} of 100"
        try:
            recruiting.grant(one.task, one.worker_id, who=WHO, why=why, score=one.score)
        except CrowdAccessDenied:
            raise
        except CrowdRefused as error:
            refused.append(error)
    if refused:
        raise refused[0]
    return len(passed)


def _leave() -> None:
    raise _Taken
