"""A marketplace in a separate process, with a requester who has money and a worker who accepts all HITs."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import func, select

from common.clock import SystemClock
from mturk.marketplace import money, people, worker_actions
from mturk.marketplace.destinations import LOOPBACK
from mturk.marketplace.errors import MarketError
from mturk.marketplace.market import Market, open_market
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Bonus, Hit, HitType

DEPOSIT_CENTS = 100_000_00
ACCOUNT = "Lab"


@dataclass
class Place:
    """A running marketplace, as its operator sees it."""

    url: str
    key_id: str
    key_secret: str
    requester_id: str
    market: Market = field(repr=False)

    def hits(self) -> int:
        """Return the number of posted HITs."""
        with self.market.read() as session:
            return session.scalar(select(func.count()).select_from(Hit)) or 0

    def approvals(self) -> int:
        """Return the number of approved assignments."""
        approved = Assignment.status == AssignmentStatus.APPROVED
        with self.market.read() as session:
            return session.scalar(select(func.count()).select_from(Assignment).where(approved)) or 0

    def bonuses(self) -> int:
        """Return the number of paid bonuses."""
        with self.market.read() as session:
            return session.scalar(select(func.count()).select_from(Bonus)) or 0

    def spent_cents(self) -> int:
        """Return the cents that the requester has spent."""
        with self.market.read() as session:
            left = money.balance(session, money.available(self.requester_id))
            return DEPOSIT_CENTS - left - money.balance(session, money.held(self.requester_id))

    def work(self, worker: Worker, most: int) -> int:
        """Accept and submit available work, up to a limit; return the number submitted."""
        now = self.market.now
        with self.market.write() as session:
            groups = session.scalars(select(HitType.group_id)).all()
            done = 0
            for group in groups:
                try:
                    while done < most:
                        taken = worker_actions.accept(session, worker, group, now())
                        worker_actions.submit(session, taken.id, {"text": "a sentence"}, now())
                        done += 1
                except MarketError:
                    continue
            return done


@contextmanager
def marketplace(
    folder: Path, environment: dict[str, str] | None = None, processes: int = 1, log: Path | None = None
) -> Iterator[Place]:
    """Run `outfox marketplace` in a separate home until the end of the block; it logs to a file if one is given."""
    command = [str(Path(sys.executable).parent / "outfox"), "--home", str(folder)]
    database = f"sqlite:///{folder / 'marketplace.db'}"
    market = open_market(database, SystemClock())
    with market.write() as session:
        requester = people.add_requester(session, ACCOUNT, market.now())
        key = people.add_key(session, requester, market.now())
        people.deposit(session, requester, DEPOSIT_CENTS, market.now())
    serve = [
        *command,
        "marketplace",
        "--port",
        "0",
        "--database",
        database,
        "--workers",
        str(processes),
        "--grace",
        "8",
    ]
    # Queues for events are on this machine.
    own = {"OUTFOX_LOG_LEVEL": "warning", "OUTFOX_MARKETPLACE_QUEUE_NETWORKS": LOOPBACK}
    env = {**os.environ, **(environment or {}), **own}
    with (
        log.open("wb") if log else nullcontext() as errors,
        subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=errors, text=True, env=env) as process,
    ):
        try:
            first = process.stdout.readline() if process.stdout else ""
            yield Place(first.split()[2], key.id, key.secret, requester.id, market)
        finally:
            process.terminate()
            process.wait(60)
            market.close()


class Busy:
    """Submit posted work continuously in a separate thread."""

    def __init__(self, place: Place, *, each: int = 5, pause: float = 0.05) -> None:
        with place.market.write() as session:
            self._who = people.add_worker(session, "Ann", place.market.now(), country="US", adult=True)
        self._place = place
        self._each = each
        self._pause = pause
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Busy":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._pause):
            self._place.work(self._who, self._each)
