"""Outcomes: what became of the examples that a worker submitted, and what they earn beyond the reward.

Workers read no more than they may know: the decision on their own text, never a vote, a validator or another text.
"""

import enum
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from crowd.inquiries import LONGEST_TEXT, ExampleOutcome
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryKind,
    Example,
    ExampleStatus,
    LedgerEntry,
    Round,
    RoundStatus,
    Worker,
    WorkSession,
    spec_of,
)
from round_manager.money.bonuses import BEING_PAID, CAN_STILL_EARN


class Outcome(enum.StrEnum):
    """What became of an example, as far as its author may know."""

    WAITING = "waiting"
    VERIFIED = "verified"
    DISPUTED = "disputed"
    DUPLICATE = "duplicate"
    WITHDRAWN = "withdrawn"
    # It did not fool the model, so that no bonus depends on a decision.
    NOT_CHECKED = "not_checked"
    # The round ended first.
    UNDECIDED = "undecided"


def outcomes_of(
    session: Session, marketplace: str, worker_id: str, assignment_ids: Collection[str]
) -> dict[str, tuple[ExampleOutcome, ...]]:
    """Return the outcomes of a worker's assignments that have examples; assignments of others are left out."""
    wanted = (
        select(Assignment, Example, Round)
        .join(Worker, Worker.id == Assignment.worker_id)
        .join(WorkSession, WorkSession.assignment_id == Assignment.id)
        .join(Example, (Example.session_id == WorkSession.id) & Example.session_id.is_not(None))
        .join(Round, Round.id == Example.round_id)
        .where(Assignment.marketplace == marketplace, Assignment.external_id.in_(assignment_ids))
        .where(Worker.external_id == worker_id)
        .order_by(Assignment.id, Example.item)
    )
    rows = session.execute(wanted).all()
    paid = _paid(session, [example.id for _, example, _ in rows])
    found: dict[str, list[ExampleOutcome]] = {}
    for assignment, example, round in rows:
        one = _outcome(assignment, example, round, paid.get(example.id, 0))
        found.setdefault(assignment.external_id, []).append(one)
    return {name: tuple(examples) for name, examples in found.items()}


def waiting_bonuses(session: Session, marketplace: str, worker_id: str, *, now: datetime) -> tuple[int, int]:
    """Return how many examples of a worker may still earn a bonus, and the cents of all these bonuses."""
    counts = (
        select(Example.round_id, func.count())
        .join(Worker, Worker.id == Example.author_id)
        .join(Round, Round.id == Example.round_id)
        .where(Worker.marketplace == marketplace, Worker.external_id == worker_id)
        .where(Example.status.in_(CAN_STILL_EARN), Example.fooled, Example.duplicate.is_(None))
        .where(Round.status != RoundStatus.CLOSED)
        .group_by(Example.round_id)
    )
    examples = cents = 0
    for round_id, number in session.execute(counts):
        each = spec_of(session.get_one(Round, round_id)).pay.fooled_bonus_cents
        examples += number if each else 0
        cents += number * each
    return examples, cents


def _outcome(assignment: Assignment, example: Example, round: Round, paid_cents: int) -> ExampleOutcome:
    outcome, bonus = _decision(assignment, example, round), spec_of(round).pay.fooled_bonus_cents
    earns = {Outcome.WAITING: bonus if example.fooled else 0}.get(outcome, paid_cents)
    return ExampleOutcome(_text(round, example.fields)[:LONGEST_TEXT], outcome.value, earns)


def _decision(assignment: Assignment, example: Example, round: Round) -> Outcome:
    status = example.status
    if status is ExampleStatus.WITHDRAWN or assignment.status is AssignmentStatus.REJECTED:
        return Outcome.WITHDRAWN
    if example.duplicate is not None:
        return Outcome.DUPLICATE
    if status is ExampleStatus.VERIFIED:
        return Outcome.VERIFIED
    if status is ExampleStatus.DISPUTED:
        return Outcome.DISPUTED
    if status is ExampleStatus.UNCHECKED:
        return Outcome.NOT_CHECKED
    return Outcome.UNDECIDED if round.status is RoundStatus.CLOSED else Outcome.WAITING


def _text(round: Round, fields: Mapping[str, Any]) -> str:
    """Return what the worker wrote, without the context."""
    return " · ".join(str(fields[one.name]) for one in spec_of(round).with_role("input") if fields.get(one.name))


def _paid(session: Session, example_ids: Collection[int]) -> dict[int, int]:
    entry = LedgerEntry
    wanted = select(entry.example_id, entry.cents).where(
        entry.example_id.in_(example_ids),
        entry.example_id.is_not(None),
        entry.kind == EntryKind.BONUS,
        entry.state.in_(BEING_PAID),
    )
    return {example_id: cents for example_id, cents in session.execute(wanted) if example_id is not None}
