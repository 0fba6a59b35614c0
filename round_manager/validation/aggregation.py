"""Aggregation: gold labels by the Dawid-Skene model, which weighs each validator by all of their votes.

It needs all votes of a round at once, so it cannot say when an example has enough votes; policies do that. It is a
second opinion for reports, and the owner can use it to settle disputed examples.
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
from round_manager.errors import MetricsUnavailable, RoundAlreadyClosed
from round_manager.models import Example, ExampleStatus, Round, spec_of
from round_manager.tasks.rounds import LIVE
from round_manager.validation.decisions import DECIDED, Decisions, VoteCounter, settle_bonuses_of
from round_manager.validation.voted_examples import SETTLED, settled_ids, voted_batches

if TYPE_CHECKING:
    import pandas as pd

ROUNDS_OF_EM = 100
BATCH = 100


@dataclass(frozen=True)
class Aggregated:
    """The model's most likely label for one example, and its probability."""

    example_id: int
    label: str
    probability: float


@dataclass(frozen=True)
class PolicyComparison:
    """The model's labels compared with the policy's gold labels."""

    examples: int
    same: int
    differing: int
    # The policy found no gold label, and the model's label has at least this probability.
    could_settle: int
    least: float


def dawid_skene(votes: "pd.DataFrame") -> "pd.DataFrame":
    """Return label probabilities, one row per task, from votes with the columns task, worker and label."""
    # Imported here: it takes seconds, and is rarely needed.
    from crowdkit.aggregation import DawidSkene

    with warnings.catch_warnings():
        # crowd-kit 1.4 still uses keywords that pandas is going to remove; users cannot change that.
        warnings.simplefilter("ignore", DeprecationWarning)
        return DawidSkene(n_iter=ROUNDS_OF_EM).fit_predict_proba(votes)


def aggregate(session: Session, round: Round) -> list[Aggregated]:
    """Return the model's label for every example of the round with a vote, flags aside."""
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


def compare(session: Session, round: Round, *, least: float) -> PolicyComparison:
    """Compare the model's labels with the policy's; examples that were settled already are left out."""
    counter, settled = VoteCounter(spec_of(round)), settled_ids(session, round)
    found = {one.example_id: one for one in aggregate(session, round)}
    same = differing = could_settle = 0
    for batch in voted_batches(session, round):
        for example in batch:
            outcome, other = example.outcome(counter), found.get(example.id)
            if other is None or example.id in settled or outcome.status not in DECIDED:
                continue
            if outcome.gold_label is None:
                could_settle += other.probability >= least
            else:
                same += outcome.gold_label == other.label
                differing += outcome.gold_label != other.label
    return PolicyComparison(len(found), same, differing, could_settle, least)


def settle(store: Store, round: Round, *, least: float, actor: str, reason: str, now: datetime) -> Decisions:
    """Give disputed examples the model's label if it is probable enough; each one is audited. Safe to repeat.

    With the author's label an example becomes verified and earns its bonus; with another label it stays disputed, with
    a gold label.
    """
    with store.read() as session:
        status = session.get_one(Round, round.id).status
        if status not in LIVE:
            text = f"round {round.number} is {status.value}; labels can be settled only in an open or validating round"
            raise RoundAlreadyClosed(text)
        labels = {one.example_id: one for one in aggregate(session, round) if one.probability >= least}
    outcome, after = Decisions(), 0
    while True:
        with store.write() as session:
            next_ids = select(Example.id).where(*_unsettled(round, after)).order_by(Example.id).limit(BATCH)
            ids = list(session.scalars(next_ids))
            sure = Example.id.in_([one for one in ids if one in labels])
            wanted = select(Example).where(sure, *_unsettled(round, after)).order_by(Example.id)
            held = session.scalars(wanted.with_for_update(key_share=True)).all()
            for example in held:
                outcome += _settle(session, round, example, labels[example.id], actor=actor, reason=reason, now=now)
            session.flush()
            bonuses = settle_bonuses_of(session, held, now=now)
            outcome += Decisions(bonuses=bonuses.owed, uncovered=len(bonuses.uncovered))
        if not ids:
            return outcome
        after = ids[-1]


def _settle(
    session: Session, round: Round, example: Example, found: Aggregated, *, actor: str, reason: str, now: datetime
) -> Decisions:
    example.gold_label = found.label
    is_authors = found.label == example.label
    if is_authors:
        example.status = ExampleStatus.VERIFIED
    sure = float(f"{found.probability:.4f}")
    after = {"status": example.status.value, "gold_label": found.label, "probability": sure}
    before = {"status": ExampleStatus.DISPUTED.value}
    audit.note(session, SETTLED, example, actor=actor, reason=reason, now=now, of=round, before=before, after=after)
    return Decisions(verified=int(is_authors), disputed=int(not is_authors))


def _unsettled(round: Round, after: int) -> tuple[ColumnElement[bool], ...]:
    """Return the condition for disputed examples without a gold label, from some id on."""
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
        raise MetricsUnavailable("Dawid-Skene needs labels, but this task has answers")
