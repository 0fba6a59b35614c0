"""Deciding: votes make examples verified or disputed, and what was earned is owed in the same transaction.

Every vote is noted as it is cast, and the note goes when somebody has decided by it: so only what has changed is looked
at, and whoever is killed in between has changed nothing. What another process holds is left, with its notes, to the
next run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from round_manager.database.store import Store
from round_manager.errors import RefusedError, StoreBusyError
from round_manager.models import Example, ExampleStatus, Hit, Round, RoundStatus, UncountedVote, Vote, WorkSession
from round_manager.money.bonuses import BonusSettlement, settle_bonuses, settle_closed
from round_manager.specs import spec_of
from round_manager.validation.outcomes import Outcome, VoteCounter, VoteValue

BATCH = 100
PATIENCE = 5
CLOSED_MEANWHILE = "guard_example_decided"


@dataclass(frozen=True)
class Decisions:
    """What deciding brought: examples by what became of them, and bonuses that are owed, free again or not covered."""

    verified: int = 0
    disputed: int = 0
    want_more: int = 0
    bonuses: int = 0
    released: int = 0
    uncovered: int = 0

    def __add__(self, other: "Decisions") -> "Decisions":
        return Decisions(
            self.verified + other.verified,
            self.disputed + other.disputed,
            self.want_more + other.want_more,
            self.bonuses + other.bonuses,
            self.released + other.released,
            self.uncovered + other.uncovered,
        )


def decide_round(store: Store, round: Round, *, now: datetime) -> Decisions:
    """Everything that can be decided by the votes so far is; once more, or twice at once, changes nothing.

    In a closed round nothing is decided any more, and reservations that nobody can earn are released.
    """
    with store.read() as session:
        status = session.get_one(Round, round.id).status
    ballots = None if status is RoundStatus.CLOSED else VoteCounter(spec_of(round))
    outcome = Decisions()
    # Apart, because the database counts them apart: whoever holds one of its counts never waits for the other.
    for fooled in (True, False):
        after = 0
        while noted := _noted(store, round, after, fooled=fooled):
            after = noted[-1][0]
            try:
                outcome += _patiently(store, ballots, noted, now)
            except RefusedError as error:
                if error.rule != CLOSED_MEANWHILE:
                    raise
                return outcome
    return outcome if ballots else outcome + _release_rest(store, round, now)


def _noted(store: Store, round: Round, after: int, *, fooled: bool) -> list[tuple[int, int]]:
    """The next votes that nobody has decided by, with their examples."""
    wanted = (
        select(UncountedVote.vote_id, UncountedVote.example_id)
        .join(Example, Example.id == UncountedVote.example_id)
        .where(UncountedVote.round_id == round.id, UncountedVote.vote_id > after, Example.fooled.is_(fooled))
        .order_by(UncountedVote.vote_id)
        .limit(BATCH)
    )
    with store.read() as session:
        return [(vote, example) for vote, example in session.execute(wanted)]


def _patiently(store: Store, ballots: VoteCounter | None, noted: Sequence[tuple[int, int]], now: datetime) -> Decisions:
    """A batch, again where PostgreSQL undid it so that another transaction could go on."""
    for _ in range(PATIENCE):
        try:
            with store.write() as session:
                return _decide_noted(session, ballots, noted, now)
        except StoreBusyError as error:
            busy = error
    raise busy


def _decide_noted(
    session: Session, ballots: VoteCounter | None, noted: Sequence[tuple[int, int]], now: datetime
) -> Decisions:
    ids = {example for _, example in noted}
    free = select(Example).where(Example.id.in_(ids)).order_by(Example.id)
    held = session.scalars(free.with_for_update(key_share=True, skip_locked=True)).all()
    decided = decide_examples(session, ballots, held, now=now) if ballots else Decisions()
    bonuses = settle_bonuses_of(session, held, now=now)
    # Whose bonus is not covered keeps their note, and is found again by it.
    done = {example.id for example in held} - bonuses.uncovered
    seen = [vote for vote, example in noted if example in done]
    session.execute(delete(UncountedVote).where(UncountedVote.vote_id.in_(seen)))
    return decided + Decisions(bonuses=bonuses.owed, released=bonuses.released, uncovered=len(bonuses.uncovered))


def decide_examples(session: Session, ballots: VoteCounter, examples: Sequence[Example], *, now: datetime) -> Decisions:
    """Of examples that this transaction holds, those that wait for votes are decided by the votes that they have."""
    votes = votes_on(session, [example.id for example in examples])
    outcome = Decisions()
    for example in examples:
        if example.status is ExampleStatus.PENDING:
            found = ballots.outcome(example.label, example.answer, votes.get(example.id, []))
            outcome += _set(example, found, now)
    session.flush()
    return outcome


def votes_on(session: Session, example_ids: Sequence[int]) -> dict[int, list[VoteValue]]:
    """The votes on examples, in the order in which they were given."""
    wanted = select(Vote.example_id, Vote.label, Vote.answer, Vote.flag).where(Vote.example_id.in_(example_ids))
    found: dict[int, list[VoteValue]] = {}
    for example_id, label, answer, flag in session.execute(wanted.order_by(Vote.id)):
        found.setdefault(example_id, []).append(VoteValue(label, answer, flag))
    return found


def settle_bonuses_of(session: Session, examples: Sequence[Example], *, now: datetime) -> BonusSettlement:
    """The bonuses of the HITs that these examples were written in; work in house has none."""
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
