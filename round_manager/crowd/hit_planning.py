"""Planning: creates HITs to post, and reserves all the money that they can cost before anything is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, or_, select
from sqlalchemy.orm import Session

from common.errors import Hint
from crowd.port import Crowd, HitTerms
from round_manager import audit
from round_manager.database.columns import public_id
from round_manager.errors import HitsNotAllowed
from round_manager.models import EntryKind, Hit, HitKind, HitStatus, Qualification, Round, RoundStatus, Task
from round_manager.money.budget import check_budget
from round_manager.money.hit_terms import WORDS, shape_of, terms_of, wanted_for
from round_manager.money.ledger import release, reserve
from round_manager.specs import spec_of

# While a round is validating, examples are still validated but no new ones are written.
TAKES_HITS = {
    HitKind.CREATE: (RoundStatus.OPEN,),
    HitKind.VALIDATE: (RoundStatus.OPEN, RoundStatus.VALIDATING),
    HitKind.QUIZ: (RoundStatus.OPEN, RoundStatus.VALIDATING),
}


@dataclass(frozen=True)
class HitRequest:
    """How many HITs of a kind to plan, for how many workers each, until when."""

    kind: HitKind
    hits: int
    assignments: int
    expires_at: datetime


@dataclass(frozen=True)
class HitCost:
    """What a request costs at most: rewards, possible bonuses, and fees."""

    reward_cents: int
    bonus_cents: int
    fee_cents: int

    @property
    def total_cents(self) -> int:
        """The sum of all parts."""
        return self.reward_cents + self.bonus_cents + self.fee_cents


def may_be_posted() -> ColumnElement[bool]:
    """Return the SQL condition that a HIT's round takes it now; HITs without a round are always taken."""
    return Hit.round_id.is_(None) | exists().where(Round.id == Hit.round_id, Round.paused_at.is_(None), _takes())


def is_past_posting() -> ColumnElement[bool]:
    """Return the SQL condition that a HIT's round will never take it again."""
    return exists().where(Round.id == Hit.round_id, ~_takes())


def _takes() -> ColumnElement[bool]:
    return or_(*(and_(Hit.kind == kind, Round.status.in_(statuses)) for kind, statuses in TAKES_HITS.items()))


def check_request(session: Session, round: Round, request: HitRequest, *, now: datetime) -> None:
    """Raise HitsNotAllowed if the round does not take such HITs now."""
    if round.status not in TAKES_HITS[request.kind]:
        takes = " or ".join(status.value for status in TAKES_HITS[request.kind])
        raise HitsNotAllowed(
            f"round {round.number} is {round.status.value}; HITs {WORDS[request.kind]} need it {takes}"
        )
    spec, task = spec_of(round), session.get_one(Task, round.task_id).name
    if round.paused_at is not None:
        raise HitsNotAllowed(f"round {round.number} of {task} is paused", hint=Hint("resume_round", task=task))
    if request.expires_at <= now:
        raise HitsNotAllowed("the HITs would expire before they are posted; choose a later end")
    if request.kind is HitKind.QUIZ and spec.quiz is None:
        problem = f"round {round.number} of {task} has no quiz; add `quiz` to task.yaml for the next round"
        raise HitsNotAllowed(problem, hint=Hint("apply_task_yaml", task=task))
    if request.kind is HitKind.QUIZ and not spec.pay.quiz_cents:
        problem = f"the quiz of round {round.number} of {task} pays nothing; set pay.quiz_cents in task.yaml"
        raise HitsNotAllowed(problem, hint=Hint("apply_task_yaml", task=task))


def cost_of(session: Session, round: Round, request: HitRequest, crowd: Crowd) -> HitCost:
    """Return what a request would reserve; nothing is changed."""
    spec = spec_of(round)
    terms = order_terms(session, round, request.kind, crowd)
    wanted = wanted_for(spec, request.kind, terms, request.assignments, crowd)
    rewards = sum(one.price.cents for one in wanted if one.kind is EntryKind.REWARD)
    bonuses = sum(one.price.cents for one in wanted if one.kind is EntryKind.BONUS)
    return HitCost(
        rewards * request.hits, bonuses * request.hits, sum(one.price.fee_cents for one in wanted) * request.hits
    )


def plan_hits(session: Session, round: Round, request: HitRequest, crowd: Crowd, *, now: datetime) -> list[Hit]:
    """Create the HITs and reserve their money in the ledger; all of them, or none and a BudgetError."""
    # Locked, so that the round's status stays as it is until the HITs are stored.
    round = session.get_one(Round, round.id, with_for_update={"key_share": True}, populate_existing=True)
    check_request(session, round, request, now=now)
    spec = spec_of(round)
    terms = order_terms(session, round, request.kind, crowd)
    # Before any row is written: a request of a million HITs is refused as fast as a request of one.
    check_budget(
        session, session.get_one(Task, round.task_id), round, cost_of(session, round, request, crowd).total_cents
    )
    hits = []
    for _ in range(request.hits):
        own_id = public_id(now)
        hits.append(
            Hit(
                public_id=own_id,
                key=f"h-{own_id.hex}",
                task_id=round.task_id,
                round_id=round.id,
                kind=request.kind,
                marketplace=crowd.name,
                reward_cents=shape_of(spec, request.kind).reward_cents,
                max_assignments=request.assignments,
                assignment_seconds=terms.assignment_seconds,
                created_at=now,
                expires_at=request.expires_at,
            )
        )
    session.add_all(hits)
    session.flush()
    each = wanted_for(spec, request.kind, terms, request.assignments, crowd)
    reserve(session, [(hit, one) for hit in hits for one in each], now=now)
    return hits


def order_terms(session: Session, owner: Round | Task, kind: HitKind, crowd: Crowd) -> HitTerms:
    """Return the terms of a kind of HITs, from the round's specification, or from the task's for a quiz."""
    task_id = owner.task_id if isinstance(owner, Round) else owner.id
    wanted = select(Qualification.external_id).where(
        Qualification.task_id == task_id, Qualification.marketplace == crowd.name
    )
    qualification_id = session.scalar(wanted.order_by(Qualification.id).limit(1))
    return terms_of(spec_of(owner), kind, qualification_id, crowd.profile.limits)


CANCELLED = "cancelled before it was sent"


def cancel_planned(
    session: Session,
    marketplace: str,
    task: Task,
    kind: HitKind | None = None,
    *,
    actor: str,
    reason: str,
    now: datetime,
) -> int:
    """Cancel the task's HITs, of one kind or of all, that no process has begun to send; return how many."""
    which = [Hit.marketplace == marketplace, Hit.task_id == task.id]
    if kind is not None:
        which.append(Hit.kind == kind)
    return _cancel(session, which, actor=actor, reason=reason, now=now)


def cancel_creation(session: Session, round: Round, *, actor: str, reason: str, now: datetime) -> int:
    """Cancel the round's creation HITs that no process has begun to send, on every marketplace; return how many."""
    which = [Hit.round_id == round.id, Hit.kind == HitKind.CREATE]
    return _cancel(session, which, actor=actor, reason=reason, now=now)


def cancel_hits(session: Session, hits: Sequence[Hit], *, actor: str, reason: str, now: datetime) -> int:
    """Cancel those of the HITs that no process has begun to send; return how many."""
    return _cancel(session, [Hit.id.in_([hit.id for hit in hits])], actor=actor, reason=reason, now=now)


def _cancel(session: Session, which: Sequence[ColumnElement[bool]], *, actor: str, reason: str, now: datetime) -> int:
    wanted = select(Hit).where(*which, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_(None))
    # HITs that another process is about to send are left to that process.
    hits = session.scalars(wanted.order_by(Hit.id).with_for_update(skip_locked=True)).all()
    for hit in hits:
        hit.status, hit.last_error = HitStatus.REFUSED, CANCELLED
        for one in (EntryKind.REWARD, EntryKind.BONUS):
            release(session, [hit.id], one, now=now)
        audit.note(session, "cancelled", hit, actor=actor, reason=reason, now=now, of=hit)
    return len(hits)
