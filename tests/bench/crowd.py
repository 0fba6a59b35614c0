"""`make bench-crowd`: how many calls the bridge makes of those that are needed, and how much of the time is its own.

HITs are posted, worked on, collected, approved and paid with a bonus each, against `outfox marketplace` as a process of
its own, through boto3. Needed is: one call for the group, then for every HIT one to post it, one to list its work, one
to approve and one for the bonus. Own is the time in which no call was on its way. Then reading is tried with nothing
new, after few and after many finished HITs. The last line is one JSON object.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sqlalchemy import select

from common.clock import SystemClock
from mturk.client import MTurkCrowd
from mturk.connection import Endpoint, connect
from mturk.marketplace import people
from plugin.cli.output import console, table
from plugin.cli.progress import ProgressBar
from round_manager.crowd.collection import Collector
from round_manager.crowd.hit_planning import HitRequest, plan_hits
from round_manager.crowd.hit_posting import HitPoster
from round_manager.crowd.payments import PaymentSender
from round_manager.crowd.reviews import approve
from round_manager.database.store import Store, open_store
from round_manager.models import Assignment, AssignmentStatus, EntryKind, HitKind, Round, Task
from round_manager.money.ledger import Debt, owe_new
from tests.bench.crashing.place import Place, marketplace
from tests.bench.crowd_calls import Watched
from tests.campaign import start_campaign

HITS = 10_000
OPEN = 50
CHUNK = 500
MOST_CALLS = 1.2
MOST_OWN = 0.25


class Bridge:
    """The services with one store and one marketplace; every call is recorded."""

    def __init__(self, store: Store, place: Place, threads: int) -> None:
        self.store = store
        self.place = place
        self.clock = SystemClock()
        self.calls = Watched()
        connection = connect(Endpoint(place.url, place.key_id, place.key_secret, name="market"), None, self.clock.now)
        self.calls.watch(connection)
        self.crowd = MTurkCrowd(connection)
        url = "http://pages.test/hits/{}".format
        self.poster = HitPoster(store, self.crowd, self.clock, lambda hit: url(hit.public_id.hex), threads=threads)
        self.collector = Collector(store, self.crowd, self.clock, threads=threads)
        self.payments = PaymentSender(store, self.crowd, self.clock, actor="bench", threads=threads)

    def plan(self, hits: int) -> None:
        now = self.clock.now()
        with self.store.write() as session:
            round = session.scalars(select(Round)).one()
            plan_hits(session, round, HitRequest(HitKind.CREATE, hits, 1, now + timedelta(days=5)), self.crowd, now=now)

    def decide(self) -> None:
        """Approve submitted work and record a bonus for each, some hundred at a time."""
        while True:
            now = self.clock.now()
            with self.store.write() as session:
                waiting = (Assignment.status == AssignmentStatus.SUBMITTED, Assignment.id > self.decided)
                wanted = select(Assignment).where(*waiting).order_by(Assignment.id).limit(CHUNK)
                works = session.scalars(wanted).all()
                if not works:
                    return
                approve(session, works, actor="bench", reason="all of it is good", now=now)
                price = self.crowd.bonus_price(10)
                owe_new(session, [Debt(work, EntryKind.EXTRA, price, "Thank you.") for work in works], now=now)
            self.decided = works[-1].id

    decided = 0


def _set_up(store: Store) -> None:
    """Create a task with an open round and a sufficient budget."""
    start_campaign(store, contexts=None, seeds=True)
    with store.write() as session:
        for owner in (session.scalars(select(Task)).one(), session.scalars(select(Round)).one()):
            owner.budget_cents = 100_000_00


def _campaign(
    bridge: Bridge, place: Place, hits: int, progress: ProgressBar
) -> tuple[list[tuple[str, int, int, float, float]], float, int]:
    """Every stage's calls, those it needs, its seconds and our own of them; our share of all; all calls needed."""
    stages: list[tuple[str, int, Callable[[], object]]] = [
        ("plan", 0, lambda: bridge.plan(hits)),
        ("post", hits, lambda: bridge.poster.run(progress)),
        ("collect", hits, lambda: bridge.collector.run(progress)),
        ("decide", 0, bridge.decide),
        ("pay", 2 * hits, lambda: bridge.payments.run(progress)),
    ]
    rows = []
    for name, needed, stage in stages:
        if name == "collect":
            _work(place, hits, progress)
        calls, flying, started = bridge.calls.counts.total(), bridge.calls.seconds, time.perf_counter()
        stage()
        wall = time.perf_counter() - started
        own = wall - (bridge.calls.seconds - flying)
        rows.append((name, bridge.calls.counts.total() - calls, needed, round(wall, 1), round(own, 1)))
    wall = sum(row[3] for row in rows)
    return rows, sum(row[4] for row in rows) / wall, sum(row[2] for row in rows)


def _work(place: Place, hits: int, progress: ProgressBar) -> None:
    """Submit everything that is posted; this time is not measured."""
    with place.market.write() as session:
        worker = people.add_worker(session, "Ann", place.market.now(), country="US", adult=True)
    progress.start(hits, "working")
    while done := place.work(worker, CHUNK):
        progress.advance(done)
    progress.finish()


def _idle_calls(bridge: Bridge, place: Place) -> int:
    """Measure a read of the marketplace with open and finished HITs and nothing new."""
    bridge.plan(OPEN)
    bridge.poster.run()
    _work(place, OPEN, ProgressBar())
    bridge.collector.run()
    bridge.decide()
    bridge.payments.run()
    bridge.plan(OPEN)
    bridge.poster.run()
    bridge.collector.run()
    before = bridge.calls.counts.total()
    bridge.collector.run()
    return bridge.calls.counts.total() - before


def main() -> int:
    """Run the benchmark; return exit code 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hits", type=int, default=HITS)
    parser.add_argument("--threads", type=int, default=8)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ProgressBar() as progress:
        database = f"sqlite:///{Path(folder) / 'outfox.db'}"
        with open_store(database, upgrade=True) as store, marketplace(Path(folder)) as place:
            _set_up(store)
            bridge = Bridge(store, place, chosen.threads)
            idle_before = _idle_calls(bridge, place)
            rows, share, needed = _campaign(bridge, place, chosen.hits, progress)
            idle_after = _idle_calls(bridge, place)
            paid = chosen.hits + 3 * OPEN
            right = (place.approvals(), place.bonuses()) == (paid, paid)
    total = sum(row[1] for row in rows)
    console().print(table(("stage", "calls", "needed", "seconds", "own seconds"), rows))
    console().print(
        f"reading with {OPEN} HITs open and nothing new: {idle_before} calls after {OPEN} finished HITs,"
        f" {idle_after} after {chosen.hits + OPEN:,}"
    )
    ratio = total / needed
    figures = {"calls_vs_needed": round(ratio, 4), "own_time_share": round(share, 3), "idle_poll_calls": idle_after}
    print(json.dumps(figures))
    return int(ratio > MOST_CALLS or share > MOST_OWN or idle_after > idle_before or not right)


if __name__ == "__main__":
    sys.exit(main())
