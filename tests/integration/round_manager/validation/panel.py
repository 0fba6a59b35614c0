"""Where tests write examples for money and vote on them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select

from crowd.profile import Price
from round_manager.database.store import Store
from round_manager.examples.votes import cast_vote
from round_manager.models import (
    Assignment,
    AuditEntry,
    EntryKind,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    LedgerEntry,
    Round,
    RoundStatus,
    Source,
    Task,
    UncountedVote,
    Vote,
    WorkSession,
)
from round_manager.money.budget import figures, set_round_budget
from round_manager.money.hit_terms import shape_of
from round_manager.money.ledger import PossiblePayment, reserve
from round_manager.validation.decisions import Decisions, decide_round
from round_manager.workers import ensure_worker
from tests.integration.round_manager.work.floor import MARKET, Floor, lay_floor, shown_items

OWNER = "owner@here"


@dataclass
class Panel:
    """A floor with a budget and as many validators as needed."""

    floor: Floor

    @property
    def store(self) -> Store:
        return self.floor.store

    @property
    def round(self) -> Round:
        found: Round = self.floor.one(self.floor.round)
        return found

    @property
    def now(self) -> datetime:
        return self.floor.now

    def hit(self, assignments: int = 1) -> Hit:
        """A creation HIT with all that it can cost reserved."""
        spec = self.floor.spec
        hit = self.floor.hit(max_assignments=assignments)
        bonuses = shape_of(spec, HitKind.CREATE).bonuses * assignments
        reward = PossiblePayment(EntryKind.REWARD, Price(spec.pay.create_cents, 9))
        bonus = PossiblePayment(EntryKind.BONUS, Price(spec.pay.fooled_bonus_cents, 12))
        with self.store.write() as session:
            row = session.get_one(Hit, hit.id)
            reserve(session, [(row, reward)] * assignments + [(row, bonus)] * bonuses, now=self.now)
        return hit

    def written(self, worker: str = "W1", *, hit: Hit | None = None, fooled: bool = True) -> list[Example]:
        """Return a worker's examples of a HIT, confirmed by the marketplace."""
        work = self.write(worker, hit=hit, fooled=fooled)
        self.floor.confirm(work)
        return self.floor.rows(Example, Example.session_id == work.id)

    def write(self, worker: str = "W1", *, hit: Hit | None = None, fooled: bool = True) -> WorkSession:
        floor = self.floor
        work = floor.open(worker, hit=hit or self.hit(), assignment=f"AS-{worker}-{next(floor.numbers)}")
        if fooled:
            floor.write_all(work)
        else:
            with self.store.read() as session:
                items = [(one.item, one.target) for one in shown_items(session, work)]
            for item, target in items:
                text = f"This is {target} {work.id}.{item}"
                floor.ask(work, text, item)
                floor.hand_in(work, text, item)
        floor.finish(work)
        return work

    def vote(self, example: Example, *said: str | None, flag: str | None = None, voters: Sequence[str] = ()) -> None:
        """Votes by these people, else by some who have not voted before: labels, `None` for the author's, or a flag."""
        for place, one in enumerate(said or (None,)):
            with self.store.write() as session:
                row = session.get_one(Example, example.id)
                name = voters[place] if voters else f"V{next(self.floor.numbers)}"
                voter = ensure_worker(session, MARKET, name, now=self.now)
                judged: dict[str, Any] = {"label": one or row.label} if row.label else {"answer": row.answer}
                given = {"flag": flag} if flag else judged
                cast_vote(session, row, voter.id, source=Source.LABEL_STUDIO, voted_at=self.now, **given)

    def answer(self, example: Example, start: int, end: int) -> None:
        """A vote for a piece of the passage."""
        with self.store.write() as session:
            row = session.get_one(Example, example.id)
            voter = ensure_worker(session, MARKET, f"V{next(self.floor.numbers)}", now=self.now)
            passage = str(row.fields[self.floor.spec.model_input[1]])
            answer = {"text": passage[start:end], "start": start, "end": end}
            cast_vote(session, row, voter.id, source=Source.LABEL_STUDIO, voted_at=self.now, answer=answer)

    def other(self, example: Example, place: int = 0) -> str:
        """A label that is not the author's."""
        return [name for name in self.floor.spec.label_names if name != example.label][place]

    def set_budget(self, cents: int) -> None:
        with self.store.write() as session:
            task, round = session.get_one(Task, self.floor.task.id), session.get_one(Round, self.floor.round.id)
            set_round_budget(session, task, round, cents, actor=OWNER, reason="a test", now=self.now)

    def spend_all(self) -> int:
        """Reduce the round's budget to the committed money; return that amount."""
        with self.store.read() as session:
            known = figures(session, session.get_one(Round, self.floor.round.id))
        self.set_budget(known.budget_cents - known.released_cents)
        return known.budget_cents - known.released_cents

    def decide(self) -> Decisions:
        return decide_round(self.store, self.round, now=self.now)

    def status(self, example: Example) -> ExampleStatus:
        found: ExampleStatus = self.floor.one(example).status
        return found

    def bonuses(self) -> dict[str, int]:
        """The bonuses in the ledger, by where they are."""
        entries: list[LedgerEntry] = self.floor.rows(LedgerEntry, LedgerEntry.kind == EntryKind.BONUS)
        return dict(Counter(entry.state.value for entry in entries))

    def owed_to(self) -> list[int]:
        """The examples whose bonuses are owed or paid."""
        entries: list[LedgerEntry] = self.floor.rows(LedgerEntry, LedgerEntry.example_id.is_not(None))
        return [entry.example_id or 0 for entry in entries]

    def uncounted(self) -> int:
        with self.store.read() as session:
            return len(session.scalars(select(UncountedVote.vote_id)).all())

    def votes(self) -> list[Vote]:
        return self.floor.votes()

    def audited(self, action: str) -> list[AuditEntry]:
        return self.floor.rows(AuditEntry, AuditEntry.action == action)

    def assignment(self, example: Example) -> Assignment:
        with self.store.read() as session:
            page = session.get_one(WorkSession, example.session_id)
            return session.get_one(Assignment, page.assignment_id)

    def close(self) -> None:
        self.floor.close_round()
        assert self.round.status is RoundStatus.CLOSED


def seat_panel(store: Store, name: str = "sentiment", **terms: Any) -> Panel:
    """A panel of a pack whose terms are changed: parts of the spec by name, with their new values."""
    return Panel(lay_floor(store, name, **terms))
