"""HITs that nobody needs any more: what they still ask for is not wanted, so no more workers should take them."""

from datetime import datetime

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from round_manager.loop.supply_facts import lacking_votes
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    Hit,
    HitKind,
    HitStatus,
    Round,
    RoundStatus,
    UncountedVote,
)

CAN_BE_TAKEN = (HitStatus.ASSIGNABLE, HitStatus.UNASSIGNABLE)


def unneeded_hits(session: Session, round: Round, marketplace: str, *, now: datetime) -> list[str]:
    """The marketplace's ids of the round's HITs that should be taken down; whoever has one finishes it.

    While a round is open, all of its HITs may still be needed. Once it is validating, nothing new is written; and once
    nothing is being written any more and no vote is lacking, nothing is to be checked.
    """
    if round.status is not RoundStatus.VALIDATING:
        return []
    kinds = [HitKind.CREATE]
    if not lacking_votes(session, round, most=1) and not _may_want_votes(session, round, marketplace):
        kinds += [HitKind.VALIDATE, HitKind.QUIZ]
    wanted = select(Hit.external_id).where(
        Hit.marketplace == marketplace,
        Hit.finished_at.is_(None),
        Hit.round_id + 0 == round.id,
        Hit.kind.in_(kinds),
        Hit.status.in_(CAN_BE_TAKEN),
        Hit.expires_at > now,
    )
    return [str(one) for one in session.scalars(wanted.order_by(Hit.id))]


def _may_want_votes(session: Session, round: Round, marketplace: str) -> bool:
    """Whether examples may still come, or more votes be wanted on those that are there."""
    unfinished = select(Hit.id).where(
        Hit.marketplace == marketplace,
        Hit.finished_at.is_(None),
        Hit.round_id + 0 == round.id,
        Hit.kind == HitKind.CREATE,
        Hit.status != HitStatus.REFUSED,
    )
    handed_in = select(Assignment.id).join(Hit, Hit.id == Assignment.hit_id)
    undecided = handed_in.where(
        Assignment.status == AssignmentStatus.SUBMITTED, Hit.finished_at.is_(None), Hit.round_id + 0 == round.id
    )
    uncounted = exists().where(UncountedVote.round_id == round.id)
    return any(session.scalar(select(one)) for one in (unfinished.exists(), undecided.exists(), uncounted))
