"""Planning: creates HITs to post, and reserves all the money that they can cost before anything is sent."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, or_, select
from sqlalchemy.orm import Session

from common.errors import Hint
from crowd.port import Comparator, Crowd, HitTerms, Requirement, Restriction
from crowd.profile import CrowdLimits
from round_manager import audit
from round_manager.database.columns import public_id
from round_manager.errors import HitsNotAllowed
from round_manager.models import EntryKind, Hit, HitKind, HitStatus, Qualification, Round, RoundStatus, Task, spec_of
from round_manager.money.bonuses import most_bonuses
from round_manager.money.budget import check_budget
from round_manager.money.ledger import PossiblePayment, release, reserve
from templates import TaskSpec

MINUTE = 60
# Workers are paid after this time at the latest, even if we stop reviewing.
AUTO_APPROVE_SECONDS = 3 * 24 * 60 * MINUTE
KEYWORDS = {
    HitKind.CREATE: ("writing", "language model", "bonus"),
    HitKind.VALIDATE: ("checking", "judgement", "language"),
    HitKind.QUIZ: ("quiz", "qualification"),
}
LEADS = {HitKind.CREATE: "", HitKind.VALIDATE: "Check: ", HitKind.QUIZ: "Paid quiz: "}
# How owners see a kind: "3 HITs to validate".
WORDS = {HitKind.CREATE: "to create", HitKind.VALIDATE: "to validate", HitKind.QUIZ: "for the quiz"}


def description_of(spec: TaskSpec, kind: HitKind) -> str:
    """Return the description that workers read before they accept a HIT; the task's own describes only creation."""
    if kind is HitKind.CREATE:
        return spec.description
    if kind is HitKind.QUIZ:
        asked = len(spec.quiz.questions) if spec.quiz else 0
        what = f"Read how this task works and answer {asked} question{'' if asked == 1 else 's'} about it."
        return f"{what} It pays the same whether you pass or not; once you pass, you can take the task's other HITs."
    most = spec.work.validations_per_hit
    some = f"up to {most} of them" if most > 1 else "one of them"
    if spec.kind == "qa":
        return f"Other people asked questions about passages. Read {some} and select each answer in its passage."
    return f"Other people wrote texts. Read {some} and say of each how you understand it; there is nothing to write."


def terms_of(spec: TaskSpec, kind: HitKind, qualification_id: str | None, limits: CrowdLimits) -> HitTerms:
    """Return the terms of a HIT. Without the task's qualification, workers can preview it but not accept it."""
    reward_cents, minutes = {
        HitKind.CREATE: (spec.pay.create_cents, spec.work.create_minutes),
        HitKind.VALIDATE: (spec.pay.validate_cents, spec.work.validate_minutes),
        HitKind.QUIZ: (spec.pay.quiz_cents, spec.work.quiz_minutes),
    }[kind]
    held = Comparator.DOES_NOT_EXIST if kind is HitKind.QUIZ else Comparator.EXISTS
    needs = () if qualification_id is None else (Requirement(qualification_id, held, restriction=Restriction.ACCEPT),)
    return HitTerms(
        title=f"{LEADS[kind]}{spec.title}"[: limits.title_length],
        description=description_of(spec, kind)[: limits.description_length],
        keywords=(*KEYWORDS[kind], spec.name),
        reward_cents=reward_cents,
        assignment_seconds=minutes * MINUTE,
        auto_approve_seconds=AUTO_APPROVE_SECONDS,
        requirements=needs,
    )


def wanted_for(spec: TaskSpec, kind: HitKind, terms: HitTerms, assignments: int, crowd: Crowd) -> list[PossiblePayment]:
    """Return every payment that one such HIT can lead to, with fees."""
    reward = PossiblePayment(EntryKind.REWARD, crowd.price(terms, assignments))
    bonus = PossiblePayment(EntryKind.BONUS, crowd.bonus_price(spec.pay.fooled_bonus_cents))
    return [reward] * assignments + [bonus] * (most_bonuses(spec, kind) * assignments)


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
    if round.in_house:
        problem = f"round {round.number} of {task} is in-house: nothing of it is posted on a crowd"
        raise HitsNotAllowed(f"{problem}; close it, and open the next one for the crowd")
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
    terms = order_terms(session, round, request.kind, crowd)
    wanted = wanted_for(spec_of(round), request.kind, terms, request.assignments, crowd)
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
    terms = order_terms(session, round, request.kind, crowd)
    each = wanted_for(spec_of(round), request.kind, terms, request.assignments, crowd)
    # Before any row is written: a request of a million HITs is refused as fast as a request of one.
    needed = sum(one.price.total_cents for one in each) * request.hits
    check_budget(session, session.get_one(Task, round.task_id), round, needed)
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
                reward_cents=terms.reward_cents,
                max_assignments=request.assignments,
                assignment_seconds=terms.assignment_seconds,
                created_at=now,
                expires_at=request.expires_at,
            )
        )
    session.add_all(hits)
    session.flush()
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
    kinds = list(HitKind) if kind is None else [kind]
    which = (Hit.marketplace == marketplace, Hit.task_id == task.id, Hit.kind.in_(kinds))
    return cancel_hits(session, *which, actor=actor, reason=reason, now=now)


def cancel_hits(session: Session, *which: ColumnElement[bool], actor: str, reason: str, now: datetime) -> int:
    """Cancel those of the HITs that no process has begun to send; return how many."""
    wanted = select(Hit).where(*which, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_(None))
    # HITs that another process is about to send are left to that process.
    hits = session.scalars(wanted.order_by(Hit.id).with_for_update(skip_locked=True)).all()
    for hit in hits:
        hit.status, hit.last_error = HitStatus.REFUSED, CANCELLED
        for one in (EntryKind.REWARD, EntryKind.BONUS):
            release(session, [hit.id], one, now=now)
        audit.note(session, "cancelled", hit, actor=actor, reason=reason, now=now, of=hit)
    return len(hits)
