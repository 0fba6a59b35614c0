"""The facts that a round's supply depends on: stored counts and unfinished work, never the whole round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, exists, func, or_, select
from sqlalchemy.orm import Session

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
    UncountedVote,
    Vote,
    spec_of,
)
from round_manager.money.bonuses import SUBMITTED
from round_manager.money.budget import free_cents
from round_manager.tasks.rounds import NOT_COUNTED, repeated_fooling, tallies_of
from round_manager.work.established import anyone_established, votes_kept
from templates import TaskSpec

# The oldest waiting examples are assigned first; later ones are counted next time.
MOST_WAITING = 2_000
# Workers who did nothing for this long are not counted on.
LATELY = timedelta(days=3)
CAN_BRING_WORK = (HitStatus.PLANNED, HitStatus.ASSIGNABLE, HitStatus.UNASSIGNABLE)


@dataclass(frozen=True)
class SupplyFacts:
    """The state of a round that its supply depends on.

    `lacking` has the missing votes of each waiting example, `out` the places without a submission, `people` the
    workers who are qualified and were active lately. Fooling examples are those with new texts.
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
        """Return the open places of a kind."""
        return self.out.get(kind, 0)


def find_facts(session: Session, round: Round, spec: TaskSpec, marketplace: str, *, now: datetime) -> SupplyFacts:
    """Return the facts of a round."""
    tallies, repeated = tallies_of(session, round), repeated_fooling(session, round)
    fooling = {one: number - repeated.get(one, 0) for (one, has_fooled), number in tallies.items() if has_fooled}
    return SupplyFacts(
        status=round.status,
        target=round.target_fooling,
        examples=sum(number for (status, _), number in tallies.items() if status not in NOT_COUNTED),
        fooled=sum(number for status, number in fooling.items() if status not in NOT_COUNTED),
        verified_fooling=fooling.get(ExampleStatus.VERIFIED, 0),
        disputed_fooling=fooling.get(ExampleStatus.DISPUTED, 0),
        pending_fooling=fooling.get(ExampleStatus.PENDING, 0),
        lacking=lacking_votes(session, round),
        out=places_out(session, round, marketplace),
        people=people_lately(session, round, marketplace, now=now) if spec.quiz else 0,
        free_cents=free_cents(session, round),
    )


def lacking_votes(session: Session, round: Round, most: int = MOST_WAITING) -> list[int]:
    """Return the missing votes of the oldest waiting examples that need any.

    Votes that only established validators can give are not counted while the task has none: no worker could give them.
    """
    votes = select(func.count()).where(Vote.example_id == Example.id).scalar_subquery()
    lacking: ColumnElement[int] = Example.votes_wanted - votes
    if spec_of(round).validation.established_votes and not anyone_established(session, round):
        lacking -= votes_kept(round)
    waiting = select(lacking).where(Example.round_id == round.id, Example.status == ExampleStatus.PENDING, lacking > 0)
    return list(session.scalars(waiting.order_by(Example.id).limit(most)))


def places_out(session: Session, round: Round, marketplace: str) -> dict[HitKind, int]:
    """Return the places of the round's unfinished HITs, sent or not, without a submission."""
    handed_in = select(func.count()).where(Assignment.hit_id == Hit.id, Assignment.status.in_(SUBMITTED))
    wanted = (
        select(Hit.kind, func.sum(Hit.max_assignments - handed_in.scalar_subquery()))
        # The sum keeps databases from using the index on rounds: the one on unfinished HITs is shorter.
        .where(Hit.marketplace == marketplace, Hit.finished_at.is_(None), Hit.round_id + 0 == round.id)
        .where(Hit.status.in_(CAN_BRING_WORK))
        .group_by(Hit.kind)
    )
    return {kind: max(0, int(places)) for kind, places in session.execute(wanted)}


def people_lately(session: Session, round: Round, marketplace: str, *, now: datetime) -> int:
    """Return how many workers have the task's qualification, and got it or submitted something lately."""
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
    """Return the marketplace's ids of the round's HITs that should expire; workers who accepted one may finish.

    While a round is open, all of its HITs may be needed. A validating round needs no creation HITs; once no examples
    can arrive and no votes are missing, it needs no validation or quiz HITs either.
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
    """Return whether examples may still arrive, or more votes may be needed."""
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
