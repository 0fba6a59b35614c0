"""The market: one database, used in transactions that first apply everything that is due."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Self

from sqlalchemy import Engine, bindparam, delete, exists, not_, or_, select
from sqlalchemy.orm import Session

from common.clock import Clock
from common.database import UtcTime, read_only
from common.database_engine import DatabaseLimits
from common.health import HealthCheck
from common.locks import FairLock
from mturk.marketplace import assignments, hits
from mturk.marketplace.database import MarketProbe, open_database
from mturk.marketplace.errors import MarketBusy
from mturk.marketplace.tables.work import TOKEN_LIFE, Assignment, AssignmentStatus, Hit, RequestToken

# Built once, because every transaction runs it.
_NOW = bindparam("now", type_=UtcTime())
_DUE = select(
    or_(
        exists().where(Assignment.status == AssignmentStatus.ACCEPTED, Assignment.deadline <= _NOW),
        exists().where(Assignment.status == AssignmentStatus.SUBMITTED, Assignment.auto_approve_at <= _NOW),
        exists().where(not_(Hit.expired), Hit.expires_at <= _NOW),
    )
)


class Market:
    """The database of one marketplace, and its clock; create it with open_market."""

    def __init__(
        self, engine: Engine, clock: Clock, limits: DatabaseLimits | None = None, *, keep_health: float = 0.0
    ) -> None:
        self.engine = engine
        self.clock = clock
        self._limits = limits or DatabaseLimits()
        self._read_only = read_only(engine)
        # Writers of one process queue here: SQLite's own queue makes them sleep for longer and longer.
        self._turn = FairLock()
        self._probe = MarketProbe(engine)
        self.health = HealthCheck(self._probe.run, keep=keep_health)

    def now(self) -> datetime:
        """Return the current time."""
        return self.clock.now()

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a transaction in which everything due was applied; commit at the end, roll back on an error.

        Writers run one after the other: keep it short, and call nothing outside the process from inside it.
        """
        if not self._turn.acquire(self._limits.lock):
            raise MarketBusy("too many threads of this process are waiting to write")
        try:
            # expire_on_commit off: rows stay readable after the block.
            with Session(self.engine, expire_on_commit=False) as session, session.begin():
                _apply_due(session, self.now())
                yield session
        finally:
            self._turn.release()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a snapshot in which everything due was applied; changes to it are discarded."""
        with self.glance() as session:
            if not _anything_due(session, self.now()):
                yield session
                return
        with self.write():
            pass
        with self.glance() as session:
            yield session

    @contextmanager
    def glance(self) -> Iterator[Session]:
        """Open a snapshot as the last writer left it, for data that no deadline changes."""
        with Session(self._read_only, expire_on_commit=False, autoflush=False) as session:
            yield session

    def close(self) -> None:
        """Close all connections."""
        self._probe.close()
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def open_market(url: str, clock: Clock, limits: DatabaseLimits | None = None, *, keep_health: float = 0.0) -> Market:
    """Open the market at a database URL; create its tables where they are missing.

    `keep_health` is for how many seconds a result of the health check is returned again.
    """
    return Market(open_database(url, limits), clock, limits, keep_health=keep_health)


def _anything_due(session: Session, now: datetime) -> bool:
    return bool(session.execute(_DUE, {"now": now}).scalar())


def _apply_due(session: Session, now: datetime) -> None:
    """Expire HITs, release abandoned assignments and approve undecided ones, with the times at which they were due."""
    if not _anything_due(session, now):
        return
    for hit in session.scalars(select(Hit).where(not_(Hit.expired), Hit.expires_at <= now)).all():
        hits.expire(session, hit, now)
    abandoned = select(Assignment).where(Assignment.status == AssignmentStatus.ACCEPTED, Assignment.deadline <= now)
    for assignment in session.scalars(abandoned.order_by(Assignment.deadline)).all():
        assignments.release(session, assignment, now, abandoned=True)
    undecided = (
        select(Assignment, Hit)
        .join(Hit, Hit.id == Assignment.hit_id)
        .where(Assignment.status == AssignmentStatus.SUBMITTED, Assignment.auto_approve_at <= now)
        .order_by(Assignment.auto_approve_at)
    )
    for assignment, hit in session.execute(undecided).all():
        assignments.approve(session, assignment, hit, assignment.auto_approve_at or now)
    session.execute(delete(RequestToken).where(RequestToken.used_at <= now - TOKEN_LIFE))
    session.flush()
