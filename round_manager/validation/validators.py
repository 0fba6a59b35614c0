"""Validators: how far they agree beyond chance (Krippendorff's alpha), and how each of them does.

For alpha, each example is a unit and each vote a value; examples with fewer than two votes are left out, so validators
may judge any number of examples. 1 is full agreement, 0 is chance level, and less than 0 is systematic disagreement.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from round_manager.bulk_rows import worker_names
from round_manager.models import Round, Task
from round_manager.rates import Rate
from round_manager.specs import spec_of
from round_manager.validation.outcomes import VoteCounter, VoteValue, decision, settled_ids, voted_batches
from round_manager.work.gold import each_gold_answer

PAIR = 2


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


def gold_accuracy(session: Session, task: Task) -> dict[int, Rate]:
    """Return each worker's accuracy on gold items, by their database id."""
    given: Counter[int] = Counter()
    right: Counter[int] = Counter()
    for answer in each_gold_answer(session, task):
        given[answer.worker_id] += 1
        right[answer.worker_id] += answer.is_right
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
    found = [
        Validator(name, votes[one], flags[one], Rate(agreed[one], compared[one]), known.get(one, Rate(0, 0)))
        for one, name in names.items()
    ]
    return sorted(found, key=lambda validator: (-validator.votes, validator.name))
