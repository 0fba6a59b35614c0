"""Validators: how many votes each gave, how often others agree, and how they did where the answer is known."""

from collections import Counter
from dataclasses import dataclass

from sqlalchemy.orm import Session

from round_manager.models import Round, Task
from round_manager.rates import Rate
from round_manager.specs import spec_of
from round_manager.validation.ballots import Ballots, Given
from round_manager.validation.judged import judged_batches
from round_manager.validation.metrics import decision, names_of_workers, settled_ids
from round_manager.work.gold import each_gold_answer


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
    ballots, settled = Ballots(spec_of(round)), settled_ids(session, round)
    votes: Counter[int] = Counter()
    flags: Counter[int] = Counter()
    compared: Counter[int] = Counter()
    agreed: Counter[int] = Counter()
    for batch in judged_batches(session, round):
        for example in batch:
            outcome = decision(example, ballots, settled)
            has_gold = outcome.gold_label is not None or outcome.gold_answer is not None
            gold = Given(outcome.gold_label, outcome.gold_answer).said
            for vote in example.votes:
                votes[vote.worker_id] += 1
                flags[vote.worker_id] += vote.given.flag is not None
                if has_gold and vote.given.flag is None:
                    compared[vote.worker_id] += 1
                    agreed[vote.worker_id] += ballots.agree(vote.given.said, gold)
    known = gold_accuracy(session, session.get_one(Task, round.task_id))
    names = names_of_workers(session, round, votes.keys() | known.keys())
    found = [
        Validator(name, votes[one], flags[one], Rate(agreed[one], compared[one]), known.get(one, Rate(0, 0)))
        for one, name in names.items()
    ]
    return sorted(found, key=lambda validator: (-validator.votes, validator.name))
