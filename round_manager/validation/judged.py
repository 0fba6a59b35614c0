"""A round's examples with the votes on them, a batch at a time: its memory does not grow with the round."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.models import Example, ExampleStatus, Round, Vote
from round_manager.validation.ballots import Ballots, Given, Outcome

BATCH = 1_000
# What the votes decide; the rest is the owner's, or nobody's.
BY_VOTES = (ExampleStatus.PENDING, ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)


@dataclass(frozen=True)
class Cast:
    """One vote: whose, where it was given, and what it says."""

    worker_id: int
    session_id: int | None
    item: int
    active_ms: int | None
    given: Given


@dataclass(frozen=True)
class Judged:
    """One example with the votes on it, in the order in which they were given."""

    votes: tuple[Cast, ...]
    id: int
    author_id: int
    context_id: int | None
    session_id: int | None
    item: int
    label: str | None
    answer: dict[str, Any] | None
    active_ms: int | None
    fooled: bool
    status: ExampleStatus
    gold_label: str | None
    gold_answer: dict[str, Any] | None

    def outcome(self, ballots: Ballots) -> Outcome:
        """What the example is by its votes alone, where votes decide; else the status that it has."""
        if self.status not in BY_VOTES:
            return Outcome(self.status)
        return ballots.outcome(self.label, self.answer, [vote.given for vote in self.votes])

    def said(self, ballots: Ballots) -> list[str]:
        """What each vote that is no flag is counted as."""
        author = Given(self.label, self.answer).said
        return list(ballots.grouping([vote.given.said for vote in self.votes if vote.given.flag is None], author))


def judged_batches(session: Session, round: Round) -> Iterator[list[Judged]]:
    """Every example of the round that somebody stands for, with its votes, in the order in which they came."""
    example = Example
    columns = (
        example.id, example.author_id, example.context_id, example.session_id, example.item, example.label,
        example.answer, example.active_ms, example.fooled, example.status, example.gold_label, example.gold_answer,
    )  # fmt: skip
    after = 0
    while True:
        wanted = select(*columns).where(example.round_id == round.id, example.id > after).order_by(example.id)
        rows = session.execute(wanted.limit(BATCH)).all()
        if not rows:
            return
        votes = _votes(session, rows[0].id, rows[-1].id)
        yield [_judged(row, votes) for row in rows if row.status is not ExampleStatus.UNCONFIRMED]
        after = rows[-1].id


def _judged(row: Any, votes: Mapping[int, list[Cast]]) -> Judged:
    return Judged(tuple(votes.get(row.id, ())), *row)


def _votes(session: Session, first: int, last: int) -> dict[int, list[Cast]]:
    """The votes on a stretch of examples; another round's, that lie between, do no harm."""
    wanted = (
        select(
            Vote.example_id, Vote.worker_id, Vote.session_id, Vote.item, Vote.active_ms,
            Vote.label, Vote.answer, Vote.flag,
        )
        .where(Vote.example_id.between(first, last))
        .order_by(Vote.id)
    )  # fmt: skip
    found: dict[int, list[Cast]] = {}
    for example_id, worker_id, session_id, item, active_ms, label, answer, flag in session.execute(wanted):
        cast = Cast(worker_id, session_id, item, active_ms, Given(label, answer, flag))
        found.setdefault(example_id, []).append(cast)
    return found
