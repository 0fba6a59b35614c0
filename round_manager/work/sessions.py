"""Work sessions: a worker's page on the server, with its deadline and its time.

Everything that changes a session holds its row first, so that two tabs, a double click and the marketplace's own
confirmation come one after the other. Whoever also hands out work takes the task's turn before that, never after.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from round_manager.errors import TimeIsOver, WorkRefused
from round_manager.models import Hit, Lease, LeaseEnd, Round, SessionStatus, Task, WorkSession
from round_manager.tasks.rounds import LIVE
from round_manager.tasks.tasks import spec_of
from templates import TaskSpec

MILLISECOND = timedelta(milliseconds=1)
SWEPT_AT_ONCE = 500
# Sessions that stand for their worker; an expired or forged one counts for nothing.
STANDING = (SessionStatus.OPEN, SessionStatus.SUBMITTED, SessionStatus.CONFIRMED)


@dataclass(frozen=True)
class Desk:
    """A session with what it stands on: its HIT, its round (a quiz may have none) and the terms of the work."""

    work: WorkSession
    hit: Hit
    round: Round | None
    spec: TaskSpec

    @property
    def takes_work(self) -> bool:
        """Whether what is done now can still be stored."""
        return self.round is None or self.round.status in LIVE

    @property
    def open_round(self) -> Round:
        """The round, where there must be one."""
        if self.round is None:
            raise WorkRefused("this HIT belongs to no round; return it")
        return self.round


def find_session(session: Session, public_id: UUID) -> WorkSession:
    """The session of that public id, or a WorkRefused."""
    found = session.scalar(select(WorkSession).where(WorkSession.public_id == public_id))
    if found is None:
        raise WorkRefused("this page is not known here; open the HIT again on the marketplace")
    return found


def desk_of(session: Session, work: WorkSession) -> Desk:
    """What the session stands on, as it is now; nothing is held."""
    hit = session.get_one(Hit, work.hit_id)
    round = session.get_one(Round, hit.round_id) if hit.round_id is not None else None
    return Desk(work, hit, round, spec_of(round or session.get_one(Task, hit.task_id)))


def hold(session: Session, work: WorkSession) -> WorkSession:
    """The session's row as it is now, and nobody else's until the transaction ends."""
    session.flush()
    return session.get_one(WorkSession, work.id, with_for_update={"key_share": True}, populate_existing=True)


def in_time(session: Session, work: WorkSession, *, now: datetime) -> Desk:
    """The session held, open and in time, or one sentence that tells why nothing more can be done in it."""
    held = hold(session, work)
    if held.status in (SessionStatus.SUBMITTED, SessionStatus.CONFIRMED):
        raise WorkRefused("this HIT is handed in already; nothing can be changed any more")
    if held.status is SessionStatus.UNCONFIRMED:
        raise WorkRefused("the marketplace gave this HIT to somebody else; take another one")
    if held.status is SessionStatus.EXPIRED or now >= held.expires_at:
        raise TimeIsOver("the time for this HIT is over; return it and take another one")
    return desk_of(session, held)


def at_work(session: Session, work: WorkSession, *, now: datetime) -> Desk:
    """The same, while the round takes work too."""
    desk = in_time(session, work, now=now)
    if not desk.takes_work:
        raise WorkRefused("this round was closed and takes no more work; hand in the HIT as it is")
    return desk


def beat(session: Session, work: WorkSession, active_ms: int, *, now: datetime) -> int:
    """The active time so far, in all: what the page counted, never less than before, never more than has passed."""
    held = hold(session, work)
    if held.status is SessionStatus.OPEN:
        passed = (min(now, held.expires_at) - held.started_at) // MILLISECOND
        held.active_ms = max(held.active_ms, min(active_ms, passed))
        session.flush()
    return held.active_ms


def end_leases(session: Session, pages: Sequence[int], outcome: LeaseEnd, *, now: datetime) -> None:
    """Everything that these sessions have set aside is free again."""
    live = Lease.session_id.in_(pages) & Lease.session_id.is_not(None) & Lease.ended_at.is_(None)
    session.execute(update(Lease).where(live).values(ended_at=now, outcome=outcome))


def make_room(session: Session, hit: Hit, *, now: datetime) -> None:
    """One more page of the HIT can hold places for votes, and no more pages do than the HIT has: the oldest give way.

    Who gives way can go on: a judgement is confirmed without a place too.
    """
    # A page can be opened in anybody's name, and a HIT that was returned tells nobody.
    places = select(Lease.id).where(Lease.example_id.is_not(None), Lease.ended_at.is_(None))
    holding = select(WorkSession.id).where(
        WorkSession.hit_id == hit.id,
        places.where(Lease.session_id == WorkSession.id, Lease.session_id.is_not(None)).exists(),
    )
    newest_first = holding.order_by(WorkSession.started_at.desc(), WorkSession.id.desc())
    too_many = list(session.scalars(newest_first.offset(hit.max_assignments - 1)))
    # A place that its own page changes at this moment is left for the next opening: nobody waits for two pages at once.
    given_up = _some(session, places.where(Lease.session_id.in_(too_many), Lease.session_id.is_not(None)))
    session.execute(update(Lease).where(Lease.id.in_(given_up)).values(ended_at=now, outcome=LeaseEnd.RETURNED))


def sweep(session: Session, *, now: datetime) -> int:
    """Ends sessions and leases whose time is over, and marks what the marketplace will never confirm; how many.

    What another transaction holds at this moment is left for the next sweep.
    """
    late = select(WorkSession.id).where(WorkSession.status == SessionStatus.OPEN, WorkSession.expires_at <= now)
    expired = _some(session, late.order_by(WorkSession.expires_at))
    _mark(session, expired, SessionStatus.EXPIRED)
    end_leases(session, expired, LeaseEnd.EXPIRED, now=now)
    ended = select(Lease.id).where(Lease.ended_at.is_(None), Lease.expires_at <= now)
    over = _some(session, ended.order_by(Lease.expires_at))
    session.execute(update(Lease).where(Lease.id.in_(over)).values(ended_at=now, outcome=LeaseEnd.EXPIRED))
    finished = select(Hit.id).where(Hit.id == WorkSession.hit_id, Hit.finished_at.is_not(None))
    waiting = select(WorkSession.id).where(WorkSession.status == SessionStatus.SUBMITTED, finished.exists())
    unheard = _some(session, waiting)
    _mark(session, unheard, SessionStatus.UNCONFIRMED)
    end_leases(session, unheard, LeaseEnd.RETURNED, now=now)
    return len(expired) + len(over) + len(unheard)


def _some(session: Session, wanted: Select[int]) -> list[int]:
    # Its own order first: by the ids alone, SQLite would look at every row that there ever was.
    first = wanted.order_by(wanted.selected_columns[0]).limit(SWEPT_AT_ONCE)
    return list(session.scalars(first.with_for_update(key_share=True, skip_locked=True)))


def _mark(session: Session, pages: Sequence[int], status: SessionStatus) -> None:
    session.execute(update(WorkSession).where(WorkSession.id.in_(pages)).values(status=status))
