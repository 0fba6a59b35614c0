"""Collection: reads what workers submitted from the marketplace. It can be repeated at any time.

A collection without news costs as much as the unfinished HITs, however many are finished.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from common.clock import Clock
from common.progress import NoProgress, Progress
from crowd.errors import CrowdError
from crowd.port import Crowd, EventQueue, HitState, PostedHit, SubmittedAssignment
from round_manager.crowd.calls import THREADS, check_account, find_hits
from round_manager.crowd.confirmation import store_works
from round_manager.database.store import Store
from round_manager.models import Assignment, AssignmentStatus, EntryKind, Hit, HitStatus
from round_manager.money.bonuses import SUBMITTED, settle_bonuses
from round_manager.money.ledger import release

BATCH = 64
DECIDED = (AssignmentStatus.APPROVED, AssignmentStatus.REJECTED)
# States of HITs that can no longer be accepted.
OVER = (HitState.REVIEWABLE, HitState.REVIEWING, HitState.DISPOSED)
UNKNOWN = "the marketplace does not know this HIT any more"


@dataclass(frozen=True)
class KnownHit:
    """A HIT in our database, with the numbers of its submitted and of its decided assignments."""

    id: int
    external_id: str
    handed_in: int
    decided: int
    status: HitStatus
    expires_at: datetime | None
    last_error: str | None

    def differs(self, posted: PostedHit) -> bool:
        """Return whether the marketplace has assignments or decisions that we do not have."""
        return (posted.undecided + posted.completed, posted.completed) != (self.handed_in, self.decided)

    def has_moved(self, posted: PostedHit) -> bool:
        """Return whether its status or its expiration has changed on the marketplace."""
        return (posted.state.value, posted.expires_at) != (self.status.value, self.expires_at)


@dataclass
class CollectionResult:
    """What one collection found; `unknown` counts our HITs that the marketplace does not know."""

    looked: int = 0
    works: int = 0
    finished: int = 0
    unknown: int = 0


# A HIT of ours with its state on the marketplace; None if it is not there.
Seen = tuple[KnownHit, PostedHit | None]


class Collector:
    """Reads what is new on one marketplace; safe to run twice at once."""

    def __init__(self, store: Store, crowd: Crowd, clock: Clock, *, threads: int = THREADS) -> None:
        self._store = store
        self._crowd = crowd
        self._clock = clock
        self._threads = threads

    def run(self, progress: Progress | None = None) -> CollectionResult:
        """Read everything that is unfinished."""
        return self._collect(self._unfinished(), progress or NoProgress())

    def hinted(self, hit_ids: Iterable[str]) -> CollectionResult:
        """Read only these HITs, by the marketplace's ids; HITs that are finished or not ours are skipped."""
        wanted = set(hit_ids)
        found = [one for one in self._unfinished() if one.external_id in wanted]
        return self._collect(found, NoProgress(), listed=False)

    def _unfinished(self) -> list[KnownHit]:
        work = select(
            Assignment.hit_id,
            func.count().filter(Assignment.status.in_(SUBMITTED)).label("handed_in"),
            func.count().filter(Assignment.status.in_(DECIDED)).label("decided"),
        )
        # Only unfinished HITs: this query runs often, and most assignments belong to finished HITs.
        unfinished = (Hit.marketplace == self._crowd.name, Hit.finished_at.is_(None))
        mine = work.join(Hit, Hit.id == Assignment.hit_id).where(*unfinished)
        counts = mine.group_by(Assignment.hit_id).subquery()
        hits = (
            select(
                Hit.id, Hit.external_id, func.coalesce(counts.c.handed_in, 0), func.coalesce(counts.c.decided, 0),
                Hit.status, Hit.expires_at, Hit.last_error,
            )
            .outerjoin(counts, counts.c.hit_id == Hit.id)
            .where(*unfinished, Hit.external_id.is_not(None))
        )  # fmt: skip
        with self._store.read() as session:
            return [KnownHit(*row) for row in session.execute(hits.order_by(Hit.id))]

    def _collect(self, hits: Sequence[KnownHit], progress: Progress, *, listed: bool = True) -> CollectionResult:
        outcome, known = CollectionResult(), {one.external_id: one for one in hits}
        progress.start(0, "collecting work")
        batch: list[Seen] = []
        with ThreadPoolExecutor(self._threads) as pool:
            for hit_id, posted in find_hits(self._crowd, known, self._threads, listed=listed):
                outcome.looked += 1
                batch.append((known[hit_id], posted))
                if len(batch) == BATCH:
                    self._read(batch, pool, outcome)
                    progress.advance(len(batch), f"{outcome.works} new")
                    batch = []
            self._read(batch, pool, outcome)
        progress.finish()
        return outcome

    def _read(self, batch: Sequence[Seen], pool: ThreadPoolExecutor, outcome: CollectionResult) -> None:
        """List the assignments of the HITs that changed, then store them in one transaction."""
        changed = [(known, posted) for known, posted in batch if posted and known.differs(posted)]
        works = dict(zip((known.id for known, _ in changed), pool.map(self._works, changed), strict=True))
        # A HIT that is over and has undecided assignments is finished by their decisions.
        over = {
            known.id
            for known, posted in batch
            if posted and posted.state in OVER and not posted.pending + posted.undecided
        }
        touched = {
            known.id: posted
            for known, posted in batch
            if posted
            and (known.id in works or known.id in over or known.last_error == UNKNOWN or known.has_moved(posted))
        }
        now = self._clock.now()
        self._note_unknown([known for known, posted in batch if posted is None], outcome)
        if not touched:
            return
        with self._store.write() as session:
            rows = select(Hit).where(Hit.id.in_(touched)).order_by(Hit.id).with_for_update(key_share=True)
            hits = list(session.scalars(rows))
            for hit in hits:
                posted = touched[hit.id]
                hit.status, hit.expires_at = HitStatus(posted.state.value), posted.expires_at
                hit.max_assignments, hit.last_error = posted.max_assignments, None
            outcome.works += store_works(session, {hit: works.get(hit.id, ()) for hit in hits}, now=now)
            session.flush()
            outcome.finished += finish(session, hits, [hit for hit in hits if hit.id in over], now=now)

    def _note_unknown(self, missing: Sequence[KnownHit], outcome: CollectionResult) -> None:
        """Mark HITs that the marketplace does not know; their money stays reserved until a person decides."""
        outcome.unknown += len(missing)
        if missing:
            check_account(self._store, self._crowd, now=self._clock.now())
            with self._store.write() as session:
                unknown = update(Hit).where(Hit.id.in_([known.id for known in missing]))
                session.execute(unknown.values(last_error=UNKNOWN))

    def _works(self, seen: tuple[KnownHit, PostedHit]) -> list[SubmittedAssignment]:
        return list(self._crowd.assignments(seen[1].hit_id))


def finish(session: Session, hits: Collection[Hit], over: Collection[Hit], *, now: datetime) -> int:
    """Finish HITs that cannot get further work, release what was not submitted, and return how many there were.

    `over` are HITs without a worker that cannot be accepted; the others are finished once all their work is decided.
    """
    open_hits = [hit for hit in hits if hit.finished_at is None]
    counted = (
        select(Assignment.hit_id, Assignment.status, func.count().label("works"))
        .where(Assignment.hit_id.in_([hit.id for hit in open_hits]))
        .group_by(Assignment.hit_id, Assignment.status)
    )
    works = {(row.hit_id, row.status): int(row.works) for row in session.execute(counted)}
    done = []
    for hit in open_hits:
        decided = sum(works.get((hit.id, status), 0) for status in DECIDED)
        waiting = works.get((hit.id, AssignmentStatus.SUBMITTED), 0)
        if not waiting and (hit in over or decided >= hit.max_assignments):
            hit.finished_at = now
            done.append(hit)
    settle_bonuses(session, done, now=now)
    release(session, [hit.id for hit in done], EntryKind.REWARD, now=now)
    return len(done)


SECONDS_AFTER_ERROR = 5.0
# Short waits, so that a request to stop is noticed soon.
SECONDS_TO_LISTEN = 5
_log = logging.getLogger(__name__)


class CollectionLoop:
    """Collects soon after events and at regular intervals, until `pause` (which waits) returns true.

    Events are hints: they may arrive twice, late or never. The HITs that they name are read on the marketplace, and
    everything unfinished is read at each interval.
    """

    def __init__(
        self,
        collector: Collector,
        events: EventQueue | None,
        *,
        every: float,
        pause: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collector = collector
        self._events = events
        self._every = every
        self._pause = pause
        self._clock = clock

    def run(self, report: Callable[[CollectionResult], None]) -> None:
        """Collect, and call `report` after each collection that found something."""
        due = self._clock()
        while not self._pause(0):
            try:
                if self._clock() >= due:
                    due = self._clock() + self._every
                    self._report(self._collector.run(), report)
                elif self._events is None:
                    self._pause(due - self._clock())
                else:
                    self._read_events(self._events, due, report)
            except CrowdError as error:
                # The message is ours and contains nothing that people typed.
                _log.warning("collection failed", extra={"data": {"error": str(error)}})
                self._pause(SECONDS_AFTER_ERROR)

    def _read_events(self, events: EventQueue, due: float, report: Callable[[CollectionResult], None]) -> None:
        changed = events.take(max(0, min(SECONDS_TO_LISTEN, int(due - self._clock()))))
        if changed.hit_ids:
            self._report(self._collector.hinted(changed.hit_ids), report)
        # Last: if the process ends before this, the events arrive again.
        events.done(changed)

    def _report(self, found: CollectionResult, report: Callable[[CollectionResult], None]) -> None:
        if found.works or found.finished:
            report(found)
