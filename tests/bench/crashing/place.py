"""A marketplace in a separate process, with a requester who has money, and workers who take its HITs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from common.clock import SystemClock
from mturk.marketplace import money, people, worker_actions
from mturk.marketplace.destinations import LOOPBACK
from mturk.marketplace.errors import MarketError
from mturk.marketplace.market import Market, open_market
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Bonus, Hit, HitType

DEPOSIT_CENTS = 100_000_00
ACCOUNT = "Lab"


@dataclass(frozen=True)
class TakenHit:
    """A HIT that a worker accepted, with the requester's key for it."""

    assignment_id: str
    key: str


@dataclass
class Place:
    """A running marketplace, as its operator sees it."""

    url: str
    key_id: str
    key_secret: str
    requester_id: str
    market: Market = field(repr=False)

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

    def add_workers(self, number: int) -> list[str]:
        """Add workers and return their ids."""
        with self.market.write() as session:
            added = [
                people.add_worker(session, "Ann", self.market.now(), country="US", adult=True) for _ in range(number)
            ]
        return [worker.id for worker in added]

    def accept(self, worker_id: str, dice: Random) -> TakenHit | None:
        """Let a worker accept a HIT of any group; None if there is none for them."""
        now = self.market.now
        with self.market.read() as session:
            groups = list(worker_actions.list_groups(session, _worker(session, worker_id), now()))
        # A HIT whose page has nothing to do goes back, and must not be the next one again.
        dice.shuffle(groups)
        for group in groups:
            with suppress(MarketError), self.market.write() as session:
                taken = worker_actions.accept(session, _worker(session, worker_id), group.group_id, now())
                hit = session.scalars(select(Hit).where(Hit.id == taken.hit_id)).one()
                return TakenHit(taken.id, hit.annotation or "")
        return None

    def submit(self, taken: TakenHit) -> None:
        """Submit an accepted HIT."""
        with self.market.write() as session:
            worker_actions.submit(session, taken.assignment_id, {"text": "a sentence"}, self.market.now())

    def give_back(self, worker_id: str, taken: TakenHit) -> None:
        """Return an accepted HIT."""
        with self.market.write() as session:
            worker = _worker(session, worker_id)
            worker_actions.return_assignment(session, worker, taken.assignment_id, self.market.now())


def _worker(session: Session, worker_id: str) -> Worker:
    return session.scalars(select(Worker).where(Worker.id == worker_id)).one()


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
