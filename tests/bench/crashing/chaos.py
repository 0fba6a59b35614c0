"""Random kills: two managers are killed and started repeatedly, behind proxies that lose and fail responses.

The seed decides about the moments: how many calls of which kind are made before the next kill, whether both managers
are killed at once, and how far their clocks jump.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self

import boto3
from sqlalchemy import select

from common.clock import SystemClock
from plugin.wiring import Application
from round_manager.database.store import Store, open_store
from round_manager.models import EntryState, Hit, HitStatus, LedgerEntry
from round_manager.services.context import ServiceContext
from templates import Pack
from tests.bench.crashing.books import Books, check_books
from tests.bench.crashing.crew import HOUR, Crew, CrewCounts
from tests.bench.crashing.manager_process import Job, manage
from tests.bench.crashing.place import Place, marketplace
from tests.campaign import start_campaign
from tests.campaign.base import changed_pack
from tests.fakes.clock import JumpingClock
from tests.fakes.marketplace_proxy import FaultPlan, MarketplaceProxy, proxy_of
from tests.fakes.s3 import S3Server
from tests.processes import ForkedProcess, preload

preload("tests.bench.crashing.manager_process")
MANAGERS = 2
CREATE_OR_PAY = ("CreateHITWithHITType", "ApproveAssignment", "SendBonus")
# Of the kills: after a call that creates or pays, after any call, or at any time.
SHARE_PAYING, SHARE_ANY_CALL = 0.6, 0.2
SHARE_BOTH = 0.2
# The most calls before a kill; those that create or pay are fewer.
MOST_CALLS, MOST_PAYING = 20, 4
LONGEST_TIME = 1.0
# A call of the chosen kind may not come: there is nothing of that kind to do, or a step waits after an error.
LONGEST_WAIT = 4.0
SHORTLY = 0.02
LONGEST_END = 300.0


@dataclass
class Survived:
    """The final state, and what happened until then."""

    books: Books
    crew: CrewCounts
    kills: int = 0
    # How many times something was in doubt after a kill, and how many times both managers were killed at once.
    in_flight: int = 0
    both: int = 0
    jumps: int = 0
    calls: int = 0
    faults: int = 0
    events: int = 0
    seconds: float = 0.0


def rough(seed: int) -> FaultPlan:
    """A marketplace that fails one call in six."""
    return FaultPlan(seed=seed, throttled=0.05, failed_after=0.06, dropped_after=0.05, delayed=0.30, delay_seconds=0.02)


def survive(
    folder: Path,
    database: str,
    *,
    kills: int,
    seed: int,
    fooling: int = 6,
    told: Callable[[int], None] = lambda _: None,
) -> Survived:
    """Run rounds of this many fooling examples until so many managers were killed and the last round is closed."""
    began, dice = time.monotonic(), Random(seed)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(database, upgrade=True))
        server, queue = stack.enter_context(_queue())
        place = stack.enter_context(marketplace(folder, server.environment))
        proxies = [stack.enter_context(proxy_of(place.url, rough(seed + number))) for number in range(MANAGERS)]
        repeated = stack.enter_context(_repeating(server, queue, Random(seed)))
        where = {"home": str(folder), "database": database, "queue": queue}
        job = Job(**where, marketplace=place.url, key_id=place.key_id, key_secret=place.key_secret, clock="")
        crew = stack.enter_context(_crew(store, place, job, fooling, Random(seed)))
        slots = [
            stack.enter_context(ManagerSlot(replace(job, marketplace=proxy.url), proxy, folder / f"clock-{n}", server))
            for n, proxy in enumerate(proxies)
        ]
        killer = Killer(slots, dice, lambda: _is_in_doubt(store))
        while killer.kills < kills:
            killer.strike(most=kills - killer.kills)
            crew.check()
            told(killer.kills)
        crew.stop_opening()
        crew.wait_for_end(LONGEST_END)
        books = check_books(store, place, written=crew.counts.written, submitted=crew.counts.submitted)
        return Survived(
            books,
            crew.counts,
            kills=killer.kills,
            in_flight=killer.in_flight,
            both=killer.both,
            jumps=killer.jumps + crew.counts.jumps,
            calls=sum(proxy.calls() for proxy in proxies),
            faults=sum(proxy.faults() for proxy in proxies),
            events=repeated(),
            seconds=time.monotonic() - began,
        )


def task_pack(fooling: int) -> Pack:
    """A task with small rounds, one text on each page, and pay that is too low for the time that most pages take."""
    pack = changed_pack(
        "sentiment",
        contexts=None,
        seeds=False,
        terms={
            "rounds": {"target_fooling": fooling},
            "validation": {"first_votes": 1, "max_votes": 1, "sample_non_fooling": 1.0, "gold_rate": 0.0},
            "work": {"validations_per_hit": 1, "repeat_context": True, "hits_at_once": 100},
            "pay": {"minimum_hourly_cents": 10_000, "top_up_cap_cents": 150, "top_up_review_cents": 95 * fooling},
            "budget": {"round_cents": 20_000, "task_cents": 10_000_000},
        },
    )
    changed = replace(pack, spec=pack.spec.model_copy(update={"quiz": None}))
    changed.__dict__.update(contexts=pack.contexts, seed=pack.seed)
    return changed


def _crew(store: Store, place: Place, job: Job, fooling: int, dice: Random) -> Crew:
    campaign = start_campaign(store, task_pack(fooling), now=SystemClock().now())
    application = Application(job.settings)
    services = ServiceContext(store, application.clock)
    return Crew(campaign, place, application.connected_crowd(services, application.crowd()), dice)


@dataclass
class ManagerSlot:
    """One of the managers, which is started again after each kill, with its proxy and its clock."""

    job: Job
    proxy: MarketplaceProxy
    clock_file: Path
    server: S3Server

    def __post_init__(self) -> None:
        self.clock = JumpingClock(self.clock_file)
        self.process: ForkedProcess | None = None
        self._is_ready = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start a manager."""
        job = replace(self.job, clock=str(self.clock_file))
        self.process = ForkedProcess(manage, job, environment=self.server.environment)
        self._is_ready = False

    def wait_until_ready(self) -> None:
        """Wait until the manager has started; raise an error if it has ended by itself."""
        if self.process is None or not self.process.is_running:
            raise RuntimeError("a manager ended by itself")
        if not self._is_ready and self.process.receive() != "ready":
            raise RuntimeError("a manager did not start")
        self._is_ready = True

    def send_kill(self) -> None:
        """Kill the manager without waiting for its end."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the manager, unless it is dead, and wait for its end."""
        if self.process is not None:
            self.process.kill()


@dataclass
class Killer:
    """Kills managers at random moments and starts them again, each time by another clock."""

    slots: list[ManagerSlot]
    dice: Random
    is_in_doubt: Callable[[], bool]
    kills: int = 0
    in_flight: int = 0
    both: int = 0
    jumps: int = 0

    def strike(self, most: int) -> None:
        """Kill the manager that makes the chosen call, or both."""
        victims = self._victims(most)
        for slot in self.slots:
            # The clocks of the dead and of the living jump.
            slot.clock.jump(self.dice.uniform(-HOUR, HOUR))
            self.jumps += 1
        for slot in victims:
            slot.start()

    def _victims(self, most: int) -> list[ManagerSlot]:
        chance, late = self.dice.random(), self.dice.uniform(0.0, SHORTLY)
        operations = CREATE_OR_PAY if chance < SHARE_PAYING else ()
        calls = self.dice.randint(1, MOST_PAYING if operations else MOST_CALLS)
        pause, chosen = self.dice.uniform(0.0, LONGEST_TIME), self.dice.choice(self.slots)
        is_both = self.dice.random() < SHARE_BOTH and most >= len(self.slots)
        if chance < SHARE_PAYING + SHARE_ANY_CALL:
            with ExitStack() as stack:
                marks = [slot.proxy.calls(*operations) + calls for slot in self.slots]
                for slot, mark in zip(self.slots, marks, strict=True):
                    # Its answer does not arrive before the manager is killed.
                    stack.enter_context(slot.proxy.held(mark, *operations))
                chosen = self._caller(operations, marks) or chosen
                time.sleep(late)
                return self._kill(chosen, both=is_both)
        time.sleep(pause)
        return self._kill(chosen, both=is_both)

    def _caller(self, operations: Sequence[str], marks: list[int]) -> ManagerSlot | None:
        """Wait for the first manager whose call it is; None if it does not come."""
        end = time.monotonic() + LONGEST_WAIT
        while time.monotonic() < end:
            for slot, mark in zip(self.slots, marks, strict=True):
                if slot.proxy.calls(*operations) >= mark:
                    return slot
            time.sleep(0.003)
        return None

    def _kill(self, chosen: ManagerSlot, *, both: bool) -> list[ManagerSlot]:
        victims = self.slots if both else [chosen]
        for slot in victims:
            slot.wait_until_ready()
        # Both die before the end of either is waited for.
        for slot in victims:
            slot.send_kill()
        for slot in victims:
            slot.kill()
        self.kills += len(victims)
        self.both += both
        self.in_flight += self.is_in_doubt()
        return victims


@contextmanager
def _queue() -> Iterator[tuple[S3Server, str]]:
    """Run moto's SQS with one queue."""
    server = S3Server()
    try:
        client = _sqs(server)
        yield server, str(client.create_queue(QueueName="events", Attributes={"VisibilityTimeout": "1"})["QueueUrl"])
    finally:
        server.stop()


def _sqs(server: S3Server) -> Any:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    return boto3.client("sqs", endpoint_url=server.url, **keys)


@contextmanager
def _repeating(server: S3Server, queue: str, dice: Random) -> Iterator[Callable[[], int]]:
    """Repeat some of the marketplace's events, and return the number of messages seen."""
    client = _sqs(server)
    end = threading.Event()
    seen = 0

    def run() -> None:
        nonlocal seen
        while not end.wait(0.5):
            for message in client.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", ()):
                seen += 1
                for _ in range(dice.choice((0, 1, 2))):
                    client.send_message(QueueUrl=queue, MessageBody=message["Body"])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield lambda: seen
    finally:
        end.set()
        thread.join()


def _is_in_doubt(store: Store) -> bool:
    sent = select(LedgerEntry.id).where(LedgerEntry.state == EntryState.SENT)
    posted = select(Hit.id).where(Hit.status == HitStatus.PLANNED, Hit.sent_at.is_not(None))
    with store.read() as session:
        return any(session.scalar(wanted.limit(1)) is not None for wanted in (sent, posted))
