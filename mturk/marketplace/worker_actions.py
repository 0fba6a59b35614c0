"""What workers do: find groups of HITs, preview one, accept it, return it, submit it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, exists, func, select
from sqlalchemy.orm import Session

from common.messages import gettext, in_a_row
from mturk.marketplace import assignments, errors, hits
from mturk.marketplace.qualifications import GuardedAction, WorkerScores
from mturk.marketplace.questions import answers_xml
from mturk.marketplace.tables.people import Requester, Worker
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Hit, HitStatus, HitType, ReturnedHit

MAX_HELD = 25
# A requester is asked about this many of the oldest and of the newest HITs of a group.
SOME_HITS = 10


@dataclass(frozen=True)
class HitGroup:
    """The HITs of one type that a worker could accept, and why they cannot if they are not qualified."""

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
    requester_id: str = ""
    # From the requester, if they were asked: the most that a HIT can earn beyond its reward, the code of why this
    # worker cannot have one now, and their assignments of which one must be finished or returned first.
    bonus_cents: int = 0
    refusal: str = ""
    finish: tuple[str, ...] = ()


def list_groups(session: Session, worker: Worker, now: datetime) -> list[HitGroup]:
    """Return the groups with work for this worker, the newest first, without those that they may not discover."""
    open_hits = (
        select(
            Hit.type_id,
            func.count().label("available"),
            func.max(Hit.created_at, type_=Hit.created_at.type).label("created_at"),
            func.max(Hit.expires_at, type_=Hit.expires_at.type).label("expires_at"),
        )
        .where(_available_to(worker, now))
        .group_by(Hit.type_id)
        .subquery()
    )
    found = session.execute(
        select(HitType, Requester.name, open_hits.c.available, open_hits.c.created_at, open_hits.c.expires_at)
        .join(open_hits, open_hits.c.type_id == HitType.id)
        .join(Requester, Requester.id == HitType.requester_id)
        .order_by(open_hits.c.created_at.desc(), HitType.number.desc())
    ).all()
    scores = WorkerScores(session, worker)
    listed = []
    for hit_type, requester, available, created_at, expires_at in found:
        unmet = scores.unmet_requirements(hit_type)
        if any(one.first is GuardedAction.DISCOVER for one in unmet):
            continue
        listed.append(
            HitGroup(
                group_id=hit_type.group_id,
                title=hit_type.title,
                description=hit_type.description,
                requester=requester,
                reward_cents=hit_type.reward_cents,
                assignment_seconds=hit_type.assignment_seconds,
                available=available,
                created_at=created_at,
                expires_at=expires_at,
                keywords=tuple(word.strip() for word in hit_type.keywords.split(",") if word.strip()),
                qualified=not unmet,
                why_not=in_a_row([one.why for one in unmet]),
                requester_id=hit_type.requester_id,
            )
        )
    return listed


def preview(session: Session, worker: Worker, group_id: str, now: datetime) -> Hit:
    """Return the HIT of a group that this worker would get next."""
    hit_type = _find_type(session, group_id)
    _check_requirements(session, worker, hit_type, GuardedAction.PREVIEW)
    return _next_hit(session, worker, hit_type, now)


def next_hits(session: Session, worker: Worker, group_id: str, now: datetime) -> list[str]:
    """Return the ids of some HITs that this worker could get next: the oldest and the newest of the group."""
    hit_type = _find_type(session, group_id)
    ids = select(Hit.id).where(_available_to(worker, now), Hit.type_id == hit_type.id).limit(SOME_HITS)
    oldest, newest = (session.scalars(ids.order_by(order)).all() for order in (Hit.number, Hit.number.desc()))
    return list(dict.fromkeys([*oldest, *newest]))


def accept(
    session: Session, worker: Worker, group_id: str, now: datetime, *, but_not: Collection[str] = ()
) -> Assignment:
    """Accept a HIT of the group that this worker has not worked on, and that is not one of those."""
    hit_type = _find_type(session, group_id)
    _check_requirements(session, worker, hit_type, GuardedAction.ACCEPT)
    if len(held_assignments(session, worker, now)) >= MAX_HELD:
        raise errors.QueueFull(
            "ExceedsMaxAssignmentsPerWorker",
            gettext("you hold %(most)s HITs already; submit or return one first", most=MAX_HELD),
        )
    return assignments.assign(
        session, _next_hit(session, worker, hit_type, now, but_not), worker, hit_type.assignment_seconds, now
    )


def return_assignment(session: Session, worker: Worker, assignment_id: str, now: datetime) -> None:
    """Return an assignment, so that others can accept it."""
    assignment = _active_assignment(session, assignment_id, worker.id, now)
    assignments.release(session, assignment, now, abandoned=False)


def submit(
    session: Session,
    assignment_id: str,
    answers: Mapping[str, str],
    now: datetime,
    *,
    worker_id: str | None = None,
) -> Assignment:
    """Submit the work of an accepted assignment, once and in time; with a worker's id, that worker has to hold it."""
    assignment = _active_assignment(session, assignment_id, worker_id, now)
    hit, hit_type = session.execute(
        select(Hit, HitType).join(HitType, HitType.id == Hit.type_id).where(Hit.id == assignment.hit_id)
    ).one()
    assignment.status = AssignmentStatus.SUBMITTED
    assignment.answer = answers_xml(answers)
    assignment.submitted_at = now
    assignment.auto_approve_at = now + timedelta(seconds=hit_type.auto_approve_seconds)
    hit.pending -= 1
    hit.undecided += 1
    hits.record_event(session, hit, "AssignmentSubmitted", now, assignment.id)
    hits.update_state(session, hit, now)
    session.flush()
    return assignment


def held_assignments(session: Session, worker: Worker, now: datetime) -> list[Assignment]:
    """Return the assignments that the worker holds, the most urgent first."""
    mine = select(Assignment).where(
        Assignment.worker_id == worker.id, Assignment.status == AssignmentStatus.ACCEPTED, Assignment.deadline > now
    )
    return list(session.scalars(mine.order_by(Assignment.deadline, Assignment.number)))


def find_assignment(session: Session, assignment_id: str, worker_id: str | None = None) -> Assignment:
    """Return an assignment that a worker holds or has submitted; with a worker's id, it has to be that worker."""
    assignment = session.scalar(select(Assignment).where(Assignment.id == assignment_id))
    if assignment is None:
        raise errors.WorkNotFound("AssignmentDoesNotExist", gettext("this assignment does not exist"))
    if assignment.status is AssignmentStatus.FREE:
        raise errors.AssignmentExpired
    if worker_id is not None and assignment.worker_id != worker_id:
        raise errors.NotTheHolder
    return assignment


def _find_type(session: Session, group_id: str) -> HitType:
    hit_type = session.scalars(select(HitType).where(HitType.group_id == group_id)).one_or_none()
    if hit_type is None:
        raise errors.WorkNotFound("HITGroupDoesNotExist", gettext("this group of HITs does not exist"))
    return hit_type


def _check_requirements(session: Session, worker: Worker, hit_type: HitType, action: GuardedAction) -> None:
    unmet = [one for one in WorkerScores(session, worker).unmet_requirements(hit_type) if one.first <= action]
    if unmet:
        raise errors.NotQualified("DoesNotMeetRequirements", in_a_row([one.why for one in unmet]))


def _available_to(worker: Worker, now: datetime) -> ColumnElement[bool]:
    worked = exists().where(Assignment.hit_id == Hit.id, Assignment.worker_id == worker.id)
    return and_(Hit.status == HitStatus.ASSIGNABLE, Hit.expires_at > now, ~worked)


def _next_hit(session: Session, worker: Worker, hit_type: HitType, now: datetime, but_not: Collection[str] = ()) -> Hit:
    # HITs that this worker returned come last.
    returned = exists().where(ReturnedHit.hit_id == Hit.id, ReturnedHit.worker_id == worker.id)
    candidates = select(Hit).where(_available_to(worker, now), Hit.type_id == hit_type.id, Hit.id.not_in(but_not))
    for query in (candidates.where(~returned), candidates.where(returned)):
        hit = session.scalars(query.order_by(Hit.number).limit(1)).one_or_none()
        if hit is not None:
            return hit
    text = gettext("this group has nothing left for you at the moment")
    raise errors.NoWorkLeft("NoMoreWorkableHITsInGroupException", text)


def _active_assignment(session: Session, assignment_id: str, worker_id: str | None, now: datetime) -> Assignment:
    """Return an accepted assignment; with a worker's id, that worker has to hold it."""
    assignment = find_assignment(session, assignment_id, worker_id)
    if assignment.status is not AssignmentStatus.ACCEPTED:
        raise errors.AssignmentAlreadySubmitted
    if assignment.deadline is not None and assignment.deadline <= now:
        raise errors.AssignmentExpired
    return assignment
