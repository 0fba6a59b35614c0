"""Paid work: what each piece of a round's work brought to whoever did it."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from round_manager.models import Assignment, Hit, HitKind, LedgerEntry, Round
from round_manager.validation.costs import SPENT


@dataclass(frozen=True)
class PaidWork:
    """One assignment by the marketplace's own id; the cents are the worker's, without fees, bonuses included."""

    assignment: str
    kind: HitKind
    cents: int


def paid_work(session: Session, round: Round) -> list[PaidWork]:
    """Everything in the round that is owed or paid for, the first first."""
    wanted = (
        select(Assignment.external_id, Hit.kind, func.sum(LedgerEntry.cents))
        .join(LedgerEntry, LedgerEntry.assignment_id == Assignment.id)
        .join(Hit, Hit.id == Assignment.hit_id)
        .where(LedgerEntry.round_id == round.id, LedgerEntry.state.in_(SPENT))
        .group_by(Assignment.id, Assignment.external_id, Hit.kind)
        .order_by(Assignment.id)
    )
    return [PaidWork(external, kind, int(cents)) for external, kind, cents in session.execute(wanted)]
