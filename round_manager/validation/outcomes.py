"""VoteCounter: the votes on one example as a policy counts them, and what their outcome makes of the example."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ml_backend.fooled_rules import f1_score
from round_manager.models import AuditEntry, Example, ExampleStatus, Round, Vote
from round_manager.policies import Grouping, Policy, Ruling, Settled, exactly, find_policy, replay
from templates import TaskSpec

Json = dict[str, Any]
Same = Callable[[str, str], bool]


@dataclass(frozen=True)
class VoteValue:
    """One vote as it was given: a label, an answer, or a flag."""

    label: str | None = None
    answer: Json | None = None
    flag: str | None = None

    @property
    def said(self) -> str:
        """What is counted of a vote that is no flag."""
        return self.label if self.label is not None else str((self.answer or {}).get("text"))


@dataclass(frozen=True)
class Outcome:
    """What an example is by its votes: the status that they give it and the gold that people agree on."""

    status: ExampleStatus
    gold_label: str | None = None
    gold_answer: Json | None = None
    votes_wanted: int = 0


@dataclass(frozen=True)
class VoteCounter:
    """How one round counts its votes, by the terms that it was opened with."""

    spec: TaskSpec

    @cached_property
    def policy(self) -> Policy:
        """The round's policy."""
        return find_policy(self.spec.validation.policy)

    @cached_property
    def grouping(self) -> Grouping:
        """How votes are put together before they are counted."""
        if self.spec.kind == "classification":
            return exactly
        return lambda votes, author: camps(votes, author, self.agree)

    def agree(self, one: str, other: str) -> bool:
        """Labels agree when they are equal, answers when enough of their words are."""
        return one == other or (self.spec.kind == "qa" and f1_score(one, other) >= self.spec.validation.span_f1)

    def ruling(self, votes: Sequence[str], author: str) -> Ruling:
        """What the policy says of votes in their order."""
        return replay(self.policy, self.spec.validation, votes, author, self.grouping)

    def outcome(self, label: str | None, answer: Json | None, votes: Sequence[VoteValue]) -> Outcome:
        """What an example is that its author says this of; flags are the owner's to judge and no part of it."""
        author = VoteValue(label, answer)
        judged = [vote for vote in votes if vote.flag is None]
        ruling = self.ruling([vote.said for vote in judged], author.said)
        flags = len(votes) - len(judged)
        if not isinstance(ruling, Settled):
            # A flag takes a place among the votes and says nothing about the label.
            return Outcome(ExampleStatus.PENDING, votes_wanted=ruling.votes + flags)
        if ruling.gold is None:
            return Outcome(ExampleStatus.DISPUTED)
        if ruling.gold == author.said:
            return Outcome(ExampleStatus.VERIFIED, label, answer)
        other = next(vote for vote in judged if vote.said == ruling.gold)
        return Outcome(ExampleStatus.DISPUTED, other.label, other.answer)


def camps(answers: Sequence[str], author: str, same: Same) -> list[str]:
    """The name of each answer's camp: the author's for all that agree with it, then the answer that most agree with.

    That two answers agree with a third need not mean that they agree, so camps are filled one after the other, in an
    order that does not depend on who came first.
    """
    named: dict[str, str] = {one: author for one in set(answers) if same(one, author)}
    left = [one for one in answers if one not in named]
    while left:
        name = min(set(left), key=lambda one: (-sum(same(other, one) for other in left), one))
        named |= {other: name for other in set(left) if other == name or same(other, name)}
        left = [one for one in left if one not in named]
    return [named[one] for one in answers]


BATCH = 1_000
# What an owner has settled is theirs, and no disagreement with the votes.
SETTLED = "settled"
# What the votes decide; the rest is the owner's, or nobody's.
BY_VOTES = (ExampleStatus.PENDING, ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)


@dataclass(frozen=True)
class CastVote:
    """One vote: whose, where it was given, and what it says."""

    worker_id: int
    session_id: int | None
    item: int
    active_ms: int | None
    given: VoteValue


@dataclass(frozen=True)
class VotedExample:
    """One example with the votes on it, in the order in which they were given."""

    votes: tuple[CastVote, ...]
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

    def outcome(self, ballots: VoteCounter) -> Outcome:
        """What the example is by its votes alone, where votes decide; else the status that it has."""
        if self.status not in BY_VOTES:
            return Outcome(self.status)
        return ballots.outcome(self.label, self.answer, [vote.given for vote in self.votes])

    def said(self, ballots: VoteCounter) -> list[str]:
        """What each vote that is no flag is counted as."""
        author = VoteValue(self.label, self.answer).said
        return list(ballots.grouping([vote.given.said for vote in self.votes if vote.given.flag is None], author))


def voted_batches(session: Session, round: Round) -> Iterator[list[VotedExample]]:
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


def decision(example: VotedExample, ballots: VoteCounter, settled: frozenset[int]) -> Outcome:
    """What the example is: by its votes, or by its owner where they settled it."""
    if example.id in settled:
        return Outcome(example.status, example.gold_label, example.gold_answer)
    return example.outcome(ballots)


def settled_ids(session: Session, round: Round) -> frozenset[int]:
    """The examples that an owner settled where people did not agree."""
    entry = AuditEntry
    wanted = select(entry.subject_id).where(entry.round_id == round.id, entry.subject == "example")
    return frozenset(session.scalars(wanted.where(entry.action == SETTLED)))


def _judged(row: Any, votes: Mapping[int, list[CastVote]]) -> VotedExample:
    return VotedExample(tuple(votes.get(row.id, ())), *row)


def _votes(session: Session, first: int, last: int) -> dict[int, list[CastVote]]:
    """The votes on a stretch of examples; another round's, that lie between, do no harm."""
    wanted = (
        select(
            Vote.example_id, Vote.worker_id, Vote.session_id, Vote.item, Vote.active_ms,
            Vote.label, Vote.answer, Vote.flag,
        )
        .where(Vote.example_id.between(first, last))
        .order_by(Vote.id)
    )  # fmt: skip
    found: dict[int, list[CastVote]] = {}
    for example_id, worker_id, session_id, item, active_ms, label, answer, flag in session.execute(wanted):
        cast = CastVote(worker_id, session_id, item, active_ms, VoteValue(label, answer, flag))
        found.setdefault(example_id, []).append(cast)
    return found
