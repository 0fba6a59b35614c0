"""The owner's crowd commands on a real marketplace, and the workers on the other side."""

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import select, text

from crowd.port import Crowd
from mturk.marketplace import money, worker_actions
from mturk.marketplace.services import earnings
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import Hit as MarketHit
from plugin.settings import load_settings
from plugin.wiring import Application
from round_manager.crowd.hit_planning import HitRequest, plan_hits
from round_manager.crowd.reviews import approve, give_bonus
from round_manager.database.store import Store, open_store
from round_manager.models import Assignment, Hit, HitKind, LedgerEntry, Round
from round_manager.money.budget import BudgetFigures
from round_manager.money.ledger import send
from tests.conftest import Outfox, Ran
from tests.fakes.market import DEPOSIT_CENTS, MarketServer

SENTIMENT = "sentiment"
# What the sentiment pack pays, and what the marketplace takes on top.
REWARD, REWARD_FEE, BONUS, BONUS_FEE = 45, 9, 60, 12
DAY = timedelta(days=1)
EACH = REWARD + REWARD_FEE + BONUS + BONUS_FEE


@dataclass
class CrowdCommands:
    """Runs `outfox crowd` commands, and acts as the marketplace's workers."""

    outfox: Outfox
    market: MarketServer
    database: str
    workers: dict[str, Worker] = field(default_factory=dict)

    def run(self, *arguments: object) -> Ran:
        """One `outfox crowd` command."""
        return self.outfox("crowd", *arguments)

    def run_json(self, *arguments: object, code: int = 0) -> Any:
        """Run a command with --json and return its data."""
        ran = self.run(*arguments, "--json")
        assert ran.code == code, ran
        return json.loads(ran.out)

    def run_text(self, *arguments: object) -> str:
        """Run a command that succeeds and return its text."""
        ran = self.run(*arguments)
        assert ran.code == 0, ran
        return ran.out

    def error_code(self, *arguments: object, code: int = 2) -> str:
        """The error code of a command that fails and prints nothing; `usage` for a wrong command line."""
        return str(self.error(*arguments, code=code)["code"])

    def error(self, *arguments: object, code: int = 2) -> dict[str, Any]:
        """The error of a command that fails and prints nothing."""
        ran = self.run(*arguments, "--json")
        assert (ran.code, ran.out, "Traceback" in ran.err) == (code, "", False), ran
        last = ran.err.splitlines()[-1]
        return dict(json.loads(last)) if last.startswith("{") else {"code": "usage", "error": last}

    def store(self) -> Store:
        """Open our database."""
        return open_store(self.database)

    def figures(self) -> BudgetFigures:
        """Return the round's budget figures, after checking that the statement adds up."""
        answer = self.run_json("statement", SENTIMENT)
        assert answer["adds_up"], answer
        _whole, line = answer["lines"]
        names = ("budget_cents", "reserved_cents", "owed_cents", "sent_cents")
        return BudgetFigures(*(line[name] for name in names))

    def post_hits(self, hits: int = 1, *more: object) -> Any:
        """Post creation HITs."""
        return self.run_json("post", SENTIMENT, "--kind", "create", "--hits", hits, "--yes", *more)

    def worker(self, name: str = "Ann") -> Worker:
        """Return a worker who is qualified for the sentiment task."""
        if name not in self.workers:
            self.workers[name] = self.market.make_worker(name)
            self.run_json("workers", "grant", SENTIMENT, self.workers[name].id)
        return self.workers[name]

    def submit_hit(self, name: str = "Ann", *, minutes: float = 1.0) -> str:
        """Let the worker accept a HIT and submit it after some minutes; return the assignment's id."""
        worker = self.worker(name)
        assignment = self.accept_hit(name)
        self.market.clock.advance(timedelta(minutes=minutes))
        with self.market.market.write() as session:
            return worker_actions.submit(
                session, assignment, {"text": "Fine."}, self.market.market.now(), worker_id=worker.id
            ).id

    def accept_hit(self, name: str = "Ann") -> str:
        """Let the worker accept a HIT; return the assignment's id."""
        worker, now = self.worker(name), self.market.market.now()
        with self.market.market.write() as session:
            (group, *_) = [
                one for one in worker_actions.list_groups(session, worker, now) if not one.title.startswith("Check")
            ]
            return worker_actions.accept(session, worker, group.group_id, now).id

    def available_hits(self, name: str) -> int:
        """Return how many HITs the worker can accept now."""
        worker = self.worker(name)
        with self.market.market.read() as session:
            return sum(one.available for one in worker_actions.list_groups(session, worker, self.market.market.now()))

    def earned(self, name: str = "Ann") -> int:
        """Return what the worker has earned, according to the marketplace."""
        return earnings.worker_earnings(self.market.market, self.worker(name).id).total_cents

    def account(self) -> int:
        """Return the account's balance, according to the marketplace."""
        with self.market.market.read() as session:
            return money.balance(session, money.available(self.market.requester.id))

    def spent(self) -> int:
        """Return what was spent or set aside, according to the marketplace."""
        return DEPOSIT_CENTS - self.account()

    def today(self, plus_days: int = 0) -> date:
        """Return the date in UTC."""
        return (datetime.now(UTC) + timedelta(days=plus_days)).date()

    def paid_hit(self) -> str:
        """Post one HIT and have it submitted, approved and paid; return the assignment's id."""
        self.post_hits(1)
        work = self.submit_hit()
        self.run_json("approve", "--all")
        return work

    def owe_rewards(self) -> None:
        """Owe all rewards without paying them on the marketplace."""
        with self.store() as store, store.write() as session:
            works = session.scalars(select(Assignment)).all()
            approve(session, works, actor="owner", reason="", now=datetime.now(UTC))

    def owe_bonus(self, work: str, reason: str = "Well done.") -> str:
        """Owe a bonus of 50 cents without sending it; return its key."""
        with self.store() as store, store.write() as session:
            done = session.scalars(select(Assignment).where(Assignment.external_id == work)).one()
            return give_bonus(session, self._crowd(), done, 50, reason, actor="owner", now=datetime.now(UTC)).key

    def mark_sent(self, key: str, *, ago: timedelta = timedelta()) -> None:
        """Mark a payment as sent without calling the marketplace, as if the process had been killed."""
        with self.store() as store, store.write() as session:
            entry = session.scalars(select(LedgerEntry).where(LedgerEntry.key == key)).one()
            send(session, [entry], now=datetime.now(UTC) - ago)

    def plan_hits(self, hits: int = 1, *, sent_ago: timedelta | None = None) -> str:
        """Plan HITs, and mark them as sent if asked, as if the process had been killed; return the last key."""
        now = datetime.now(UTC)
        with self.store() as store, store.write() as session:
            live = session.scalars(select(Round)).one()
            planned = plan_hits(session, live, HitRequest(HitKind.CREATE, hits, 1, now + DAY), self._crowd(), now=now)
            for hit in planned:
                hit.sent_at = None if sent_ago is None else now - sent_ago
            return planned[-1].key

    def lose_hit(self) -> str:
        """Give our oldest HIT to another requester, so that it is unknown to us; return its id."""
        another, _ = self.market.make_requester("Another lab")
        with self.store() as store, store.read() as books:
            hit_id = books.scalars(select(Hit.external_id).order_by(Hit.id)).first()
        with self.market.market.write() as session:
            session.scalars(select(MarketHit).where(MarketHit.id == hit_id)).one().requester_id = another.id
        return str(hit_id)

    def extend_hit(self) -> None:
        """Add an assignment to our HIT with another tool."""
        client = self.market.client()
        (hit,) = client.list_hits()["HITs"]
        client.create_additional_assignments_for_hit(
            HITId=hit["HITId"], NumberOfAdditionalAssignments=1, UniqueRequestToken="elsewhere"
        )

    def execute_sql(self, statement: str) -> None:
        """Change our database directly."""
        with self.store() as store, store.write() as session:
            session.execute(text(statement))

    def _crowd(self) -> Crowd:
        return Application(load_settings(os.environ)).crowd()
