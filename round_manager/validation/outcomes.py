"""Outcomes of votes: how a policy counts the votes on an example, and a round's examples with their votes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ml_backend.verdict import f1_score
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

    def ruling(self, votes: Sequence[str], author: str) -> Ruling:
        """Return the policy's ruling on votes in their order."""
        return replay(self.policy, self.spec.validation, votes, author, self.grouping)

    def outcome(self, label: str | None, answer: Json | None, votes: Sequence[VoteValue]) -> Outcome:
        """Return the outcome for an example with its author's label or answer; flags do not count."""
        author = VoteValue(label, answer)
        judged = [vote for vote in votes if vote.flag is None]
        ruling = self.ruling([vote.said for vote in judged], author.said)
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


BATCH = 1_000
# The audit action of an owner who settled an example; it does not count as a difference from the votes.
SETTLED = "settled"
# Statuses that votes decide; all others depend on the owner or the marketplace.
BY_VOTES = (ExampleStatus.PENDING, ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)


@dataclass(frozen=True)
class CastVote:
    """One vote with its worker, its place on a page and its value."""

    worker_id: int
    session_id: int | None
    item: int
    active_ms: int | None
    given: VoteValue


@dataclass(frozen=True)
class VotedExample:
    """One example with its votes, in the order in which they were given."""

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

    def outcome(self, counter: VoteCounter) -> Outcome:
        """Return the outcome of the votes if they decide this example; otherwise its status."""
        if self.status not in BY_VOTES:
            return Outcome(self.status)
        return counter.outcome(self.label, self.answer, [vote.given for vote in self.votes])

    def said(self, counter: VoteCounter) -> list[str]:
        """Return the counted value of each vote that is not a flag."""
        author = VoteValue(self.label, self.answer).said
        return list(counter.grouping([vote.given.said for vote in self.votes if vote.given.flag is None], author))


def voted_batches(session: Session, round: Round) -> Iterator[list[VotedExample]]:
    """Yield the round's confirmed examples with their votes in batches, in the order of arrival."""
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
        yield [_voted_example(row, votes) for row in rows if row.status is not ExampleStatus.UNCONFIRMED]
        after = rows[-1].id


def decision(example: VotedExample, counter: VoteCounter, settled: frozenset[int]) -> Outcome:
    """Return the outcome of the example: by its votes, or by its owner if they settled it."""
    if example.id in settled:
        return Outcome(example.status, example.gold_label, example.gold_answer)
    return example.outcome(counter)


def settled_ids(session: Session, round: Round) -> frozenset[int]:
    """Return the ids of disputed examples that an owner settled."""
    entry = AuditEntry
    wanted = select(entry.subject_id).where(entry.round_id == round.id, entry.subject == "example")
    return frozenset(session.scalars(wanted.where(entry.action == SETTLED)))


def _voted_example(row: Any, votes: Mapping[int, list[CastVote]]) -> VotedExample:
    return VotedExample(tuple(votes.get(row.id, ())), *row)


def _votes(session: Session, first: int, last: int) -> dict[int, list[CastVote]]:
    """Return the votes on a range of example ids; the range may contain votes of other rounds."""
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
