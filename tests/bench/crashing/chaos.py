"""Random kills: a driver is started and killed repeatedly, behind a proxy that loses and fails responses."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import boto3
from sqlalchemy import func, select

from round_manager.database.store import Store, open_store
from round_manager.models import EntryKind, EntryState, Hit, HitStatus, LedgerEntry, Round, Task
from round_manager.money.budget import drift, statement
from tests.bench.crashing.driver import Job
from tests.bench.crashing.place import Busy, Place, marketplace
from tests.campaign import start_campaign
from tests.fakes.clock import NOON
from tests.fakes.marketplace_proxy import FaultPlan, MarketplaceProxy, proxy_of
from tests.fakes.s3 import S3Server

ROOT = Path(__file__).resolve().parents[3]
# Long: on a busy machine a call that creates or pays comes late, and only a pending one is in doubt.
LONGEST_LIFE = 30.0
ANY_MOMENT = 0.3
DANGEROUS = ("CreateHITWithHITType", "ApproveAssignment", "SendBonus", "SendBonus")
# The most calls of any kind before a driver is killed.
MOST_CALLS = 40
SHORTLY = 0.02
LONGEST_END = 300.0


@dataclass(frozen=True)
class Survived:
    """The final state of the marketplace and of our database."""

    kills: int
    # How many of the kills left something in doubt.
    in_flight: int
    hits: int
    approvals: int
    bonuses: int
    ledger_diff_cents: int
    calls: int
    faults: int
    events: int


def rough(seed: int) -> FaultPlan:
    """A marketplace that fails one call in five."""
    return FaultPlan(seed=seed, throttled=0.05, failed_after=0.06, dropped_after=0.05, delayed=0.30, delay_seconds=0.02)


def survive(
    folder: Path, *, hits: int, kills: int, seed: int, told: Callable[[int], None] = lambda _: None
) -> Survived:
    """Post, approve and pay everything with processes of which a given number is killed."""
    if hits <= kills:
        raise ValueError("every process needs its own HIT, and so does the last one")
    dice = random.Random(seed)
    database = f"sqlite:///{folder / 'outfox.db'}"
    with open_store(database, upgrade=True) as store:
        start_campaign(store, contexts=None, seeds=True)
    with _queue() as (server, queue), marketplace(folder, server.environment) as place:
        with proxy_of(place.url, rough(seed)) as proxy, Busy(place), _repeating(server, queue, dice) as repeated:
            keys = {"key_id": place.key_id, "key_secret": place.key_secret}
            where = {"database": database, "marketplace": proxy.url, "queue": queue, "queue_endpoint": server.url}
            job = Job(**where, **keys, hits=hits, hits_each_life=hits // (kills + 1))
            done = in_flight = 0
            while done < kills:
                done += _one_life(job, server.environment, proxy, dice)
                with open_store(database) as store:
                    in_flight += _is_in_doubt(store)
                told(done)
            _last_life(replace(job, hits_each_life=hits), server.environment)
        with open_store(database) as store:
            return _survived(store, place, proxy, (done, in_flight), repeated())


def _one_life(job: Job, environment: dict[str, str], proxy: MarketplaceProxy, dice: random.Random) -> bool:
    """Run a driver; return whether it was killed before it was done."""
    with _driver(job, environment) as process:
        if process.stdout is None or process.stdout.readline().strip() != "begun":
            raise RuntimeError("the driver did not begin")
        # Mostly a call that creates or pays, sometimes any call; it is pending until the process is killed.
        operation = "" if dice.random() < ANY_MOMENT else dice.choice(DANGEROUS)
        call = proxy.calls(operation) + dice.randint(1, job.hits_each_life if operation else MOST_CALLS)
        with proxy.held(operation, call) if operation else nullcontext():
            _wait(process, lambda: proxy.calls(operation) >= call, dice)
            if process.poll() is None:
                process.kill()
                process.wait()
                return True
        if process.returncode:
            raise RuntimeError(f"the driver ended with {process.returncode}")
        raise RuntimeError("all was done before the last kill")


def _wait(process: "subprocess.Popen[str]", is_there: Callable[[], bool], dice: random.Random) -> None:
    """Wait until a random time shortly after the call begins."""
    end = time.monotonic() + LONGEST_LIFE
    while not is_there() and time.monotonic() < end and process.poll() is None:
        time.sleep(0.0005)
    time.sleep(dice.uniform(0.0, SHORTLY))


def _last_life(job: Job, environment: dict[str, str]) -> None:
    with _driver(job, environment) as process:
        if process.wait(LONGEST_END):
            raise RuntimeError(f"the driver ended with {process.returncode}")


def _driver(job: Job, environment: dict[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.bench.crashing.driver", json.dumps(asdict(job))]
    env = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=env)


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
def _repeating(server: S3Server, queue: str, dice: random.Random) -> Iterator[Callable[[], int]]:
    """Repeat some of the marketplace's events, and return the number of messages seen."""
    client = _sqs(server)
    end = threading.Event()
    seen = 0

    def run() -> None:
        nonlocal seen
        while not end.wait(0.2):
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


def _survived(store: Store, place: Place, proxy: MarketplaceProxy, kills: tuple[int, int], events: int) -> Survived:
    total = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents)
    with store.read() as session:
        books = int(session.scalar(select(total).where(LedgerEntry.state == EntryState.CONFIRMED)) or 0)
        task, round = session.scalars(select(Task)).one(), session.scalars(select(Round)).one()
        lines = statement(session, task, at=max(NOON, place.market.now().replace(year=2100)))
        apart = drift(session, task, lines[0]) + drift(session, round, lines[1])
        wrong = sum(not line.adds_up for line in lines)
        rewards = session.scalar(
            select(func.count()).where(LedgerEntry.kind == EntryKind.REWARD, LedgerEntry.state == EntryState.CONFIRMED)
        )
    if rewards != place.approvals():
        wrong += 1
    difference = abs(books - place.spent_cents()) + apart + wrong
    counts = (place.hits(), place.approvals(), place.bonuses())
    return Survived(*kills, *counts, difference, proxy.calls(), proxy.faults(), events)
