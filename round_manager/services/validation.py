"""Use cases about validation: count votes, decide flagged examples, settle disputed ones, and compute metrics."""

from dataclasses import dataclass
from uuid import UUID

from round_manager.loop.waiting import undecided
from round_manager.models import ExampleStatus, Round, RoundStatus
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.rounds import list_rounds, opened_rounds
from round_manager.tasks.tasks import find_task
from round_manager.validation import aggregation, flags, metrics, voted_examples
from round_manager.validation.aggregation import PolicyComparison
from round_manager.validation.decisions import Decisions, decide_round
from round_manager.validation.flags import Flagged, FlaggedGold
from round_manager.validation.metrics import Group, RoundMetrics
from round_manager.validation.voted_examples import Validator


@dataclass(frozen=True)
class VotesCounted:
    """What new votes decided in a round, and how many flagged examples wait for the owner.

    `flagged_late` counts examples that were flagged after they had been decided.
    """

    task: str
    number: int
    decisions: Decisions
    flagged: int
    flagged_late: int


@dataclass(frozen=True)
class FlagList:
    """The flagged examples and flagged gold items of a round."""

    task: str
    number: int
    examples: tuple[Flagged, ...]
    gold: tuple[FlaggedGold, ...]


@dataclass(frozen=True)
class ExampleDecided:
    """An example after its owner's decision."""

    task: str
    example: UUID
    status: ExampleStatus


@dataclass(frozen=True)
class Aggregation:
    """Labels of the Dawid-Skene model compared with those of the policy, and what was settled by them, if anything."""

    task: str
    number: int
    comparison: PolicyComparison
    settlement: Decisions | None


def count_votes(context: ServiceContext, task: str, *, number: int | None = None) -> VotesCounted:
    """Decide every example of a round whose votes allow it; earned bonuses become owed. Safe to repeat.

    The policy decides, not a person, so this needs no actor and writes no audit entry.
    """
    round = _newest(context, task, number)
    found = decide_round(context.store, round, now=context.now())
    with context.store.read() as session:
        waiting, late = flags.count_flagged(session, round), flags.count_late(session, round)
    return VotesCounted(task, round.number, found, waiting, late)


def count_new_votes(context: ServiceContext, task: str) -> Decisions:
    """Decide what can be decided in every opened round of the task that is not frozen yet."""
    with context.store.read() as session:
        rounds = list_rounds(session, find_task(session, task))
    decisions = Decisions()
    for one in rounds:
        if one.status is not RoundStatus.DRAFT and one.frozen_at is None:
            decisions += decide_round(context.store, one, now=context.now())
    return decisions


def has_new_votes(context: ServiceContext, task: str) -> bool:
    """Return whether an opened round of the task has votes that have not been counted yet."""
    with context.store.read() as session:
        rounds = list_rounds(session, find_task(session, task))
        return any(undecided(session, one) for one in rounds if one.frozen_at is None)


def list_flags(context: ServiceContext, task: str, *, number: int | None = None) -> FlagList:
    """Return the flagged examples of a round and what people say about them."""
    round = _newest(context, task, number)
    with context.store.read() as session:
        found, gold = tuple(flags.flagged(session, round)), tuple(flags.flagged_gold(session, round))
    return FlagList(task, round.number, found, gold)


def keep_example(context: ServiceContext, actor: Actor, task: str, example: UUID, *, reason: str) -> ExampleDecided:
    """Dismiss the flags on an example: it counts again, and its votes decide."""
    with context.store.write() as session:
        found = flags.find_example(session, find_task(session, task), example)
        flags.keep(session, found, actor=actor.name, reason=reason, now=context.now())
        return ExampleDecided(task, example, found.status)


def withdraw_example(context: ServiceContext, actor: Actor, task: str, example: UUID, *, reason: str) -> ExampleDecided:
    """Withdraw an example: it is not used, whatever its votes; bonuses that are owed stay owed."""
    with context.store.write() as session:
        found = flags.find_example(session, find_task(session, task), example)
        flags.withdraw(session, found, actor=actor.name, reason=reason, now=context.now())
        return ExampleDecided(task, example, found.status)


def compare_labels(
    context: ServiceContext, task: str, *, number: int | None = None, min_probability: float
) -> Aggregation:
    """Compare the gold labels of a round's policy with those of the Dawid-Skene model."""
    round = _newest(context, task, number)
    with context.store.read() as session:
        found = aggregation.compare(session, round, least=min_probability)
    return Aggregation(task, round.number, found, None)


def settle_examples(
    context: ServiceContext,
    actor: Actor,
    task: str,
    *,
    number: int | None = None,
    min_probability: float,
    reason: str,
) -> Aggregation:
    """Give disputed examples without a gold label the label of the Dawid-Skene model, if it is probable enough."""
    compared = compare_labels(context, task, number=number, min_probability=min_probability)
    round = _newest(context, task, number)
    done = aggregation.settle(
        context.store, round, least=min_probability, actor=actor.name, reason=reason, now=context.now()
    )
    return Aggregation(task, compared.number, compared.comparison, done)


def round_metrics(context: ServiceContext, task: str, *, number: int | None = None) -> list[RoundMetrics]:
    """Return the metrics of every opened round, or of one, recomputed from the votes."""
    with context.store.read() as session:
        opened = opened_rounds(session, find_task(session, task), number)
        return [metrics.round_metrics(session, one) for one in opened]


def metrics_by(context: ServiceContext, task: str, by: str, *, number: int | None = None) -> list[Group]:
    """Return a round's metrics by `worker`, `label` or `context`."""
    round = _newest(context, task, number)
    with context.store.read() as session:
        return metrics.metrics_by(session, round, by)


def list_validators(context: ServiceContext, task: str, *, number: int | None = None) -> list[Validator]:
    """Return everyone who voted in a round, with their agreement and their accuracy on gold items."""
    round = _newest(context, task, number)
    with context.store.read() as session:
        return voted_examples.validators(session, round)


def _newest(context: ServiceContext, task: str, number: int | None) -> Round:
    with context.store.read() as session:
        return opened_rounds(session, find_task(session, task), number)[-1]
