"""Aggregation: gold labels by the Dawid-Skene model, which weighs every validator by how they vote on everything else.

It looks at all votes of a round at once, so it cannot say when an example has had votes enough: policies do that. It is
a second opinion for reports, and where people did not agree, the owner can let it settle the label.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from round_manager import audit
from round_manager.database.store import Store
from round_manager.errors import RoundError
from round_manager.models import Example, ExampleStatus, Round
from round_manager.specs import spec_of
from round_manager.tasks.rounds import LIVE
from round_manager.validation.decisions import settle_bonuses_of
from round_manager.validation.metrics import DECIDED
from round_manager.validation.outcomes import SETTLED, VoteCounter, settled_ids, voted_batches

if TYPE_CHECKING:
    import pandas as pd

ROUNDS_OF_EM = 100
BATCH = 100


@dataclass(frozen=True)
class Aggregated:
    """What the model says of one example: the likeliest label, and how likely it is."""

    example_id: int
    label: str
    probability: float


@dataclass(frozen=True)
class Comparison:
    """The model's labels beside the policy's: of examples with a gold label, how many have the same one."""

    examples: int
    same: int
    differing: int
    # The policy found no gold label, and the model is at least so sure of one.
    could_settle: int
    least: float


@dataclass(frozen=True)
class Settlement:
    """Examples that got the model's label, their author's or another; and bonuses that are owed or not covered."""

    verified: int = 0
    disputed: int = 0
    bonuses: int = 0
    uncovered: int = 0

    def __add__(self, other: "Settlement") -> "Settlement":
        return Settlement(
            self.verified + other.verified,
            self.disputed + other.disputed,
            self.bonuses + other.bonuses,
            self.uncovered + other.uncovered,
        )


def dawid_skene(votes: "pd.DataFrame") -> "pd.DataFrame":
    """Probabilities of labels, a row for each task, from votes with the columns task, worker and label."""
    # Imported here: it takes seconds, and only those who aggregate need it.
    from crowdkit.aggregation import DawidSkene

    with warnings.catch_warnings():
        # crowd-kit 1.4 still uses keywords that pandas is going to drop; nobody who runs it can do anything about that.
        warnings.simplefilter("ignore", DeprecationWarning)
        return DawidSkene(n_iter=ROUNDS_OF_EM).fit_predict_proba(votes)


def aggregate(session: Session, round: Round) -> list[Aggregated]:
    """What the model says of every example of the round that has a vote, flags aside; none where nobody voted."""
    import pandas as pd

    _check_labels(round)
    rows = pd.DataFrame(_votes(session, round), columns=["task", "worker", "label"])
    if rows.empty:
        return []
    likely = dawid_skene(rows)
    best = likely.idxmax(axis="columns")
    return [
        Aggregated(int(task), str(label), float(probability))
        for task, label, probability in zip(likely.index, best, likely.max(axis="columns"), strict=True)
    ]


def compare(session: Session, round: Round, *, least: float) -> Comparison:
    """How the model's labels stand beside the policy's; what has the model's label already is left out."""
    ballots, settled = VoteCounter(spec_of(round)), settled_ids(session, round)
    found = {one.example_id: one for one in aggregate(session, round)}
    same = differing = could_settle = 0
    for batch in voted_batches(session, round):
        for example in batch:
            outcome, other = example.outcome(ballots), found.get(example.id)
            if other is None or example.id in settled or outcome.status not in DECIDED:
                continue
            if outcome.gold_label is None:
                could_settle += other.probability >= least
            else:
                same += outcome.gold_label == other.label
                differing += outcome.gold_label != other.label
    return Comparison(len(found), same, differing, could_settle, least)


def settle(store: Store, round: Round, *, least: float, who: str, why: str, now: datetime) -> Settlement:
    """Examples that people did not agree on get the model's label where it is at least so sure; each is audited.

    With the author's label an example is verified, and earns what such an example earns; with another it stays
    disputed, with a gold label. Run again, it finds only what nobody has settled.
    """
    with store.read() as session:
        status = session.get_one(Round, round.id).status
        if status not in LIVE:
            cure = "labels are settled while it is open or validating"
            raise RoundError(f"round {round.number} is {status.value}; {cure}")
        labels = {one.example_id: one for one in aggregate(session, round) if one.probability >= least}
    outcome, after = Settlement(), 0
    while True:
        with store.write() as session:
            next_ids = select(Example.id).where(*_unsettled(round, after)).order_by(Example.id).limit(BATCH)
            ids = list(session.scalars(next_ids))
            sure = Example.id.in_([one for one in ids if one in labels])
            wanted = select(Example).where(sure, *_unsettled(round, after)).order_by(Example.id)
            held = session.scalars(wanted.with_for_update(key_share=True)).all()
            for example in held:
                outcome += _settle(session, round, example, labels[example.id], who=who, why=why, now=now)
            session.flush()
            bonuses = settle_bonuses_of(session, held, now=now)
            outcome += Settlement(bonuses=bonuses.owed, uncovered=len(bonuses.uncovered))
        if not ids:
            return outcome
        after = ids[-1]


def _settle(
    session: Session, round: Round, example: Example, found: Aggregated, *, who: str, why: str, now: datetime
) -> Settlement:
    example.gold_label = found.label
    is_authors = found.label == example.label
    if is_authors:
        example.status = ExampleStatus.VERIFIED
    sure = float(f"{found.probability:.4f}")
    after = {"status": example.status.value, "gold_label": found.label, "probability": sure}
    before = {"status": ExampleStatus.DISPUTED.value}
    audit.note(session, SETTLED, example, who=who, why=why, now=now, of=round, before=before, after=after)
    return Settlement(verified=int(is_authors), disputed=int(not is_authors))


def _unsettled(round: Round, after: int) -> tuple[ColumnElement[bool], ...]:
    """Disputed examples without a gold label, from some number on."""
    return (
        Example.round_id == round.id,
        Example.status == ExampleStatus.DISPUTED,
        Example.gold_label.is_(None),
        Example.id > after,
    )


def _votes(session: Session, round: Round) -> Iterator[tuple[int, int, str]]:
    for batch in voted_batches(session, round):
        for example in batch:
            if example.status is ExampleStatus.WITHDRAWN:
                continue
            for vote in example.votes:
                if vote.given.label is not None:
                    yield example.id, vote.worker_id, vote.given.label


def _check_labels(round: Round) -> None:
    if spec_of(round).kind != "classification":
        raise RoundError("Dawid-Skene weighs labels, and this task has answers; its policy alone decides them")
