"""Use cases of workers: find work, accept it, open it, submit it and return it.

A submit pass belongs to one acceptance of an assignment: only with its secret can that work be submitted. When a worker
returns an assignment, its id stays the same, but the pass is deleted. Only hashes of the secrets are stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from mturk.marketplace import errors, worker_actions
from mturk.marketplace.inquiries import Inquirer
from mturk.marketplace.market import Market
from mturk.marketplace.services.offers import HIDDEN, TOO_MANY_HITS, ask_about, held_hits, offers_of
from mturk.marketplace.tables.base import hash_token
from mturk.marketplace.tables.people import AccessKey, Requester, Worker
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Hit, HitType, SubmitPass
from mturk.marketplace.worker_actions import HitGroup

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class HeldTask:
    """An assignment as its worker sees it; with remaining times, because the worker's clock may be wrong."""

    assignment_id: str
    group_id: str
    hit_id: str
    title: str
    requester: str
    reward_cents: int
    page_url: str
    frame_height: int
    milliseconds: int
    milliseconds_left: int

    @property
    def seconds(self) -> int:
        """The total time allotted."""
        return self.milliseconds // 1_000


@dataclass(frozen=True)
class Acceptance:
    """What proves an acceptance to its requester: the secrets of their access keys, and when the proof ends."""

    secrets: tuple[str, ...] = field(repr=False)
    deadline: datetime
    # The other HITs of this requester that the worker holds.
    held: tuple[str, ...] = ()


@dataclass(frozen=True)
class Submission:
    """A submitted assignment: its reward, and when it is approved at the latest."""

    reward_cents: int
    approved_by: datetime


@dataclass(frozen=True)
class GroupPreview:
    """A group and its next HIT, or None if the worker may not preview it."""

    group: HitGroup
    hit: Hit | None


def list_groups(market: Market, inquirer: Inquirer, worker_id: str) -> list[HitGroup]:
    """List the groups with work for a worker, the newest first; requesters are asked whether they have any."""
    with market.read() as session:
        worker = session.get_one(Worker, worker_id)
        groups = worker_actions.list_groups(session, worker, market.now())
        asked = ask_about(session, worker, groups, market.now())
    offers = offers_of(inquirer, asked, market.now())
    return [one for group in groups if (one := offers.applied_to(group)).refusal not in HIDDEN]


def preview_group(market: Market, inquirer: Inquirer, worker_id: str, group_id: str) -> GroupPreview:
    """Return a group with the HIT that the worker would get next."""
    now = market.now()
    with market.read() as session:
        worker = session.get_one(Worker, worker_id)
        found = [one for one in worker_actions.list_groups(session, worker, now) if one.group_id == group_id]
        try:
            hit = worker_actions.preview(session, worker, group_id, now)
        except errors.NotQualified:
            if not found:
                raise
            return GroupPreview(found[0], None)
        asked = ask_about(session, worker, found, now)
    group = offers_of(inquirer, asked, now).applied_to(found[0])
    if group.refusal in HIDDEN:
        raise _no_work_left()
    return GroupPreview(group, hit)


def has_work(market: Market, inquirer: Inquirer, worker_id: str, group_id: str) -> bool:
    """Return whether the group has another HIT for the worker."""
    try:
        preview_group(market, inquirer, worker_id, group_id)
    except errors.WorkerActionRefused:
        return False
    return True


def accept_task(market: Market, inquirer: Inquirer, worker_id: str, group_id: str, login_token: str) -> str:
    """Accept a HIT of the group from this login; return the id of the assignment.

    The requester is asked again first, before the transaction: no worker gets a HIT that holds nothing for them.
    """
    with market.read() as session:
        worker, now = session.get_one(Worker, worker_id), market.now()
        found = [one for one in worker_actions.list_groups(session, worker, now) if one.group_id == group_id]
        asked = ask_about(session, worker, [one for one in found if one.qualified], now)
    offers = offers_of(inquirer, asked, now, fresh=True)
    for group in map(offers.applied_to, found):
        if group.refusal == TOO_MANY_HITS:
            raise errors.TooManyHeld(group.finish)
        if group.refusal:
            raise _no_work_left()
    with market.write() as session:
        assignment = worker_actions.accept(
            session, session.get_one(Worker, worker_id), group_id, market.now(), but_not=offers.refused
        )
        _issue_pass(session, assignment, _submit_secret(assignment, login_token))
    return assignment.id


def list_tasks(market: Market, worker_id: str) -> list[HeldTask]:
    """List the tasks that a worker holds, the most urgent first."""
    now = market.now()
    with market.read() as session:
        held = worker_actions.held_assignments(session, session.get_one(Worker, worker_id), now)
        return [_task(session, one, now) for one in held]


def find_task(market: Market, worker_id: str, assignment_id: str) -> HeldTask:
    """Return a task that the worker holds."""
    with market.read() as session:
        assignment = worker_actions.find_assignment(session, assignment_id, worker_id)
        if assignment.status is not AssignmentStatus.ACCEPTED:
            raise errors.AssignmentAlreadySubmitted
        return _task(session, assignment, market.now())


def find_acceptance(market: Market, worker_id: str, assignment_id: str) -> Acceptance:
    """Return what proves that the worker holds the assignment; the newest keys of the requester come first."""
    with market.read() as session:
        assignment = worker_actions.find_assignment(session, assignment_id, worker_id)
        keys = select(AccessKey.secret).join(Hit, Hit.requester_id == AccessKey.requester_id)
        newest = keys.where(Hit.id == assignment.hit_id).order_by(AccessKey.created_at.desc(), AccessKey.id)
        requester = select(Hit.requester_id).where(Hit.id == assignment.hit_id).scalar_subquery()
        held = held_hits(worker_id, market.now()).where(Hit.requester_id == requester)
        others = tuple(session.scalars(held.where(Hit.id != assignment.hit_id)))
        return Acceptance(tuple(session.scalars(newest)), assignment.deadline or market.now(), others)


def submit_secret(market: Market, worker_id: str, assignment_id: str, login_token: str) -> str:
    """Return the secret that submits a task from this login; issue a pass if it was accepted from another one."""
    with market.glance() as session:
        assignment = worker_actions.find_assignment(session, assignment_id, worker_id)
        secret = _submit_secret(assignment, login_token)
        if _assignment_of_pass(session, secret) is not None:
            return secret
    with market.write() as session:
        # Read again: it may have been returned, or accepted again, meanwhile.
        assignment = worker_actions.find_assignment(session, assignment_id, worker_id)
        secret = _submit_secret(assignment, login_token)
        _issue_pass(session, assignment, secret)
    return secret


def submit_task(
    market: Market, secret: str, assignment_id: str, answers: Mapping[str, str], worker_id: str | None = None
) -> None:
    """Submit the answers of the acceptance that the secret belongs to."""
    with market.write() as session:
        found = _assignment_of_pass(session, secret)
        if found is None:
            raise errors.AssignmentExpired
        if found != assignment_id:
            raise errors.NotTheHolder
        worker_actions.submit(session, assignment_id, answers, market.now(), worker_id=worker_id)


def find_submission(market: Market, assignment_id: str, worker_id: str | None = None) -> Submission | None:
    """Return an assignment that is in review; with a worker's id, it has to be theirs."""
    wanted = select(Hit.reward_cents, Assignment.auto_approve_at, Assignment.worker_id).join(
        Assignment, Assignment.hit_id == Hit.id
    )
    mine = wanted.where(Assignment.id == assignment_id, Assignment.status == AssignmentStatus.SUBMITTED)
    with market.glance() as session:
        found = session.execute(mine).one_or_none()
    if found is None or found.auto_approve_at is None or worker_id not in (None, found.worker_id):
        return None
    return Submission(found.reward_cents, found.auto_approve_at)


def return_task(market: Market, worker_id: str, assignment_id: str) -> None:
    """Return a task, so that others can accept it."""
    with market.write() as session:
        worker = session.get_one(Worker, worker_id)
        worker_actions.return_assignment(session, worker, assignment_id, market.now())


def submitted_group(market: Market, worker_id: str, assignment_id: str) -> str | None:
    """Return the group of an assignment that the worker submitted, or None if it is not submitted yet."""
    with market.read() as session:
        assignment = worker_actions.find_assignment(session, assignment_id, worker_id)
        if assignment.status is AssignmentStatus.ACCEPTED:
            return None
        return _task(session, assignment, market.now()).group_id


def _no_work_left() -> errors.NoWorkLeft:
    text = "this group has nothing left for you at the moment"
    return errors.NoWorkLeft("NoMoreWorkableHITsInGroupException", text)


def _submit_secret(assignment: Assignment, login_token: str) -> str:
    """Return the secret of one acceptance from this login, the same each time its page is opened."""
    accepted_at = assignment.accepted_at.isoformat() if assignment.accepted_at else ""
    return hash_token(f"work {assignment.id} {accepted_at} {login_token}")


def _issue_pass(session: Session, assignment: Assignment, secret: str) -> None:
    session.merge(SubmitPass(token_hash=hash_token(secret), assignment_id=assignment.id))


def _assignment_of_pass(session: Session, secret: str) -> str | None:
    """Return the assignment that the secret submits, or None after it was returned or its time ran out."""
    return session.scalar(select(SubmitPass.assignment_id).where(SubmitPass.token_hash == hash_token(secret)))


def _task(session: Session, assignment: Assignment, now: datetime) -> HeldTask:
    hit, hit_type, requester = session.execute(
        select(Hit, HitType, Requester.name)
        .join(HitType, HitType.id == Hit.type_id)
        .join(Requester, Requester.id == Hit.requester_id)
        .where(Hit.id == assignment.hit_id)
    ).one()
    deadline, accepted_at = assignment.deadline or now, assignment.accepted_at or now
    return HeldTask(
        assignment_id=assignment.id,
        group_id=hit_type.group_id,
        hit_id=hit.id,
        title=hit_type.title,
        requester=requester,
        reward_cents=hit.reward_cents,
        page_url=hit.page_url,
        frame_height=hit.frame_height,
        milliseconds=(deadline - accepted_at) // MILLISECOND,
        milliseconds_left=max(0, (deadline - now) // MILLISECOND),
    )
