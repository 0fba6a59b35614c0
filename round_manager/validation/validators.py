"""Agreement: how far validators agree beyond chance, as Krippendorff's alpha for labels.

Each example is a unit, each vote a value; an example with fewer than two votes has nobody to agree with and is left
out, so people may have judged as many or as few examples as they like. 1 is full agreement, 0 is what chance gives, and
less than 0 is disagreement on purpose.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
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
    """Alpha of as many units as one adds; it keeps sums for each label, and no unit."""

    values: Counter[str] = field(default_factory=Counter)
    units: int = 0
    # How often two votes on one unit differ, each unit by the number of its votes less one.
    disagreement: float = 0.0

    def add(self, votes: Sequence[str]) -> None:
        """One example's votes, flags aside."""
        if len(votes) < PAIR:
            return
        counts = Counter(votes)
        pairs = len(votes) ** 2 - sum(count * count for count in counts.values())
        self.disagreement += pairs / (len(votes) - 1)
        self.values += counts
        self.units += 1

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha; None where all votes name one label, or there are none: chance is then not known."""
        total = self.values.total()
        expected = total * total - sum(count * count for count in self.values.values())
        if not expected:
            return None
        return 1 - (total - 1) * self.disagreement / expected


def alpha_of(units: Iterable[Sequence[str]]) -> float | None:
    """Krippendorff's alpha of units, each a list of the labels that it got."""
    agreement = Agreement()
    for votes in units:
        agreement.add(votes)
    return agreement.alpha


@dataclass(frozen=True)
class Validator:
    """One validator by their pseudonym; `gold` is of the whole task, since what is known is known in every round."""

    name: str
    votes: int
    flags: int
    # Of votes on what has a gold label: those that name it.
    agreed: Rate
    gold: Rate


def gold_accuracy(session: Session, task: Task) -> dict[int, Rate]:
    """How often each worker was right where the answer was known, by their numbers here."""
    given: Counter[int] = Counter()
    right: Counter[int] = Counter()
    for answer in each_gold_answer(session, task):
        given[answer.worker_id] += 1
        right[answer.worker_id] += answer.is_right
    return {worker_id: Rate(right[worker_id], count) for worker_id, count in given.items()}


def validators(session: Session, round: Round) -> list[Validator]:
    """Everybody who voted in the round or judged gold of its task, those with most votes first."""
    ballots, settled = VoteCounter(spec_of(round)), settled_ids(session, round)
    votes: Counter[int] = Counter()
    flags: Counter[int] = Counter()
    compared: Counter[int] = Counter()
    agreed: Counter[int] = Counter()
    for batch in voted_batches(session, round):
        for example in batch:
            outcome = decision(example, ballots, settled)
            has_gold = outcome.gold_label is not None or outcome.gold_answer is not None
            gold = VoteValue(outcome.gold_label, outcome.gold_answer).said
            for vote in example.votes:
                votes[vote.worker_id] += 1
                flags[vote.worker_id] += vote.given.flag is not None
                if has_gold and vote.given.flag is None:
                    compared[vote.worker_id] += 1
                    agreed[vote.worker_id] += ballots.agree(vote.given.said, gold)
    task = session.get_one(Task, round.task_id)
    known = gold_accuracy(session, task)
    names = worker_names(session, task, votes.keys() | known.keys())
    found = [
        Validator(name, votes[one], flags[one], Rate(agreed[one], compared[one]), known.get(one, Rate(0, 0)))
        for one, name in names.items()
    ]
    return sorted(found, key=lambda validator: (-validator.votes, validator.name))
