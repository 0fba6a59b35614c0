"""What a round's supply goes by: counts that the database keeps, and what is unfinished; never the whole round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import exists, func, or_, select
from sqlalchemy.orm import Session

from round_manager.crowd.mirror import HANDED_IN
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    HitStatus,
    Qualification,
    QualificationGrant,
    Round,
    RoundStatus,
    RoundTally,
    UncountedVote,
    Vote,
)
from round_manager.tasks.affordability import free_cents
from round_manager.tasks.rounds import NOT_COUNTED
from templates import TaskSpec

# Of examples that wait for votes the oldest are handed out first; what comes after so many waits for the next look.
MOST_WAITING = 2_000
# Who did nothing for so long is not counted on.
LATELY = timedelta(days=3)
CAN_BRING_WORK = (HitStatus.PLANNED, HitStatus.ASSIGNABLE, HitStatus.UNASSIGNABLE)


@dataclass(frozen=True)
class SupplyFacts:
    """Where a round stands, as far as its supply goes.

    `lacking` has the votes that each waiting example lacks, `out` the places of HITs that nobody has handed in yet,
    `people` those who may work and were there lately.
    """

    status: RoundStatus
    target: int
    examples: int = 0
    fooled: int = 0
    verified_fooling: int = 0
    disputed_fooling: int = 0
    pending_fooling: int = 0
    lacking: Sequence[int] = ()
    out: Mapping[HitKind, int] = field(default_factory=dict)
    people: int = 0
    free_cents: int = 0

    @property
    def is_open(self) -> bool:
        """Whether new examples are written."""
        return self.status is RoundStatus.OPEN

    def places(self, kind: HitKind) -> int:
        """How many places of a kind stand open."""
        return self.out.get(kind, 0)


def find_facts(session: Session, round: Round, spec: TaskSpec, marketplace: str, *, now: datetime) -> SupplyFacts:
    """The round's facts, by the names that they have in a supply."""
    tallies = tallies_of(session, round)
    return SupplyFacts(
        status=round.status,
        target=round.target_fooling,
        examples=sum(number for (status, _), number in tallies.items() if status not in NOT_COUNTED),
        fooled=sum(number for (status, fooled), number in tallies.items() if fooled and status not in NOT_COUNTED),
        verified_fooling=tallies.get((ExampleStatus.VERIFIED, True), 0),
        disputed_fooling=tallies.get((ExampleStatus.DISPUTED, True), 0),
        pending_fooling=tallies.get((ExampleStatus.PENDING, True), 0),
        lacking=lacking_votes(session, round),
        out=places_out(session, round, marketplace),
        people=people_lately(session, round, marketplace, now=now) if spec.quiz else 0,
        free_cents=free_cents(session, round),
    )


def tallies_of(session: Session, round: Round) -> dict[tuple[ExampleStatus, bool], int]:
    """How many of the round's examples are in each status, those that fooled apart."""
    rows = session.scalars(select(RoundTally).where(RoundTally.round_id == round.id, RoundTally.examples > 0))
    return {(row.status, row.fooled): row.examples for row in rows}


def lacking_votes(session: Session, round: Round, most: int = MOST_WAITING) -> list[int]:
    """How many votes each of the oldest waiting examples lacks; those that lack none are left out."""
    votes = select(func.count()).where(Vote.example_id == Example.id).scalar_subquery()
    lacking = Example.votes_wanted - votes
    waiting = select(lacking).where(Example.round_id == round.id, Example.status == ExampleStatus.PENDING, lacking > 0)
    return list(session.scalars(waiting.order_by(Example.id).limit(most)))


def places_out(session: Session, round: Round, marketplace: str) -> dict[HitKind, int]:
    """Places of the round's unfinished HITs, sent or not, that nobody has handed in yet."""
    handed_in = select(func.count()).where(Assignment.hit_id == Hit.id, Assignment.status.in_(HANDED_IN))
    wanted = (
        select(Hit.kind, func.sum(Hit.max_assignments - handed_in.scalar_subquery()))
        # The sum keeps databases from the index on rounds: the one on unfinished HITs is the short one.
        .where(Hit.marketplace == marketplace, Hit.finished_at.is_(None), Hit.round_id + 0 == round.id)
        .where(Hit.status.in_(CAN_BRING_WORK))
        .group_by(Hit.kind)
    )
    return {kind: max(0, int(places)) for kind, places in session.execute(wanted)}


def people_lately(session: Session, round: Round, marketplace: str, *, now: datetime) -> int:
    """How many hold the task's qualification and got it, or handed something in, not long ago."""
    since = now - LATELY
    worked = exists().where(Assignment.worker_id == QualificationGrant.worker_id, Assignment.submitted_at > since)
    wanted = (
        select(func.count())
        .select_from(QualificationGrant)
        .join(Qualification, Qualification.id == QualificationGrant.qualification_id)
        .where(Qualification.task_id == round.task_id, Qualification.marketplace == marketplace)
        .where(QualificationGrant.revoked_at.is_(None), or_(QualificationGrant.granted_at > since, worked))
    )
    return session.scalar(wanted) or 0


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
