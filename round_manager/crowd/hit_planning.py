"""Planning: HITs that are to be posted, with all the money that they can lead to reserved before anything is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, or_, select
from sqlalchemy.orm import Session

from crowd.port import Crowd, HitTerms
from round_manager import audit
from round_manager.database.columns import public_id
from round_manager.errors import CrowdWorkError
from round_manager.models import EntryKind, Hit, HitKind, HitStatus, Qualification, Round, RoundStatus, Task
from round_manager.money.budget import check_budget
from round_manager.money.hit_terms import WORDS, shape_of, terms_of, wanted_for
from round_manager.money.ledger import release, reserve
from round_manager.specs import spec_of

# While a round is validating, what was written is still checked, and nothing new is written.
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
    """What a wish costs at most: workers' pay, possible bonuses, and fees."""

    reward_cents: int
    bonus_cents: int
    fee_cents: int

    @property
    def total_cents(self) -> int:
        """All of it."""
        return self.reward_cents + self.bonus_cents + self.fee_cents


def may_be_posted() -> ColumnElement[bool]:
    """HITs whose round takes them now; what belongs to no round is always taken."""
    return Hit.round_id.is_(None) | exists().where(Round.id == Hit.round_id, Round.paused_at.is_(None), _takes())


def is_past_posting() -> ColumnElement[bool]:
    """HITs whose round will never take them again."""
    return exists().where(Round.id == Hit.round_id, ~_takes())


def _takes() -> ColumnElement[bool]:
    return or_(*(and_(Hit.kind == kind, Round.status.in_(statuses)) for kind, statuses in TAKES_HITS.items()))


def check_wish(session: Session, round: Round, wish: HitRequest, *, now: datetime) -> None:
    """Nothing where the round takes such HITs, or an error that tells how it could."""
    if round.status not in TAKES_HITS[wish.kind]:
        takes = " or ".join(status.value for status in TAKES_HITS[wish.kind])
        raise CrowdWorkError(f"round {round.number} is {round.status.value}; HITs {WORDS[wish.kind]} need it {takes}")
    spec, task = spec_of(round), session.get_one(Task, round.task_id).name
    if round.paused_at is not None:
        raise CrowdWorkError(f"round {round.number} of {task} is paused; `outfox round resume {task}` goes on")
    if wish.expires_at <= now:
        raise CrowdWorkError("the HITs would be over before they begin; let them end later")
    if wish.kind is HitKind.QUIZ and spec.quiz is None:
        cure = f"add `quiz` to its task.yaml and run `outfox task create {task}`; the next round that you open has it"
        raise CrowdWorkError(f"round {round.number} of {task} has no quiz; {cure}")
    if wish.kind is HitKind.QUIZ and not spec.pay.quiz_cents:
        cure = f"set pay.quiz_cents in its task.yaml and run `outfox task create {task}`, then open the next round"
        raise CrowdWorkError(f"the quiz of round {round.number} of {task} pays nothing, and workers are paid; {cure}")


def cost_of(session: Session, round: Round, wish: HitRequest, crowd: Crowd) -> HitCost:
    """What would be reserved; nothing is changed."""
    spec = spec_of(round)
    terms = order_terms(session, round, wish.kind, crowd)
    wanted = wanted_for(spec, wish.kind, terms, wish.assignments, crowd)
    rewards = sum(one.price.cents for one in wanted if one.kind is EntryKind.REWARD)
    bonuses = sum(one.price.cents for one in wanted if one.kind is EntryKind.BONUS)
    return HitCost(rewards * wish.hits, bonuses * wish.hits, sum(one.price.fee_cents for one in wanted) * wish.hits)


def plan_hits(session: Session, round: Round, wish: HitRequest, crowd: Crowd, *, now: datetime) -> list[Hit]:
    """The HITs, planned and paid for in the ledger; all of them, or a BudgetError with the figures."""
    # Held, so that the round is where we see it until its HITs are there.
    round = session.get_one(Round, round.id, with_for_update={"key_share": True}, populate_existing=True)
    check_wish(session, round, wish, now=now)
    spec = spec_of(round)
    terms = order_terms(session, round, wish.kind, crowd)
    # Before a row is written: a wish of a million HITs is refused as fast as a wish of one.
    check_budget(session, session.get_one(Task, round.task_id), round, cost_of(session, round, wish, crowd).total_cents)
    hits = []
    for _ in range(wish.hits):
        own_id = public_id(now)
        hits.append(
            Hit(
                public_id=own_id,
                key=f"h-{own_id.hex}",
                task_id=round.task_id,
                round_id=round.id,
                kind=wish.kind,
                marketplace=crowd.name,
                reward_cents=shape_of(spec, wish.kind).reward_cents,
                max_assignments=wish.assignments,
                assignment_seconds=terms.assignment_seconds,
                created_at=now,
                expires_at=wish.expires_at,
            )
        )
    session.add_all(hits)
    session.flush()
    each = wanted_for(spec, wish.kind, terms, wish.assignments, crowd)
    reserve(session, [(hit, one) for hit in hits for one in each], now=now)
    return hits


def order_terms(session: Session, owner: Round | Task, kind: HitKind, crowd: Crowd) -> HitTerms:
    """What HITs of that kind say to workers of a marketplace, by the round's terms, or the task's for a quiz."""
    task_id = owner.task_id if isinstance(owner, Round) else owner.id
    wanted = select(Qualification.external_id).where(
        Qualification.task_id == task_id, Qualification.marketplace == crowd.name
    )
    qualification_id = session.scalar(wanted.order_by(Qualification.id).limit(1))
    return terms_of(spec_of(owner), kind, qualification_id, crowd.profile.limits)


GIVEN_UP = "given up before it was sent"


def cancel_planned(
    session: Session, marketplace: str, task: Task, kind: HitKind | None = None, *, who: str, why: str, now: datetime
) -> int:
    """Gives up the task's HITs, of one kind or of all, that no process has begun to send; how many there were."""
    which = [Hit.marketplace == marketplace, Hit.task_id == task.id]
    if kind is not None:
        which.append(Hit.kind == kind)
    return _cancel(session, which, who=who, why=why, now=now)


def cancel_creation(session: Session, round: Round, *, who: str, why: str, now: datetime) -> int:
    """Gives up the round's HITs to create that no process has begun to send, on every marketplace; how many."""
    which = [Hit.round_id == round.id, Hit.kind == HitKind.CREATE]
    return _cancel(session, which, who=who, why=why, now=now)


def cancel_hits(session: Session, hits: Sequence[Hit], *, who: str, why: str, now: datetime) -> int:
    """Gives up those of the HITs that no process has begun to send; how many."""
    return _cancel(session, [Hit.id.in_([hit.id for hit in hits])], who=who, why=why, now=now)


def _cancel(session: Session, which: Sequence[ColumnElement[bool]], *, who: str, why: str, now: datetime) -> int:
    wanted = select(Hit).where(*which, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_(None))
    # What another process takes at this moment to send it is left to that process.
    hits = session.scalars(wanted.order_by(Hit.id).with_for_update(skip_locked=True)).all()
    for hit in hits:
        hit.status, hit.last_error = HitStatus.REFUSED, GIVEN_UP
        for one in (EntryKind.REWARD, EntryKind.BONUS):
            release(session, [hit.id], one, now=now)
        audit.note(session, "cancelled", hit, who=who, why=why, now=now, of=hit)
    return len(hits)
