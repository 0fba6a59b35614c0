"""Votes on examples, their decisions, and the bonuses that authors earn."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from crowd.profile import Price
from round_manager.models import (
    Assignment,
    EntryKind,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    LedgerEntry,
    Source,
    UncountedVote,
    WorkSession,
    ensure_worker,
)
from round_manager.money.bonuses import most_bonuses
from round_manager.money.ledger import PossiblePayment, reserve
from round_manager.services.rounds import set_round_budget
from round_manager.services.validation import count_votes
from round_manager.validation.decisions import Decisions
from round_manager.work.validation_work import cast_vote
from tests.campaign.base import MARKET
from tests.campaign.hits import HitWork


class VoteWork(HitWork):
    """Writes examples for money, votes on them, and counts the votes."""

    def add_paid_hit(self, assignments: int = 1) -> Hit:
        """Store a creation HIT as if it had been posted, with all that it can cost reserved."""
        hit = self.add_hit(max_assignments=assignments)
        bonuses = most_bonuses(self.spec, HitKind.CREATE) * assignments
        reward = PossiblePayment(EntryKind.REWARD, Price(self.spec.pay.create_cents, 9))
        bonus = PossiblePayment(EntryKind.BONUS, Price(self.spec.pay.fooled_bonus_cents, 12))
        with self.store.write() as session:
            row = session.get_one(Hit, hit.id)
            reserve(session, [(row, reward)] * assignments + [(row, bonus)] * bonuses, now=self.now)
        return hit

    def write_page(self, worker: str = "W1", *, hit: Hit | None = None, fooled: bool = True) -> WorkSession:
        """Let a worker write all examples of a paid HIT and finish its page."""
        assignment = f"AS-{worker}-{next(self.numbers)}"
        work = self.open_page(worker, hit=hit or self.add_paid_hit(), assignment=assignment)
        self.write_examples(work, fooling=fooled)
        return self.finish_page(work)

    def confirmed_examples(self, worker: str = "W1", *, hit: Hit | None = None, fooled: bool = True) -> list[Example]:
        """Return the examples that a worker wrote for a paid HIT, confirmed by the marketplace."""
        work = self.write_page(worker, hit=hit, fooled=fooled)
        self.confirm(work)
        return self.rows(Example, Example.session_id == work.id)

    def vote(
        self,
        example: Example,
        *labels: str | None,
        flag: str | None = None,
        voters: Sequence[str] = (),
        source: Source = Source.LABEL_STUDIO,
    ) -> None:
        """Vote with labels, `None` for the author's, or with a flag; by these people, else by new ones."""
        for place, label in enumerate(labels or (None,)):
            judged: dict[str, Any] = {"label": label or example.label} if example.label else {"answer": example.answer}
            self._cast(example, voters[place] if voters else None, {"flag": flag} if flag else judged, source)

    def vote_answer(self, example: Example, start: int, end: int) -> None:
        """Vote for a piece of the passage."""
        passage = str(example.fields[self.spec.model_input[1]])
        self._cast(example, None, {"answer": {"text": passage[start:end], "start": start, "end": end}})

    def other_label(self, example: Example, place: int = 0) -> str:
        """Return a label that is not the author's."""
        return [name for name in self.spec.label_names if name != example.label][place]

    def set_budget(self, cents: int) -> None:
        set_round_budget(self.services, self.owner, self.spec.name, cents, reason="a test")

    def spend_budget(self) -> int:
        """Reduce the round's budget to the committed money; return that amount."""
        known = self.figures()
        self.set_budget(known.budget_cents - known.released_cents)
        return known.budget_cents - known.released_cents

    def decide(self) -> Decisions:
        """Count the votes."""
        return count_votes(self.services, self.spec.name).decisions

    def status_of(self, example: Example) -> ExampleStatus:
        found: ExampleStatus = self.reload(example).status
        return found

    def bonus_states(self) -> dict[str, int]:
        """Return how many bonuses of the ledger are in each state."""
        return self.ledger_states(EntryKind.BONUS)

    def examples_with_bonus(self) -> list[int]:
        """Return the ids of the examples whose bonuses are owed or paid."""
        return [entry.example_id for entry in self.rows(LedgerEntry, LedgerEntry.example_id.is_not(None))]

    def uncounted_votes(self) -> int:
        with self.store.read() as session:
            return len(session.scalars(select(UncountedVote.vote_id)).all())

    def assignment_of(self, example: Example) -> Assignment:
        with self.store.read() as session:
            page = session.get_one(WorkSession, example.session_id)
            return session.get_one(Assignment, page.assignment_id)

    def _cast(
        self, example: Example, voter: str | None, judged: dict[str, Any], source: Source = Source.LABEL_STUDIO
    ) -> None:
        with self.store.write() as session:
            row = session.get_one(Example, example.id)
            name = voter or f"V{next(self.numbers)}"
            worker = ensure_worker(session, MARKET, name, now=self.now)
            cast_vote(session, row, worker.id, source=source, voted_at=self.now, **judged)
