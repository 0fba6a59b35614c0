"""Flags: examples that somebody says should not be used wait here for their owner, who keeps or withdraws them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from round_manager import audit
from round_manager.errors import DecisionRefused
from round_manager.models import Example, ExampleStatus, Round, RoundStatus, Task, Vote
from round_manager.specs import spec_of
from round_manager.validation.ballots import Ballots
from round_manager.validation.deciding import decide_examples, settle_of
from round_manager.validation.late_flags import (
    DECIDED,
    KEPT,
    SEEN,
    Flag,
    Said,
    flags_on,
    late_flags,
    late_flags_on,
    target_of,
)
from templates.contract import judged_fields

BATCH = 500


@dataclass(frozen=True)
class Flagged:
    """A flagged example: where it is, what people saw, what its author says it is, and what others say."""

    example: UUID
    round: int
    status: ExampleStatus
    fields: dict[str, str]
    target: str
    fooled: bool
    submitted_at: datetime
    votes: tuple[Said, ...]

    @property
    def waits(self) -> bool:
        """Whether nothing becomes of it before its owner speaks; else it is decided, and the flag came late."""
        return self.status is ExampleStatus.FLAGGED


def flagged(session: Session, round: Round) -> Iterator[Flagged]:
    """Every example of the round that waits for its owner, the oldest first; then those with a late flag."""
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
    """How many examples of the round wait for their owner."""
    waiting = select(func.count()).where(Example.round_id == round.id, Example.status == ExampleStatus.FLAGGED)
    return session.scalar(waiting) or 0


def find_example(session: Session, task: Task, public_id: UUID) -> Example:
    """The task's example of that id, held until the transaction ends; or a DecisionRefused that tells where to look."""
    wanted = select(Example).where(Example.public_id == public_id, Example.task_id == task.id)
    held = wanted.with_for_update(key_share=True).execution_options(populate_existing=True)
    found = session.scalar(held)
    if found is None:
        cure = f"`outfox round flags {task.name}` lists those that wait for you"
        raise DecisionRefused(f"{task.name} has no example {public_id}; {cure}")
    return found


def keep(session: Session, example: Example, *, who: str, why: str, now: datetime) -> Example:
    """The owner finds nothing wrong: the example counts again, and is decided by the votes that it has.

    One that is decided stays as it is, in a closed round too; its late flags are not shown any more.
    """
    before, seen = example.status, [flag.key for flag in flags_on(session, example)]
    if before in DECIDED and late_flags_on(session, example):
        round = session.get_one(Round, example.round_id)
        _note(session, KEPT, example, round, before, who=who, why=why, now=now, seen=seen)
        return example
    round = _live_round(session, example)
    if before is not ExampleStatus.FLAGGED:
        raise DecisionRefused(f"example {example.public_id} is {before.value}; only what is flagged can be kept")
    example.status = ExampleStatus.PENDING if example.votes_wanted else ExampleStatus.UNCHECKED
    decide_examples(session, Ballots(spec_of(round)), [example], now=now)
    _note(session, KEPT, example, round, before, who=who, why=why, now=now, seen=seen)
    settle_of(session, [example], now=now)
    return example


def withdraw(session: Session, example: Example, *, who: str, why: str, now: datetime) -> Example:
    """The example is not used, whatever people voted; a bonus that is owed stays owed. Once more does no harm."""
    if example.status is ExampleStatus.WITHDRAWN:
        return example
    round = _live_round(session, example)
    before = example.status
    if before is ExampleStatus.UNCONFIRMED:
        raise DecisionRefused(f"example {example.public_id} is nobody's yet; the marketplace has to confirm it first")
    example.status, example.decided_at, example.votes_wanted = ExampleStatus.WITHDRAWN, example.decided_at or now, 0
    session.flush()
    _note(session, "withdrew", example, round, before, who=who, why=why, now=now)
    settle_of(session, [example], now=now)
    return example


def _live_round(session: Session, example: Example) -> Round:
    round = session.get_one(Round, example.round_id)
    if round.status is RoundStatus.CLOSED:
        raise DecisionRefused(f"round {round.number} is closed, and what is in it is decided")
    return round


def _note(
    session: Session,
    action: str,
    example: Example,
    round: Round,
    before: ExampleStatus,
    *,
    who: str,
    why: str,
    now: datetime,
    seen: Sequence[str] = (),
) -> None:
    was, after = {"status": before.value}, {"status": example.status.value, **({SEEN: list(seen)} if seen else {})}
    audit.note(session, action, example, who=who, why=why, now=now, of=round, before=was, after=after)


def _shown(session: Session, examples: Sequence[Example], late: Mapping[int, Sequence[Flag]]) -> Iterator[Flagged]:
    votes = _votes(session, [example.id for example in examples])
    for example in examples:
        round = session.get_one(Round, example.round_id)
        fields = {name: str(example.fields[name]) for name in judged_fields(spec_of(round))}
        # Flags on gold are no votes.
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


def _votes(session: Session, example_ids: list[int]) -> dict[int, list[Said]]:
    wanted = select(Vote.example_id, Vote.label, Vote.answer, Vote.flag, Vote.comment)
    found: dict[int, list[Said]] = {}
    mine = wanted.where(Vote.example_id.in_(example_ids)).order_by(Vote.id)
    for example_id, label, answer, flag, comment in session.execute(mine):
        text = None if answer is None else str(answer.get("text"))
        found.setdefault(example_id, []).append(Said(label, text, flag, comment))
    return found
