"""Where a HIT stands, and the money that is held for it: both follow from its counts and its lifetime."""

from datetime import datetime

from sqlalchemy.orm import Session

from mturk.marketplace import events, money
from mturk.marketplace.tables import Hit, HitStatus


def refresh(session: Session, hit: Hit, now: datetime) -> None:
    """The status and the hold that the counts ask for; a hold that is not covered is refused."""
    _hold(session, hit, now)
    before, hit.status = hit.status, _status(hit)
    if hit.status is HitStatus.REVIEWABLE and before is not HitStatus.REVIEWABLE:
        events.record(session, hit, "HITReviewable", now)


def expire(session: Session, hit: Hit, now: datetime) -> None:
    """Nobody can take it any more; who has it may finish."""
    hit.expired = True
    events.record(session, hit, "HITExpired", min(now, hit.expires_at))
    refresh(session, hit, now)


def _status(hit: Hit) -> HitStatus:
    if hit.status is HitStatus.DISPOSED:
        return hit.status
    if hit.available and not hit.expired:
        return HitStatus.ASSIGNABLE
    if hit.pending:
        return HitStatus.UNASSIGNABLE
    return HitStatus.REVIEWING if hit.status is HitStatus.REVIEWING else HitStatus.REVIEWABLE


def _hold(session: Session, hit: Hit, now: datetime) -> None:
    """What can still be owed: for work in progress, work to be decided, and work that can still be taken."""
    places = hit.pending + hit.undecided + (0 if hit.expired else hit.available)
    needed = places * (hit.reward_cents + hit.fee_cents)
    free, held = money.available(hit.requester_id), money.held(hit.requester_id)
    if needed > hit.held_cents:
        money.move(session, free, held, needed - hit.held_cents, "hold", now, hit_id=hit.id)
    elif needed < hit.held_cents:
        money.move(session, held, free, hit.held_cents - needed, "release", now, hit_id=hit.id)
    hit.held_cents = needed
