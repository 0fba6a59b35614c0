"""Metrics: how often people fool the model, how often others agree, and what that costs; recomputed from the votes.

Counted is every example that somebody stands for and that its owner has not withdrawn. MER is the share of those that
fooled the model; vMER the share that fooled it and was verified, which what is not decided yet can only raise until
the round is closed. What votes decide is decided here anew, by the round's policy, so no stored status can be wrong
about it unnoticed.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from round_manager.bulk_rows import worker_names
from round_manager.errors import RoundError
from round_manager.models import (
    Attempt,
    Context,
    ExampleStatus,
    Round,
    RoundStatus,
    SessionStatus,
    Task,
    WorkSession,
)
from round_manager.rates import Rate
from round_manager.specs import spec_of
from round_manager.validation.costs import Cost, costs_of, crowd_cost, in_house_cost
from round_manager.validation.outcomes import Outcome, VoteCounter, VotedExample, decision, settled_ids, voted_batches
from round_manager.validation.validators import Agreement

DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)
NOTHING = Cost()


@dataclass(frozen=True)
class Counts:
    """What was counted, of a round or of a part of it."""

    collected: int = 0
    fooled: int = 0
    verified_fooling: int = 0
    disputed_fooling: int = 0
    verified_others: int = 0
    disputed_others: int = 0
    withdrawn: int = 0
    tries: int = 0
    cost: Cost = NOTHING

    @property
    def mer(self) -> Rate:
        """The model's error rate: fooled of collected."""
        return Rate(self.fooled, self.collected)

    @property
    def vmer(self) -> Rate:
        """The validated model error rate: fooled and verified of collected."""
        return Rate(self.verified_fooling, self.collected)

    @property
    def undecided_fooling(self) -> int:
        """Fooling examples that wait for votes or for the owner."""
        return self.fooled - self.verified_fooling - self.disputed_fooling

    @property
    def author_errors(self) -> Rate:
        """Of checked examples that did not fool, those whose author other people disagree with."""
        return Rate(self.disputed_others, self.verified_others + self.disputed_others)

    @property
    def tries_per_fool(self) -> float | None:
        """Questions put to the model for each example that fooled it."""
        return self.tries / self.fooled if self.fooled else None

    @property
    def seconds_per_verified(self) -> float | None:
        """People's seconds for each validated fooling example."""
        return self.cost.ms / 1_000 / self.verified_fooling if self.verified_fooling else None

    @property
    def cents_per_verified(self) -> int | None:
        """Whole cents for each validated fooling example, rounded up."""
        return -(-self.cost.cents // self.verified_fooling) if self.verified_fooling else None


@dataclass(frozen=True)
class RoundMetrics:
    """A round's figures; `differing` are examples whose stored decision is not the one that their votes give."""

    number: int
    counts: Counts
    votes: int
    alpha: float | None
    differing: int
    # What is undecided in a closed round was given up, and stays so.
    is_closed: bool = False


@dataclass(frozen=True)
class Group:
    """The figures of one worker (by their pseudonym), label or context."""

    name: str
    counts: Counts


def round_metrics(session: Session, round: Round) -> RoundMetrics:
    """The figures of a whole round, with all that its HITs cost."""
    ballots, settled = VoteCounter(spec_of(round)), settled_ids(session, round)
    counts, agreement, votes, differing = Counts(), Agreement(), 0, 0
    for batch in voted_batches(session, round):
        for example in batch:
            outcome = decision(example, ballots, settled)
            counts = _add(counts, example, outcome, in_house_cost(example))
            votes += len(example.votes)
            differing += example.status in DECIDED and _told(outcome) != _told(example)
            if example.status is not ExampleStatus.WITHDRAWN:
                agreement.add(_values(example, ballots))
    cost = counts.cost + crowd_cost(session, round)
    tries = session.scalar(_tries(round).with_only_columns(func.count())) or 0
    whole, is_closed = replace(counts, tries=tries, cost=cost), round.status is RoundStatus.CLOSED
    return RoundMetrics(round.number, whole, votes, agreement.alpha, differing, is_closed)


def metrics_by(session: Session, round: Round, by: str) -> list[Group]:
    """The figures by `worker`, `label` or `context`, those with most examples first.

    Each example carries its own share of time and money; what belongs to no example is the whole round's only.
    """
    if by not in KEYS:
        raise RoundError(f"metrics go by {', '.join(KEYS)}, not by {by!r}")
    if by == "label" and spec_of(round).kind != "classification":
        raise RoundError("a task with answers has no labels; take the metrics by worker or context")
    key, column = KEYS[by]
    ballots, settled = VoteCounter(spec_of(round)), settled_ids(session, round)
    groups: dict[Hashable, Counts] = {}
    for batch in voted_batches(session, round):
        costs = costs_of(session, batch)
        for example in batch:
            outcome = decision(example, ballots, settled)
            own = groups.get(key(example), Counts())
            groups[key(example)] = _add(own, example, outcome, costs[example.id])
    for name, tries in session.execute(_tries(round).with_only_columns(column, func.count()).group_by(column)):
        if name in groups:
            groups[name] = replace(groups[name], tries=tries)
    names = _names(session, round, by, groups)
    found = [Group(names[one], counts) for one, counts in groups.items()]
    return sorted(found, key=lambda group: (-group.counts.collected, group.name))


def _told(decided: Outcome | VotedExample) -> tuple[Any, ...]:
    return decided.status, decided.gold_label, decided.gold_answer


def _add(counts: Counts, example: VotedExample, outcome: Outcome, cost: Cost) -> Counts:
    if example.status is ExampleStatus.WITHDRAWN:
        return replace(counts, withdrawn=counts.withdrawn + 1, cost=counts.cost + cost)
    is_verified = outcome.status is ExampleStatus.VERIFIED
    is_disputed = outcome.status is ExampleStatus.DISPUTED
    fooled = example.fooled
    return replace(
        counts,
        collected=counts.collected + 1,
        fooled=counts.fooled + fooled,
        verified_fooling=counts.verified_fooling + (fooled and is_verified),
        disputed_fooling=counts.disputed_fooling + (fooled and is_disputed),
        verified_others=counts.verified_others + (is_verified and not fooled),
        disputed_others=counts.disputed_others + (is_disputed and not fooled),
        cost=counts.cost + cost,
    )


def _values(example: VotedExample, ballots: VoteCounter) -> list[str]:
    """What validators agree on or not: labels, or for answers whether they are the author's."""
    if example.label is not None:
        return example.said(ballots)
    author = str((example.answer or {}).get("text"))
    return ["author's" if said == author else "other" for said in example.said(ballots)]


def _tries(round: Round) -> Select[int]:
    """The questions that people put to the model; what a page asked that nobody was confirmed on does not count."""
    made = select(Attempt.id).outerjoin(WorkSession, WorkSession.id == Attempt.session_id)
    confirmed = or_(Attempt.session_id.is_(None), WorkSession.status == SessionStatus.CONFIRMED)
    return made.where(Attempt.round_id == round.id, confirmed)


def _names(session: Session, round: Round, by: str, groups: Iterable[Hashable]) -> dict[Any, str]:
    if by == "label":
        return {one: str(one) for one in groups}
    ids = [one for one in groups if isinstance(one, int)]
    if by == "worker":
        return worker_names(session, session.get_one(Task, round.task_id), ids)
    keys = select(Context.id, Context.key).where(Context.task_id == round.task_id)
    return {None: "(no context)", **{row.id: row.key for row in session.execute(keys)}}


KEYS: dict[str, tuple[Callable[[VotedExample], Hashable], Any]] = {
    "worker": (lambda example: example.author_id, Attempt.worker_id),
    "label": (lambda example: example.label, Attempt.label),
    "context": (lambda example: example.context_id, Attempt.context_id),
}
