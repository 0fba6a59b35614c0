"""Decisions: a policy counts the votes. They make examples verified or disputed, and bonuses owed.

Each vote adds a note, which is removed when the vote has been counted. So only changes are processed, and a killed
process leaves a consistent state. Examples that another process has locked keep their notes until the next run.
"""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import cached_property
from operator import add
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from ml_backend.verdict import f1_score
from round_manager.database.store import Store
from round_manager.errors import RefusedError, StoreBusyError
from round_manager.models import (
    Example,
    ExampleStatus,
    Hit,
    Round,
    RoundStatus,
    UncountedVote,
    Vote,
    WorkSession,
    spec_of,
)
from round_manager.money.bonuses import BonusSettlement, settle_bonuses, settle_closed
from round_manager.policies import Grouping, Policy, Settled, exactly, find_policy, replay
from templates import TaskSpec

BATCH = 100
PATIENCE = 5
CLOSED_MEANWHILE = "guard_example_decided"
DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)
Json = dict[str, Any]
Same = Callable[[str, str], bool]


@dataclass(frozen=True)
class VoteValue:
    """One vote as it was given: a label, an answer, or a flag."""

    label: str | None = None
    answer: Json | None = None
    flag: str | None = None
    established: bool = False

    @property
    def said(self) -> str:
        """The counted value of a vote that is not a flag."""
        return self.label if self.label is not None else str((self.answer or {}).get("text"))


@dataclass(frozen=True)
class Outcome:
    """The outcome of an example's votes: its status, and the gold label or answer."""

    status: ExampleStatus
    gold_label: str | None = None
    gold_answer: Json | None = None
    votes_wanted: int = 0


@dataclass(frozen=True)
class VoteCounter:
    """Counts the votes of one round, by the terms that it was opened with."""

    spec: TaskSpec

    @cached_property
    def policy(self) -> Policy:
        """The round's policy."""
        return find_policy(self.spec.validation.policy)

    @cached_property
    def grouping(self) -> Grouping:
        """How votes are grouped before they are counted."""
        if self.spec.kind == "classification":
            return exactly
        return lambda votes, author: group_answers(votes, author, self.agree)

    def agree(self, one: str, other: str) -> bool:
        """Return whether two labels are equal, or two answers share enough words."""
        return one == other or (self.spec.kind == "qa" and f1_score(one, other) >= self.spec.validation.span_f1)

    def outcome(self, label: str | None, answer: Json | None, votes: Sequence[VoteValue]) -> Outcome:
        """Return the outcome for an example with its author's label or answer; flags do not count."""
        author = VoteValue(label, answer)
        judged = [vote for vote in votes if vote.flag is None]
        said = [vote.said for vote in judged]
        established = [vote.established for vote in judged]
        ruling = replay(self.policy, self.spec.validation, said, author.said, self.grouping, established)
        flags = len(votes) - len(judged)
        if not isinstance(ruling, Settled):
            # A flag takes the place of a vote but says nothing about the label.
            return Outcome(ExampleStatus.PENDING, votes_wanted=ruling.votes + flags)
        if ruling.gold is None:
            return Outcome(ExampleStatus.DISPUTED)
        if ruling.gold == author.said:
            return Outcome(ExampleStatus.VERIFIED, label, answer)
        other = next(vote for vote in judged if vote.said == ruling.gold)
        return Outcome(ExampleStatus.DISPUTED, other.label, other.answer)


def group_answers(answers: Sequence[str], author: str, same: Same) -> list[str]:
    """Return the group of each answer: the author's for all that agree with it, then the answer that most agree with.

    Agreement is not transitive, so groups are filled one after the other, in an order that does not depend on the order
    of the answers.
    """
    named: dict[str, str] = {one: author for one in set(answers) if same(one, author)}
    left = [one for one in answers if one not in named]
    while left:
        name = min(set(left), key=lambda one: (-sum(same(other, one) for other in left), one))
        named |= {other: name for other in set(left) if other == name or same(other, name)}
        left = [one for one in left if one not in named]
    return [named[one] for one in answers]


@dataclass(frozen=True)
class Decisions:
    """Examples by their new status, and bonuses that are owed, released or not covered by the budget."""

    verified: int = 0
    disputed: int = 0
    want_more: int = 0
    bonuses: int = 0
    released: int = 0
    uncovered: int = 0

    def __add__(self, other: "Decisions") -> "Decisions":
        return Decisions(*map(add, astuple(self), astuple(other)))


def decide_round(store: Store, round: Round, *, now: datetime) -> Decisions:
    """Decide everything that the votes so far allow; safe to repeat and to run concurrently.

    In a closed round nothing is decided, and reserved bonuses that can no longer be earned are released.
    """
    with store.read() as session:
        status = session.get_one(Round, round.id).status
    counter = None if status is RoundStatus.CLOSED else VoteCounter(spec_of(round))
    outcome = Decisions()
    # Separately, because the database keeps separate tallies: a transaction that locks one never waits for the other.
    for fooled in (True, False):
        after = 0
        while noted := _noted(store, round, after, fooled=fooled):
            after = noted[-1][0]
            try:
                outcome += _decide_batch(store, counter, noted, now)
            except RefusedError as error:
                if error.rule != CLOSED_MEANWHILE:
                    raise
                return outcome
    return outcome if counter else outcome + _release_rest(store, round, now)


def _noted(store: Store, round: Round, after: int, *, fooled: bool) -> list[tuple[int, int]]:
    """Return the next votes that have not been counted, with their examples."""
    wanted = (
        select(UncountedVote.vote_id, UncountedVote.example_id)
        .join(Example, Example.id == UncountedVote.example_id)
        .where(UncountedVote.round_id == round.id, UncountedVote.vote_id > after, Example.fooled.is_(fooled))
        .order_by(UncountedVote.vote_id)
        .limit(BATCH)
    )
    with store.read() as session:
        return [(vote, example) for vote, example in session.execute(wanted)]


def _decide_batch(
    store: Store, counter: VoteCounter | None, noted: Sequence[tuple[int, int]], now: datetime
) -> Decisions:
    """Process a batch; repeat it if PostgreSQL rolled it back to resolve a deadlock."""
    for _ in range(PATIENCE):
        try:
            with store.write() as session:
                return _decide_noted(session, counter, noted, now)
        except StoreBusyError as error:
            busy = error
    raise busy


def _decide_noted(
    session: Session, counter: VoteCounter | None, noted: Sequence[tuple[int, int]], now: datetime
) -> Decisions:
    ids = {example for _, example in noted}
    free = select(Example).where(Example.id.in_(ids)).order_by(Example.id)
    held = session.scalars(free.with_for_update(key_share=True, skip_locked=True)).all()
    decided = decide_examples(session, counter, held, now=now) if counter else Decisions()
    bonuses = settle_bonuses_of(session, held, now=now)
    # Examples whose bonus is not covered keep their notes, so that they are found again.
    done = {example.id for example in held} - bonuses.uncovered
    seen = [vote for vote, example in noted if example in done]
    session.execute(delete(UncountedVote).where(UncountedVote.vote_id.in_(seen)))
    return decided + Decisions(bonuses=bonuses.owed, released=bonuses.released, uncovered=len(bonuses.uncovered))


def decide_examples(session: Session, counter: VoteCounter, examples: Sequence[Example], *, now: datetime) -> Decisions:
    """Decide the pending ones of these locked examples by the votes that they have."""
    votes = votes_on(session, [example.id for example in examples])
    outcome = Decisions()
    for example in examples:
        if example.status is ExampleStatus.PENDING:
            found = counter.outcome(example.label, example.answer, votes.get(example.id, []))
            outcome += _set(example, found, now)
    session.flush()
    return outcome


def votes_on(session: Session, example_ids: Sequence[int]) -> dict[int, list[VoteValue]]:
    """Return the votes on examples in the order in which they were given."""
    wanted = select(Vote.example_id, Vote.label, Vote.answer, Vote.flag, Vote.established)
    found: dict[int, list[VoteValue]] = {}
    for example_id, label, answer, flag, established in session.execute(
        wanted.where(Vote.example_id.in_(example_ids)).order_by(Vote.id)
    ):
        found.setdefault(example_id, []).append(VoteValue(label, answer, flag, bool(established)))
    return found


def settle_bonuses_of(session: Session, examples: Sequence[Example], *, now: datetime) -> BonusSettlement:
    """Settle the bonuses of the HITs that these examples were written in; other work has none."""
    pages = {example.session_id for example in examples if example.session_id is not None}
    if not pages:
        return BonusSettlement()
    hits = select(Hit).join(WorkSession, WorkSession.hit_id == Hit.id).where(WorkSession.id.in_(pages)).distinct()
    return settle_bonuses(session, session.scalars(hits.order_by(Hit.id)).all(), now=now)


def _set(example: Example, found: Outcome, now: datetime) -> Decisions:
    if found.status is ExampleStatus.PENDING:
        if example.votes_wanted >= found.votes_wanted:
            return Decisions()
        example.votes_wanted = found.votes_wanted
        return Decisions(want_more=1)
    example.status, example.decided_at = found.status, now
    example.gold_label, example.gold_answer = found.gold_label, found.gold_answer
    is_verified = found.status is ExampleStatus.VERIFIED
    return Decisions(verified=int(is_verified), disputed=int(not is_verified))


def _release_rest(store: Store, round: Round, now: datetime) -> Decisions:
    outcome = Decisions()
    while True:
        with store.write() as session:
            bonuses = settle_closed(session, session.get_one(Round, round.id), now=now)
        outcome += Decisions(bonuses=bonuses.owed, released=bonuses.released)
        if not bonuses.released:
            return outcome
