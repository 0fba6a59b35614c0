"""What workers do: find groups of HITs, look at one, take it, give it back, hand it in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, exists, func, select
from sqlalchemy.orm import Session

from mturk.marketplace import events, places, standing
from mturk.marketplace.answers import answers_xml
from mturk.marketplace.errors import (
    AlreadySubmitted,
    NoSuchWork,
    NothingLeft,
    NotQualified,
    NotTheHolder,
    TimeIsOver,
    TooManyHeld,
)
from mturk.marketplace.qualifying import Action, Record
from mturk.marketplace.tables import (
    Assignment,
    AssignmentStatus,
    Hit,
    HitStatus,
    HitType,
    Passed,
    Requester,
    Worker,
)

HELD_AT_MOST = 25


@dataclass(frozen=True)
class Group:
    """HITs of one type that a worker could take: how many, until when, and what stands in the way."""

    group_id: str
    title: str
    description: str
    requester: str
    reward_cents: int
    assignment_seconds: int
    available: int
    created_at: datetime
    expires_at: datetime
    keywords: tuple[str, ...]
    qualified: bool
    why_not: str


def groups(session: Session, worker: Worker, now: datetime) -> list[Group]:
    """The groups with work for this worker, the newest first; those that they may not discover are not among them."""
    open_hits = (
        select(
            Hit.type_id,
            func.count().label("available"),
            func.max(Hit.created_at, type_=Hit.created_at.type).label("created_at"),
            func.max(Hit.expires_at, type_=Hit.expires_at.type).label("expires_at"),
        )
        .where(_takeable(worker, now))
        .group_by(Hit.type_id)
        .subquery()
    )
    found = session.execute(
        select(HitType, Requester.name, open_hits.c.available, open_hits.c.created_at, open_hits.c.expires_at)
        .join(open_hits, open_hits.c.type_id == HitType.id)
        .join(Requester, Requester.id == HitType.requester_id)
        .order_by(open_hits.c.created_at.desc(), HitType.number.desc())
    ).all()
    record = Record(session, worker)
    listed = []
    for kind, requester, available, created_at, expires_at in found:
        obstacles = record.obstacles(kind)
        if any(obstacle.first is Action.DISCOVER for obstacle in obstacles):
            continue
        listed.append(
            Group(
                group_id=kind.group_id,
                title=kind.title,
                description=kind.description,
                requester=requester,
                reward_cents=kind.reward_cents,
                assignment_seconds=kind.assignment_seconds,
                available=available,
                created_at=created_at,
                expires_at=expires_at,
                keywords=tuple(word.strip() for word in kind.keywords.split(",") if word.strip()),
                qualified=not obstacles,
                why_not=" ".join(obstacle.why for obstacle in obstacles),
            )
        )
    return listed


def preview(session: Session, worker: Worker, group_id: str, now: datetime) -> Hit:
    """The HIT of a group that this worker would get next."""
    kind = _kind(session, group_id)
    _check(session, worker, kind, Action.PREVIEW)
    return _next(session, worker, kind, now)


def accept(session: Session, worker: Worker, group_id: str, now: datetime) -> Assignment:
    """A place at a HIT of the group that this worker has not worked on; nobody else has it."""
    kind = _kind(session, group_id)
    _check(session, worker, kind, Action.ACCEPT)
    if len(held(session, worker, now)) >= HELD_AT_MOST:
        raise TooManyHeld(
            "ExceedsMaxAssignmentsPerWorker",
            f"you hold {HELD_AT_MOST} HITs already; hand one in or return it first",
        )
    return places.take(session, _next(session, worker, kind, now), worker, kind.assignment_seconds, now)


def give_back(session: Session, worker: Worker, assignment_id: str, now: datetime) -> None:
    """The worker returns an assignment; it is there for others again."""
    assignment = _held_by(session, assignment_id, worker.id, now)
    places.free(session, assignment, now, abandoned=False)


def submit(
    session: Session,
    assignment_id: str,
    answers: Mapping[str, str],
    now: datetime,
    *,
    worker_id: str | None = None,
) -> Assignment:
    """The holder's work is handed in, once and in time; a worker who is not the holder is refused."""
    assignment = _held_by(session, assignment_id, worker_id, now)
    hit, kind = session.execute(
        select(Hit, HitType).join(HitType, HitType.id == Hit.type_id).where(Hit.id == assignment.hit_id)
    ).one()
    assignment.status = AssignmentStatus.SUBMITTED
    assignment.answer = answers_xml(answers)
    assignment.submitted_at = now
    assignment.auto_approve_at = now + timedelta(seconds=kind.auto_approve_seconds)
    hit.pending -= 1
    hit.undecided += 1
    events.record(session, hit, "AssignmentSubmitted", now, assignment.id)
    standing.refresh(session, hit, now)
    session.flush()
    return assignment


def held(session: Session, worker: Worker, now: datetime) -> list[Assignment]:
    """What the worker has accepted and still has time for, the most urgent first."""
    mine = select(Assignment).where(
        Assignment.worker_id == worker.id, Assignment.status == AssignmentStatus.ACCEPTED, Assignment.deadline > now
    )
    return list(session.scalars(mine.order_by(Assignment.deadline, Assignment.number)))


def _kind(session: Session, group_id: str) -> HitType:
    kind = session.scalars(select(HitType).where(HitType.group_id == group_id)).one_or_none()
    if kind is None:
        raise NoSuchWork("HITGroupDoesNotExist", "there is no such group of HITs")
    return kind


def _check(session: Session, worker: Worker, kind: HitType, action: Action) -> None:
    obstacles = [one for one in Record(session, worker).obstacles(kind) if one.first <= action]
    if obstacles:
        raise NotQualified("DoesNotMeetRequirements", " ".join(one.why for one in obstacles))


def _takeable(worker: Worker, now: datetime) -> ColumnElement[bool]:
    worked = exists().where(Assignment.hit_id == Hit.id, Assignment.worker_id == worker.id)
    return and_(Hit.status == HitStatus.ASSIGNABLE, Hit.expires_at > now, ~worked)


def _next(session: Session, worker: Worker, kind: HitType, now: datetime) -> Hit:
    # What this worker gave back comes last: they have seen it and did not want it.
    passed = exists().where(Passed.hit_id == Hit.id, Passed.worker_id == worker.id)
    fitting = select(Hit).where(_takeable(worker, now), Hit.type_id == kind.id)
    for candidates in (fitting.where(~passed), fitting.where(passed)):
        hit = session.scalars(candidates.order_by(Hit.number).limit(1)).one_or_none()
        if hit is not None:
            return hit
    raise NothingLeft("NoMoreWorkableHITsInGroupException", "there is no more work for you in this group just now")


def _held_by(session: Session, assignment_id: str, worker_id: str | None, now: datetime) -> Assignment:
    """An assignment that somebody is working on; with a worker's id, that worker."""
    assignment = session.scalars(select(Assignment).where(Assignment.id == assignment_id)).one_or_none()
    if assignment is None:
        raise NoSuchWork("AssignmentDoesNotExist", "there is no such assignment")
    if assignment.status is AssignmentStatus.FREE or (
        assignment.status is AssignmentStatus.ACCEPTED
        and assignment.deadline is not None
        and assignment.deadline <= now
    ):
        raise TimeIsOver("InvalidAssignmentState", "nobody has this assignment: its time was over, or it was returned")
    if worker_id is not None and assignment.worker_id != worker_id:
        raise NotTheHolder("PermissionDenied", "somebody else has this assignment")
    if assignment.status is not AssignmentStatus.ACCEPTED:
        raise AlreadySubmitted("InvalidAssignmentState", "this assignment was handed in already")
    return assignment
