"""Metrics: how often workers fool the model, how often validators agree, and what that costs.

All confirmed examples count that their owner has not withdrawn. MER is the share of those that fooled the model; vMER
the share that fooled it and was verified, which can only rise until the round is closed. Decisions are recomputed from
the votes by the round's policy, so that a wrong stored status is noticed.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from round_manager.errors import MetricsUnavailable
from round_manager.models import (
    Attempt,
    Context,
    ExampleStatus,
    Round,
    RoundStatus,
    Task,
    spec_of,
)
from round_manager.pseudonyms import worker_names
from round_manager.rates import Rate
from round_manager.tasks.rounds import NOT_COUNTED, attempts_of, tallies_of
from round_manager.validation.costs import Cost, costs_of, crowd_cost, in_house_cost
from round_manager.validation.decisions import DECIDED, Outcome, VoteCounter
from round_manager.validation.voted_examples import Agreement, VotedExample, decision, settled_ids, voted_batches

NOTHING = Cost()


@dataclass(frozen=True)
class Counts:
    """Counts of a round or of a part of it."""

    collected: int = 0
    fooled: int = 0
    verified_fooling: int = 0
    disputed_fooling: int = 0
    verified_others: int = 0
    disputed_others: int = 0
    withdrawn: int = 0
    tries: int = 0
    cost: Cost = NOTHING
    # Of an imported round: the examples of which it is known whether they fooled a model.
    judged: int | None = None

    @property
    def mer(self) -> Rate:
        """The model error rate: fooled of collected."""
        return Rate(self.fooled, self.collected if self.judged is None else self.judged)

    @property
    def vmer(self) -> Rate:
        """The validated model error rate: fooled and verified of collected."""
        return Rate(self.verified_fooling, self.collected if self.judged is None else self.judged)

    @property
    def undecided_fooling(self) -> int:
        """Fooling examples that wait for votes or for the owner."""
        return self.fooled - self.verified_fooling - self.disputed_fooling

    @property
    def author_errors(self) -> Rate:
        """Of decided examples that did not fool, those whose author validators disagree with."""
        return Rate(self.disputed_others, self.verified_others + self.disputed_others)

    @property
    def tries_per_fool(self) -> float | None:
        """Attempts for each example that fooled the model."""
        return self.tries / self.fooled if self.fooled and self.judged is None else None

    @property
    def seconds_per_verified(self) -> float | None:
        """People's seconds for each validated fooling example."""
        return self.cost.ms / 1_000 / self.verified_fooling if self._has_costs else None

    @property
    def cents_per_verified(self) -> int | None:
        """Whole cents for each validated fooling example, rounded up."""
        return -(-self.cost.cents // self.verified_fooling) if self._has_costs else None

    @property
    def _has_costs(self) -> bool:
        return self.verified_fooling > 0 and self.judged is None


@dataclass(frozen=True)
class RoundMetrics:
    """A round's metrics; `differing` counts examples whose stored decision differs from their votes."""

    number: int
    counts: Counts
    votes: int
    alpha: float | None
    differing: int
    # In a closed round, undecided examples stay undecided.
    is_closed: bool = False
    in_house: bool = False
    imported: bool = False


@dataclass(frozen=True)
class Group:
    """The metrics of one worker (by pseudonym), label or context."""

    name: str
    counts: Counts


def round_metrics(session: Session, round: Round) -> RoundMetrics:
    """Return the metrics of a whole round, with the full cost of its HITs; of an imported one, what was published."""
    if round.imported is not None:
        return _imported_metrics(session, round)
    counter, settled = VoteCounter(spec_of(round)), settled_ids(session, round)
    counts, agreement, votes, differing = Counts(), Agreement(), 0, 0
    for batch in voted_batches(session, round):
        for example in batch:
            outcome = decision(example, counter, settled)
            counts = _add(counts, example, outcome, in_house_cost(example))
            votes += len(example.votes)
            differing += example.status in DECIDED and _decided(outcome) != _decided(example)
            if example.status is not ExampleStatus.WITHDRAWN:
                agreement.add(_values(example, counter))
    cost = counts.cost + crowd_cost(session, round)
    tries = session.scalar(attempts_of(round).with_only_columns(func.count())) or 0
    whole, is_closed = replace(counts, tries=tries, cost=cost), round.status is RoundStatus.CLOSED
    return RoundMetrics(round.number, whole, votes, agreement.alpha, differing, is_closed, round.in_house)


def _imported_metrics(session: Session, round: Round) -> RoundMetrics:
    figures = (round.imported or {})["figures"]
    unjudged = figures["unjudged"]
    tallies = tallies_of(session, round)
    verified, disputed = ExampleStatus.VERIFIED, ExampleStatus.DISPUTED
    collected = sum(number for (status, _), number in tallies.items() if status not in NOT_COUNTED)
    counts = Counts(
        collected=collected,
        fooled=sum(number for (status, fooled), number in tallies.items() if fooled and status not in NOT_COUNTED),
        verified_fooling=tallies.get((verified, True), 0),
        disputed_fooling=tallies.get((disputed, True), 0),
        verified_others=tallies.get((verified, False), 0) - unjudged.get(verified, 0),
        disputed_others=tallies.get((disputed, False), 0) - unjudged.get(disputed, 0),
        withdrawn=sum(number for (status, _), number in tallies.items() if status is ExampleStatus.WITHDRAWN),
        judged=collected - sum(number for status, number in unjudged.items() if status not in NOT_COUNTED),
    )
    return RoundMetrics(round.number, counts, figures["votes"], figures["alpha"], 0, is_closed=True, imported=True)


def metrics_by(session: Session, round: Round, by: str) -> list[Group]:
    """Return the metrics by `worker`, `label` or `context`, those with the most examples first.

    Each example has its own share of time and money; costs that belong to no example are in the round's total only.
    """
    if by not in KEYS:
        raise MetricsUnavailable(f"metrics are available by {', '.join(KEYS)}, not by {by!r}")
    if by == "label" and spec_of(round).kind != "classification":
        raise MetricsUnavailable("a task with answers has no labels; use worker or context")
    key, column = KEYS[by]
    counter, settled = VoteCounter(spec_of(round)), settled_ids(session, round)
    groups: dict[Hashable, Counts] = {}
    for batch in voted_batches(session, round):
        costs = costs_of(session, batch)
        for example in batch:
            outcome = decision(example, counter, settled)
            own = groups.get(key(example), Counts())
            groups[key(example)] = _add(own, example, outcome, costs[example.id])
    for name, tries in session.execute(attempts_of(round).with_only_columns(column, func.count()).group_by(column)):
        if name in groups:
            groups[name] = replace(groups[name], tries=tries)
    names = _names(session, round, by, groups)
    found = [Group(names[one], counts) for one, counts in groups.items()]
    return sorted(found, key=lambda group: (-group.counts.collected, group.name))


def _decided(decided: Outcome | VotedExample) -> tuple[Any, ...]:
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


def _values(example: VotedExample, counter: VoteCounter) -> list[str]:
    """Return what validators agree or disagree on: labels, or whether an answer is the author's."""
    if example.label is not None:
        return example.said(counter)
    author = str((example.answer or {}).get("text"))
    return ["author's" if said == author else "other" for said in example.said(counter)]


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
