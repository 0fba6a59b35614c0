"""Collection: reads what workers submitted from the marketplace. It can be repeated at any time.

A listing returns a hundred HITs per call, and most of them are finished. So the listing is read only while it is
cheaper: after as many calls as there are HITs left to find, those HITs are requested one by one. A collection without
news costs as much as the unfinished HITs, however many are finished.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from sqlalchemy import func, select, update

from common.clock import Clock
from common.progress import NoProgress, Progress
from crowd.errors import CrowdError, NotOnCrowd
from crowd.port import Crowd, EventQueue, PostedHit, SubmittedAssignment
from round_manager.crowd.calls import THREADS, check_account
from round_manager.crowd.mirror import DECIDED, HANDED_IN, finish, is_over, mirror_hit, mirror_works
from round_manager.database.store import Store
from round_manager.models import Assignment, Hit, HitStatus

PAGE = 100
BATCH = 64
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
    was_unknown: bool = False

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
        return self._collect(self._look(self._unfinished()), progress or NoProgress())

    def hinted(self, hit_ids: Iterable[str]) -> CollectionResult:
        """Read only these HITs, by the marketplace's ids; HITs that are finished or not ours are skipped."""
        wanted = set(hit_ids)
        found = {one.external_id: one for one in self._unfinished() if one.external_id in wanted}
        return self._collect(self._one_by_one(found), NoProgress())

    def _unfinished(self) -> list[KnownHit]:
        work = select(
            Assignment.hit_id,
            func.count().filter(Assignment.status.in_(HANDED_IN)).label("handed_in"),
            func.count().filter(Assignment.status.in_(DECIDED)).label("decided"),
        )
        # Only unfinished HITs: this query runs often, and most assignments belong to finished HITs.
        unfinished = (Hit.marketplace == self._crowd.name, Hit.finished_at.is_(None))
        mine = work.join(Hit, Hit.id == Assignment.hit_id).where(*unfinished)
        counts = mine.group_by(Assignment.hit_id).subquery()
        hits = (
            select(
                Hit.id,
                Hit.external_id,
                counts.c.handed_in,
                counts.c.decided,
                Hit.status,
                Hit.expires_at,
                Hit.last_error,
            )
            .outerjoin(counts, counts.c.hit_id == Hit.id)
            .where(*unfinished, Hit.external_id.is_not(None))
        )
        with self._store.read() as session:
            rows = session.execute(hits.order_by(Hit.id)).all()
        return [
            KnownHit(
                row.id,
                row.external_id,
                row.handed_in or 0,
                row.decided or 0,
                row.status,
                row.expires_at,
                row.last_error == UNKNOWN,
            )
            for row in rows
        ]

    def _look(self, unfinished: Sequence[KnownHit]) -> Iterator[Seen]:
        unseen = {one.external_id: one for one in unfinished}
        listing = self._crowd.hits()
        pages = 0
        while unseen and pages < len(unseen):
            pages += 1
            page = list(islice(listing, PAGE))
            for posted in page:
                known = unseen.pop(posted.hit_id, None)
                if known is not None:
                    yield known, posted
            if len(page) < PAGE:
                break
        yield from self._one_by_one(unseen)

    def _one_by_one(self, hits: dict[str, KnownHit]) -> Iterator[Seen]:
        with ThreadPoolExecutor(self._threads) as pool:
            yield from zip(hits.values(), pool.map(self._ask, hits), strict=True)

    def _ask(self, hit_id: str) -> PostedHit | None:
        try:
            return self._crowd.hit(hit_id)
        except NotOnCrowd:
            return None

    def _collect(self, seen: Iterable[Seen], progress: Progress) -> CollectionResult:
        outcome = CollectionResult()
        progress.start(0, "collecting work")
        batch: list[Seen] = []
        with ThreadPoolExecutor(self._threads) as pool:
            for one in seen:
                outcome.looked += 1
                batch.append(one)
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
        over = {known.id for known, posted in batch if posted and is_over(posted) and not posted.undecided}
        touched = {
            known.id: posted
            for known, posted in batch
            if posted and (known.id in works or known.id in over or known.was_unknown or known.has_moved(posted))
        }
        now = self._clock.now()
        self._note_unknown([known for known, posted in batch if posted is None], outcome)
        if not touched:
            return
        with self._store.write() as session:
            rows = select(Hit).where(Hit.id.in_(touched)).order_by(Hit.id).with_for_update(key_share=True)
            hits = list(session.scalars(rows))
            for hit in hits:
                mirror_hit(hit, touched[hit.id])
            outcome.works += mirror_works(session, {hit: works.get(hit.id, ()) for hit in hits}, now=now)
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
