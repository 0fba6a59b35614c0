"""Use cases about examples: list them, count their votes, decide flagged and disputed ones, and compute metrics.

Examples are listed page by page, newest first. A page continues after the id of its last example
(`ExamplePage.next_after`), so that it costs the same at any depth and no example is shown twice while new ones arrive.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Select, func, select
from sqlalchemy.orm import aliased

from common.errors import Hint
from round_manager.errors import ExampleNotFound, RoundImported
from round_manager.loop.waiting import undecided
from round_manager.models import (
    Context,
    EntryKind,
    EntryState,
    Example,
    ExampleStatus,
    LedgerEntry,
    Round,
    RoundStatus,
    Vote,
    Worker,
)
from round_manager.pseudonyms import worker_names
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.rounds import choose_round, list_rounds, opened_rounds
from round_manager.tasks.tasks import find_task
from round_manager.validation import aggregation, flags, metrics, voted_examples
from round_manager.validation.aggregation import PolicyComparison
from round_manager.validation.decisions import Decisions, decide_round
from round_manager.validation.flags import Flagged, FlaggedGold
from round_manager.validation.metrics import Group, RoundMetrics
from round_manager.validation.suspects import Suspects, find_suspects
from round_manager.validation.voted_examples import Validator

MOST_PER_PAGE = 200


@dataclass(frozen=True)
class VotesCounted:
    """What new votes decided in a round, and how many flagged examples wait for the owner.

    `flagged_late` counts examples that were flagged after they had been decided.
    """

    number: int
    decisions: Decisions
    flagged: int
    flagged_late: int


@dataclass(frozen=True)
class FlagList:
    """The flagged examples and flagged gold items of a round."""

    number: int
    examples: tuple[Flagged, ...]
    gold: tuple[FlaggedGold, ...]


@dataclass(frozen=True)
class Aggregation:
    """Labels of the Dawid-Skene model compared with those of the policy, and what was settled by them, if anything."""

    number: int
    comparison: PolicyComparison
    settlement: Decisions | None


@dataclass(frozen=True)
class ListedExample:
    """An example with the key of its context, the pseudonym of its author and the number of its votes.

    `simulated` says whether a simulated worker wrote it, `simulated_votes` how many of its votes such workers gave, and
    `bonus` is the state of its author's bonus.
    """

    example: Example
    context: str | None
    author: str
    votes: int
    simulated: bool = False
    simulated_votes: int = 0
    bonus: EntryState | None = None


@dataclass(frozen=True)
class ExamplePage:
    """Some examples of a round, and the id to continue after; None on the last page."""

    round: Round
    examples: tuple[ListedExample, ...]
    next_after: UUID | None


def list_examples(
    context: ServiceContext,
    task: str,
    *,
    number: int | None = None,
    statuses: Collection[ExampleStatus] = (),
    fooled: bool | None = None,
    after: UUID | None = None,
    limit: int = 50,
) -> ExamplePage:
    """Return one page of a round's examples, newest first; by default of the live round, else of the newest."""
    size = max(1, min(limit, MOST_PER_PAGE))
    with context.store.read() as session:
        owner = find_task(session, task)
        round = choose_round(session, owner, number)
        _check_collected(round, task)
        wanted = _listed().where(Example.round_id == round.id)
        if statuses:
            wanted = wanted.where(Example.status.in_(statuses))
        if fooled is not None:
            wanted = wanted.where(Example.fooled.is_(fooled))
        if after is not None:
            last = session.scalar(select(Example.id).where(Example.public_id == after, Example.round_id == round.id))
            if last is None:
                raise ExampleNotFound(f"round {round.number} has no example {after}")
            wanted = wanted.where(Example.id < last)
        # One more than a page holds, to know whether there is another page.
        found = session.execute(wanted.order_by(Example.id.desc()).limit(size + 1)).all()
        authors = worker_names(session, owner, {example.author_id for example, *_ in found})
    rows = tuple(ListedExample(one, key, authors[one.author_id], *rest) for one, key, *rest in found[:size])
    return ExamplePage(round, rows, rows[-1].example.public_id if len(found) > size else None)


def _listed() -> Select[Any]:
    """Select examples with what ListedExample adds, apart from the pseudonym."""
    voter = aliased(Worker)
    votes = select(func.count()).select_from(Vote).where(Vote.example_id == Example.id)
    simulated = votes.join(voter, voter.id == Vote.worker_id).where(voter.simulated)
    of_bonus = (LedgerEntry.example_id == Example.id, LedgerEntry.kind == EntryKind.BONUS)
    bonus = select(LedgerEntry.state).where(*of_bonus)
    return (
        select(
            Example,
            Context.key,
            votes.scalar_subquery(),
            Worker.simulated,
            simulated.scalar_subquery(),
            bonus.limit(1).scalar_subquery(),
        )
        .join(Context, Context.id == Example.context_id, isouter=True)
        .join(Worker, Worker.id == Example.author_id)
    )


def count_votes(context: ServiceContext, task: str, *, number: int | None = None) -> VotesCounted:
    """Decide every example of a round whose votes allow it; earned bonuses become owed. Safe to repeat.

    The policy decides, not a person, so this needs no actor and writes no audit entry.
    """
    round = _newest(context, task, number)
    found = decide_round(context.store, round, now=context.now())
    with context.store.read() as session:
        waiting, late = flags.count_flagged(session, round), flags.count_late(session, round)
    return VotesCounted(round.number, found, waiting, late)


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
    return FlagList(round.number, found, gold)


def keep_example(context: ServiceContext, actor: Actor, task: str, example: UUID, *, reason: str) -> Example:
    """Dismiss the flags on an example: it counts again, and its votes decide."""
    with context.store.write() as session:
        found = flags.find_example(session, find_task(session, task), example)
        return flags.keep(session, found, actor=actor.name, reason=reason, now=context.now())


def withdraw_example(context: ServiceContext, actor: Actor, task: str, example: UUID, *, reason: str) -> Example:
    """Withdraw an example: it is not used, whatever its votes; bonuses that are owed stay owed."""
    with context.store.write() as session:
        found = flags.find_example(session, find_task(session, task), example)
        return flags.withdraw(session, found, actor=actor.name, reason=reason, now=context.now())


def compare_labels(
    context: ServiceContext, task: str, *, number: int | None = None, min_probability: float
) -> Aggregation:
    """Compare the gold labels of a round's policy with those of the Dawid-Skene model."""
    round = _newest(context, task, number)
    with context.store.read() as session:
        found = aggregation.compare(session, round, least=min_probability)
    return Aggregation(round.number, found, None)


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
    return Aggregation(compared.number, compared.comparison, done)


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


def list_suspects(context: ServiceContext, task: str, *, number: int | None = None) -> Suspects:
    """Return evidence about a round's validators for a person to judge; nothing follows from it automatically."""
    round = _newest(context, task, number)
    with context.store.read() as session:
        return find_suspects(session, round)


def _newest(context: ServiceContext, task: str, number: int | None) -> Round:
    with context.store.read() as session:
        found = opened_rounds(session, find_task(session, task), number)[-1]
    _check_collected(found, task)
    return found


def _check_collected(round: Round, task: str) -> None:
    if round.is_imported:
        text = f"round {round.number} of {task} was imported: its examples and votes are in its archive only"
        raise RoundImported(text, hint=Hint("verify_round", task=task, round=round.number))
