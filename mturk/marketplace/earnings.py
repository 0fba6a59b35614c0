"""What a worker has earned, what is still to be decided, and what was paid out."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.marketplace import money
from mturk.marketplace.tables import Assignment, AssignmentStatus, Bonus, Hit, HitType, Movement, Requester, Worker


@dataclass(frozen=True)
class Earned:
    """One assignment that a worker handed in: what it pays, and how it was decided."""

    assignment_id: str
    title: str
    requester: str
    status: AssignmentStatus
    reward_cents: int
    submitted_at: datetime
    decided_at: datetime | None
    feedback: str


@dataclass(frozen=True)
class EarnedBonus:
    """One bonus, with the requester's reason."""

    assignment_id: str
    title: str
    requester: str
    cents: int
    reason: str
    paid_at: datetime


@dataclass(frozen=True)
class Earnings:
    """A worker's earnings, the newest first; approved and bonus cents are what was earned so far."""

    works: list[Earned]
    bonuses: list[EarnedBonus]
    approved_cents: int
    bonus_cents: int
    pending_cents: int
    paid_out_cents: int

    @property
    def total_cents(self) -> int:
        """All that was earned."""
        return self.approved_cents + self.bonus_cents

    @property
    def balance_cents(self) -> int:
        """Earned, and not paid out yet."""
        return self.total_cents - self.paid_out_cents


def of(session: Session, worker: Worker) -> Earnings:
    """What this worker has earned."""
    works = [
        Earned(
            assignment_id=assignment.id,
            title=title,
            requester=requester,
            status=assignment.status,
            reward_cents=reward,
            submitted_at=assignment.submitted_at,
            decided_at=assignment.approved_at or assignment.rejected_at,
            feedback=assignment.feedback,
        )
        for assignment, title, requester, reward in session.execute(
            select(Assignment, HitType.title, Requester.name, Hit.reward_cents)
            .join(Hit, Hit.id == Assignment.hit_id)
            .join(HitType, HitType.id == Hit.type_id)
            .join(Requester, Requester.id == Hit.requester_id)
            .where(Assignment.worker_id == worker.id)
            .order_by(Assignment.submitted_at.desc(), Assignment.number.desc())
        )
        if assignment.submitted_at is not None
    ]
    bonuses = [
        EarnedBonus(bonus.assignment_id, title, requester, bonus.cents, bonus.reason, bonus.paid_at)
        for bonus, title, requester in session.execute(
            select(Bonus, HitType.title, Requester.name)
            .join(Hit, Hit.id == Bonus.hit_id)
            .join(HitType, HitType.id == Hit.type_id)
            .join(Requester, Requester.id == Bonus.requester_id)
            .where(Bonus.worker_id == worker.id)
            .order_by(Bonus.number.desc())
        )
    ]
    return Earnings(
        works=works,
        bonuses=bonuses,
        approved_cents=_cents(works, AssignmentStatus.APPROVED),
        bonus_cents=sum(bonus.cents for bonus in bonuses),
        pending_cents=_cents(works, AssignmentStatus.SUBMITTED),
        paid_out_cents=_paid_out(session, worker),
    )


def _cents(works: list[Earned], status: AssignmentStatus) -> int:
    return sum(work.reward_cents for work in works if work.status is status)


def _paid_out(session: Session, worker: Worker) -> int:
    paid = select(func.coalesce(func.sum(Movement.cents), 0)).where(
        Movement.source == money.worker(worker.id), Movement.target == money.PAYOUTS
    )
    # PostgreSQL sums up to a decimal.
    return int(session.execute(paid).scalar_one())
