"""Flags: examples that validators say should not be used; the owner keeps or withdraws them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from common.errors import Hint
from round_manager import audit
from round_manager.errors import DecisionRefused, ExampleNotFound
from round_manager.models import (
    AuditEntry,
    Example,
    ExampleStatus,
    GoldItem,
    Hit,
    Round,
    RoundStatus,
    Task,
    Vote,
    WorkItem,
    spec_of,
)
from round_manager.novelty.decisions import decide_again
from round_manager.validation.decisions import DECIDED, VoteCounter, decide_examples, settle_bonuses_of
from round_manager.work.gold import each_gold_flag
from templates.contract import judged_fields

BATCH = 500
# The audit action of an owner who keeps an example; its entry names the flags that they saw.
KEPT, SEEN = "kept", "flags"


@dataclass(frozen=True)
class FlagVote:
    """One vote on a flagged example, without its author."""

    label: str | None
    answer: str | None
    flag: str | None
    comment: str | None


@dataclass(frozen=True)
class Flag:
    """A flag on an example with a unique key; a flag on a gold item is not a vote."""

    key: str
    example_id: int
    on_gold: bool
    said: FlagVote


@dataclass(frozen=True)
class FlaggedGold:
    """A gold item of the owner that was flagged, and what people say about it."""

    row: str
    fields: dict[str, Any]
    target: str
    flags: tuple[FlagVote, ...]


@dataclass(frozen=True)
class Flagged:
    """A flagged example: what people saw, its author's label or answer, and the votes."""

    example: UUID
    round: int
    status: ExampleStatus
    fields: dict[str, str]
    target: str
    fooled: bool
    submitted_at: datetime
    votes: tuple[FlagVote, ...]

    @property
    def waits(self) -> bool:
        """Whether it waits for its owner's decision; if not, it is decided and was flagged late."""
        return self.status is ExampleStatus.FLAGGED


def flagged(session: Session, round: Round) -> Iterator[Flagged]:
    """Yield the examples of the round that wait for their owner, oldest first; then those that were flagged late."""
    after = 0
    while True:
        wanted = select(Example).where(
            Example.round_id == round.id, Example.status == ExampleStatus.FLAGGED, Example.id > after
        )
        found = session.scalars(wanted.order_by(Example.id).limit(BATCH)).all()
        yield from _shown(session, found, {})
        if len(found) < BATCH:
            break
        after = found[-1].id
    late = late_flags(session, round)
    ids = sorted(late)
    for first in range(0, len(ids), BATCH):
        some = select(Example).where(Example.id.in_(ids[first : first + BATCH])).order_by(Example.id)
        yield from _shown(session, session.scalars(some).all(), late)


def count_flagged(session: Session, round: Round) -> int:
    """Return the number of the round's examples that wait for their owner."""
    waiting = select(func.count()).where(Example.round_id == round.id, Example.status == ExampleStatus.FLAGGED)
    return session.scalar(waiting) or 0


def find_example(session: Session, task: Task, public_id: UUID) -> Example:
    """Return the task's example of that id, locked until the transaction ends, or raise ExampleNotFound."""
    wanted = select(Example).where(Example.public_id == public_id, Example.task_id == task.id)
    held = wanted.with_for_update(key_share=True).execution_options(populate_existing=True)
    found = session.scalar(held)
    if found is None:
        hint = Hint("list_flags", task=task.name)
        raise ExampleNotFound(f"{task.name} has no example {public_id}", hint=hint)
    return found


def keep(session: Session, example: Example, *, actor: str, reason: str, now: datetime) -> Example:
    """Dismiss the flags on an example: it counts again, and the votes that it has decide.

    A decided example keeps its status, also in a closed round; its late flags are no longer listed.
    """
    before, seen = example.status, [flag.key for flag in flags_on(session, example)]
    if before in DECIDED and late_flags_on(session, example):
        round = session.get_one(Round, example.round_id)
        _note(session, KEPT, example, round, before, actor=actor, reason=reason, now=now, seen=seen)
        return example
    round = _live_round(session, example)
    if before is not ExampleStatus.FLAGGED:
        raise DecisionRefused(f"example {example.public_id} is {before.value}; only a flagged example can be kept")
    example.status = ExampleStatus.PENDING if example.votes_wanted else ExampleStatus.UNCHECKED
    decide_examples(session, VoteCounter(spec_of(round)), [example], now=now)
    _note(session, KEPT, example, round, before, actor=actor, reason=reason, now=now, seen=seen)
    settle_bonuses_of(session, [example], now=now)
    return example


def withdraw(session: Session, example: Example, *, actor: str, reason: str, now: datetime) -> Example:
    """Withdraw the example, whatever its votes; a bonus that is owed stays owed. Safe to repeat."""
    if example.status is ExampleStatus.WITHDRAWN:
        return example
    round = _live_round(session, example)
    before = example.status
    if before is ExampleStatus.UNCONFIRMED:
        raise DecisionRefused(f"example {example.public_id} is not confirmed by the marketplace yet")
    example.status, example.decided_at, example.votes_wanted = ExampleStatus.WITHDRAWN, example.decided_at or now, 0
    session.flush()
    _note(session, "withdrew", example, round, before, actor=actor, reason=reason, now=now)
    settle_bonuses_of(session, [example, *decide_again(session, [example])], now=now)
    return example


def _live_round(session: Session, example: Example) -> Round:
    round = session.get_one(Round, example.round_id)
    if round.status is RoundStatus.CLOSED:
        raise DecisionRefused(f"round {round.number} is closed; its examples cannot be changed")
    return round


def _note(
    session: Session,
    action: str,
    example: Example,
    round: Round,
    before: ExampleStatus,
    *,
    actor: str,
    reason: str,
    now: datetime,
    seen: Sequence[str] = (),
) -> None:
    was, after = {"status": before.value}, {"status": example.status.value, **({SEEN: list(seen)} if seen else {})}
    audit.note(session, action, example, actor=actor, reason=reason, now=now, of=round, before=was, after=after)


def _shown(session: Session, examples: Sequence[Example], late: Mapping[int, Sequence[Flag]]) -> Iterator[Flagged]:
    votes = _votes(session, [example.id for example in examples])
    for example in examples:
        round = session.get_one(Round, example.round_id)
        fields = {name: str(example.fields[name]) for name in judged_fields(spec_of(round))}
        # Flags on gold items are not votes.
        on_gold = [flag.said for flag in late.get(example.id, ()) if flag.on_gold]
        yield Flagged(
            example.public_id,
            round.number,
            example.status,
            fields,
            target_of(example.label, example.answer),
            example.fooled,
            example.submitted_at,
            (*votes.get(example.id, ()), *on_gold),
        )


def _votes(session: Session, example_ids: list[int]) -> dict[int, list[FlagVote]]:
    wanted = select(Vote.example_id, Vote.label, Vote.answer, Vote.flag, Vote.comment)
    found: dict[int, list[FlagVote]] = {}
    mine = wanted.where(Vote.example_id.in_(example_ids)).order_by(Vote.id)
    for example_id, label, answer, flag, comment in session.execute(mine):
        text = None if answer is None else str(answer.get("text"))
        found.setdefault(example_id, []).append(FlagVote(label, text, flag, comment))
    return found


def late_flags(session: Session, round: Round) -> dict[int, list[Flag]]:
    """Return late flags that no owner has seen, by example: on decided ones of the round, and on gold of its pages."""
    found = [
        *_voted(session, Example.round_id == round.id, Example.status.in_(DECIDED)),
        *_on_gold(session, Hit.round_id == round.id, WorkItem.example_id.is_not(None)),
    ]
    ids = {flag.example_id for flag in found}
    decided = set(session.scalars(select(Example.id).where(Example.id.in_(ids), Example.status.in_(DECIDED))))
    return _unseen(session, (flag for flag in found if flag.example_id in decided))


def late_flags_on(session: Session, example: Example) -> list[Flag]:
    """Return the flags on one example that no owner has seen yet, from any page."""
    return _unseen(session, flags_on(session, example)).get(example.id, [])


def flags_on(session: Session, example: Example) -> list[Flag]:
    """Return every flag on an example."""
    return [
        *_voted(session, Example.id == example.id),
        *_on_gold(session, WorkItem.example_id == example.id, WorkItem.example_id.is_not(None)),
    ]


def count_late(session: Session, round: Round) -> int:
    """Return the number of decided examples with a flag that no owner has seen."""
    return len(late_flags(session, round))


def flagged_gold(session: Session, round: Round) -> list[FlaggedGold]:
    """Return the owner's gold items that were flagged on the round's pages and are still in use."""
    flags: dict[int, list[FlagVote]] = defaultdict(list)
    for flag in each_gold_flag(session, Hit.round_id == round.id, WorkItem.gold_id.is_not(None)):
        flags[flag.gold_id or 0].append(FlagVote(None, None, flag.reason, flag.comment))
    living = select(GoldItem).where(GoldItem.id.in_(flags), GoldItem.retired_at.is_(None)).order_by(GoldItem.id)
    return [
        # The key is the row's id followed by a hash.
        FlaggedGold(item.key.rpartition("@")[0], item.fields, target_of(item.label, item.answer), tuple(flags[item.id]))
        for item in session.scalars(living)
    ]


def target_of(label: str | None, answer: Mapping[str, Any] | None) -> str:
    """Return the label, or the text of the answer."""
    return label if label is not None else str((answer or {}).get("text"))


def _voted(session: Session, *where: ColumnElement[bool]) -> list[Flag]:
    wanted = select(Vote.id, Vote.example_id, Vote.flag, Vote.comment).join(Example, Example.id == Vote.example_id)
    return [
        Flag(f"vote {vote_id}", example_id, False, FlagVote(None, None, flag, comment))
        for vote_id, example_id, flag, comment in session.execute(
            wanted.where(Vote.flag.is_not(None), *where).order_by(Vote.id)
        )
    ]


def _on_gold(session: Session, *where: ColumnElement[bool]) -> list[Flag]:
    return [
        Flag(f"item {flag.item_id}", flag.example_id or 0, True, FlagVote(None, None, flag.reason, flag.comment))
        for flag in each_gold_flag(session, *where)
    ]


def _unseen(session: Session, flags: Iterable[Flag]) -> dict[int, list[Flag]]:
    found: dict[int, list[Flag]] = defaultdict(list)
    for flag in flags:
        found[flag.example_id].append(flag)
    for example_id, seen in _seen(session, found).items():
        found[example_id] = [flag for flag in found[example_id] if flag.key not in seen]
    return {example_id: left for example_id, left in found.items() if left}


def _seen(session: Session, example_ids: Collection[int]) -> dict[int, set[str]]:
    entry = AuditEntry
    kept = select(entry.subject_id, entry.after).where(
        entry.subject == Example.__tablename__, entry.subject_id.in_(example_ids), entry.action == KEPT
    )
    seen: dict[int, set[str]] = defaultdict(set)
    for example_id, after in session.execute(kept):
        seen[example_id].update((after or {}).get(SEEN, ()))
    return seen
