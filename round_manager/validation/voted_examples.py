"""A round's examples with their votes; how far validators agree beyond chance, and how each of them does.

For Krippendorff's alpha, each example is a unit and each vote a value; examples with fewer than two votes are left
out, so validators may judge any number of examples. 1 is full agreement, 0 is chance level, and less than 0 is
systematic disagreement.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.models import AuditEntry, Example, ExampleStatus, Round, Task, Vote, Worker, spec_of
from round_manager.pseudonyms import worker_names
from round_manager.rates import Rate
from round_manager.validation.decisions import Outcome, VoteCounter, VoteValue
from round_manager.work.gold import each_gold_answer

BATCH = 1_000
PAIR = 2
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
            Vote.label, Vote.answer, Vote.flag, Vote.established,
        )
        .where(Vote.example_id.between(first, last))
        .order_by(Vote.id)
    )  # fmt: skip
    found: dict[int, list[CastVote]] = {}
    for example_id, worker_id, session_id, item, active_ms, label, answer, flag, known in session.execute(wanted):
        cast = CastVote(worker_id, session_id, item, active_ms, VoteValue(label, answer, flag, bool(known)))
        found.setdefault(example_id, []).append(cast)
    return found


@dataclass
class Agreement:
    """Computes alpha incrementally; it keeps sums per label, not the units."""

    values: Counter[str] = field(default_factory=Counter)
    units: int = 0
    # The number of differing pairs of votes per unit, divided by the unit's votes less one.
    disagreement: float = 0.0

    def add(self, votes: Sequence[str]) -> None:
        """Add one example's votes, without flags."""
        if len(votes) < PAIR:
            return
        counts = Counter(votes)
        pairs = len(votes) ** 2 - sum(count * count for count in counts.values())
        self.disagreement += pairs / (len(votes) - 1)
        self.values += counts
        self.units += 1

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha; None if all votes have the same label or there are none."""
        total = self.values.total()
        expected = total * total - sum(count * count for count in self.values.values())
        if not expected:
            return None
        return 1 - (total - 1) * self.disagreement / expected


@dataclass(frozen=True)
class Validator:
    """One validator by pseudonym; `gold` covers the whole task, because gold items are the same in every round."""

    name: str
    votes: int
    flags: int
    # Of votes on examples with a gold label: those that agree with it.
    agreed: Rate
    gold: Rate
    # Who it is, for the owner: the marketplace's id, and the name that the owner gave. Never published.
    worker_id: str = ""
    person: str = ""


def gold_accuracy(session: Session, task: Task) -> dict[int, Rate]:
    """Return each worker's accuracy on gold items, by their database id."""
    given: Counter[int] = Counter()
    right: Counter[int] = Counter()
    for item, is_right in each_gold_answer(session, task):
        given[item.worker_id] += 1
        right[item.worker_id] += is_right
    return {worker_id: Rate(right[worker_id], count) for worker_id, count in given.items()}


def validators(session: Session, round: Round) -> list[Validator]:
    """Return everyone who voted in the round or judged gold items of its task, most votes first."""
    counter, settled = VoteCounter(spec_of(round)), settled_ids(session, round)
    votes: Counter[int] = Counter()
    flags: Counter[int] = Counter()
    compared: Counter[int] = Counter()
    agreed: Counter[int] = Counter()
    for batch in voted_batches(session, round):
        for example in batch:
            outcome = decision(example, counter, settled)
            has_gold = outcome.gold_label is not None or outcome.gold_answer is not None
            gold = VoteValue(outcome.gold_label, outcome.gold_answer).said
            for vote in example.votes:
                votes[vote.worker_id] += 1
                flags[vote.worker_id] += vote.given.flag is not None
                if has_gold and vote.given.flag is None:
                    compared[vote.worker_id] += 1
                    agreed[vote.worker_id] += counter.agree(vote.given.said, gold)
    task = session.get_one(Task, round.task_id)
    known = gold_accuracy(session, task)
    names = worker_names(session, task, votes.keys() | known.keys())
    wanted = select(Worker.id, Worker.external_id, Worker.name).where(Worker.id.in_(names))
    people = {number: (worker_id, name or "") for number, worker_id, name in session.execute(wanted)}
    found = [
        Validator(
            name, votes[one], flags[one], Rate(agreed[one], compared[one]), known.get(one, Rate(0, 0)), *people[one]
        )
        for one, name in names.items()
    ]
    return sorted(found, key=lambda validator: (-validator.votes, validator.name))
