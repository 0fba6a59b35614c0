"""The start of a session: a worker opens the page of a HIT, and gets work.

A session is created for the assignment and the worker that the marketplace's frame names, found again when the page is
reloaded, and trusted only once the marketplace itself lists the same three. Where the marketplace does not prove who
accepted a HIT, anyone with its link can claim to be any worker; then a HIT has a limited number of pages.
"""

import hashlib
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from common.messages import Message, gettext, ngettext
from round_manager.database.columns import public_id
from round_manager.database.engine import locks_rows
from round_manager.models import (
    Assignment,
    Block,
    Example,
    Hit,
    HitKind,
    HitStatus,
    LeaseEnd,
    Round,
    RoundStatus,
    SessionStatus,
    Task,
    Worker,
    WorkItem,
    WorkSession,
    add_worker,
    spec_of,
)
from round_manager.models.table import table_of
from round_manager.tasks.groups import may_work
from round_manager.tasks.rounds import LIVE
from round_manager.work import errors
from round_manager.work.creation import assign_contexts
from round_manager.work.empty_hits import pay_empty
from round_manager.work.leases import end_leases, keep_leases, lock_task, make_room
from round_manager.work.quizzes import check_quiz, results_of
from round_manager.work.sessions import context_of, lock_session
from round_manager.work.validation_work import assign_examples

LONGEST_ID = 255
# Without a proof, workers of whom the marketplace has confirmed nothing yet can have this many pages of a HIT, at once
# and in total: people return HITs, and their pages stay open for a while. One worker, who may return it too, has few.
OPEN_PAGES_PER_PLACE, MORE_OPEN_PAGES = 2, 3
PAGES_PER_PLACE, MORE_PAGES = 4, 10
PAGES_PER_WORKER = 3
NOT_THERE = (HitStatus.PLANNED, HitStatus.HELD, HitStatus.REFUSED, HitStatus.DISPOSED)


def has_session(session: Session, hit: Hit, assignment: str, worker: str) -> bool:
    """Whether opening the page would find a session; WorkRefused if the worker cannot have one."""
    _check_claim(assignment, worker)
    return _find(session, hit, assignment, worker)[1] is not None


def open_session(
    session: Session,
    hit: Hit,
    assignment: str,
    worker: str,
    *,
    now: datetime,
    submit_to: str = "",
    is_proven: bool = True,
    is_known: bool = True,
    held: Collection[str] | None = None,
) -> WorkSession:
    """Return the session of this worker and assignment, with its items; the same one on each load.

    Marketplaces assign a returned or abandoned assignment again under its old id. So a session whose time is over
    starts again with its page, and keeps what was submitted. If the marketplace names another place to submit to
    (`submit_to`), the worker returned the HIT and accepted it again: they get its whole time and keep all they wrote.
    `is_known` says whether there was a session a moment ago; `held` are the worker's other HITs, if the marketplace
    proves which they are.
    """
    _check_claim(assignment, worker)
    found = _find(session, hit, assignment, worker)[1] if is_known else None
    if found is not None and not _is_over(found, now):
        return _accepted(session, hit, found, submit_to, now)
    problem = hit_problem(session, hit)
    if problem is None:
        # Of two tabs that load at once, the second waits here and then finds the session of the first.
        lock_task(session, hit.task_id)
        who, found = _find(session, hit, assignment, worker)
        # Moving a round locks the task too: it may have moved while we waited.
        problem = hit_problem(session, hit, refresh=locks_rows(session))
    if problem:
        if found is None:
            raise problem
        return found
    if found is None and not is_proven:
        _check_pages(session, hit, worker)
    if who is not None:
        _require_place(session, hit, who, held, now)
    if found is not None:
        work = _begin_again(session, hit, found, now)
        work.acceptance = _fingerprint(submit_to)
        session.flush()
        return work
    _require_unsubmitted(session, hit, assignment)
    if not may_work(session, hit.round_id, who):
        raise errors.NotInGroup
    who = who or add_worker(session, hit.marketplace, worker, now=now)
    work = WorkSession(
        public_id=public_id(now),
        hit_id=hit.id,
        worker_id=who.id,
        claimed_assignment=assignment,
        draft={},
        started_at=now,
        expires_at=now + timedelta(seconds=hit.assignment_seconds),
        acceptance=_fingerprint(submit_to),
    )
    session.add(work)
    session.flush()
    _fill(session, hit, work, now, is_new=True)
    return work


def _check_pages(session: Session, hit: Hit, worker: str) -> None:
    """Raise TooManyPages if the HIT, or this worker on it, has as many unproven pages as it can have."""
    pages = select(WorkSession.status, Worker.external_id, _is_known(WorkSession.worker_id).label("is_known"))
    pages = pages.join(Worker, Worker.id == WorkSession.worker_id).where(WorkSession.hit_id == hit.id)
    found = session.execute(pages).all()
    if sum(one.external_id == worker for one in found) >= PAGES_PER_WORKER:
        raise errors.TooManyPages
    mine = select(Worker.id).where(Worker.marketplace == hit.marketplace, Worker.external_id == worker)
    if session.scalar(select(_is_known(mine.scalar_subquery()))):
        return
    strangers = [one.status for one in found if not one.is_known]
    places = hit.max_assignments
    if (
        len(strangers) >= PAGES_PER_PLACE * places + MORE_PAGES
        or strangers.count(SessionStatus.OPEN) >= OPEN_PAGES_PER_PLACE * places + MORE_OPEN_PAGES
    ):
        raise errors.TooManyPages


def _is_known(worker_id: Any) -> ColumnElement[bool]:
    """Return the condition that the marketplace has confirmed work of that worker."""
    return exists().where(Assignment.worker_id == worker_id)


def _require_unsubmitted(session: Session, hit: Hit, assignment: str) -> None:
    if session.scalar(_SUBMITTED, {"marketplace": hit.marketplace, "assignment": assignment}) is not None:
        raise errors.AlreadySubmitted(gettext("this HIT is already submitted; take another one"))


_ASSIGNMENTS = table_of(Assignment)
_SUBMITTED = select(_ASSIGNMENTS.c.id).where(
    _ASSIGNMENTS.c.marketplace == bindparam("marketplace"), _ASSIGNMENTS.c.external_id == bindparam("assignment")
)


def _accepted(session: Session, hit: Hit, found: WorkSession, submit_to: str, now: datetime) -> WorkSession:
    acceptance = _fingerprint(submit_to)
    if acceptance is None or acceptance == found.acceptance or found.status is not SessionStatus.OPEN:
        return found
    work = lock_session(session, found)
    if work.status is not SessionStatus.OPEN or work.acceptance == acceptance:  # Another tab was faster.
        return work
    if work.acceptance is not None:
        whole = timedelta(seconds=hit.assignment_seconds)
        # The clock may have been set back since.
        work.expires_at = max(now, work.started_at) + whole
        keep_leases(session, work, whole, now=now)
    work.acceptance = acceptance
    session.flush()
    return work


def _fingerprint(submit_to: str) -> str | None:
    """Return what is stored of the place to submit to, which is a secret of the worker."""
    return hashlib.sha256(submit_to.encode()).hexdigest() if submit_to else None


def _begin_again(session: Session, hit: Hit, found: WorkSession, now: datetime) -> WorkSession:
    work = lock_session(session, found)
    if not _is_over(work, now):  # Another tab was faster, or the marketplace.
        return work
    end_leases(session, [work.id], LeaseEnd.EXPIRED, now=now)
    work.status, work.active_ms, work.active_spans = SessionStatus.OPEN, 0, None
    work.browser = work.bound_at = work.browser_seen_at = None
    work.started_at, work.expires_at = now, now + timedelta(seconds=hit.assignment_seconds)
    written = select(Example.item).where(Example.session_id == work.id, Example.session_id.is_not(None))
    mine = WorkItem.session_id == work.id
    session.execute(delete(WorkItem).where(mine, WorkItem.item.not_in(written)))
    # The page counts its time from zero again; examples keep theirs.
    session.execute(update(WorkItem).where(mine).values(active_ms=None))
    session.flush()
    _fill(session, hit, work, now, is_new=False)
    return work


def _fill(session: Session, hit: Hit, work: WorkSession, now: datetime, *, is_new: bool) -> None:
    # Read when the task was locked.
    round = None if hit.round_id is None else session.get_one(Round, hit.round_id)
    context = context_of(session, work, hit, round)
    if context.hit.kind is HitKind.CREATE:
        assign_contexts(session, context, is_new=is_new, now=now)
    elif context.hit.kind is HitKind.VALIDATE:
        make_room(session, context.hit, now=now)
        try:
            assign_examples(session, context, now=now)
            work.empty_at = None
        except errors.NothingToDo as reason:
            pay_empty(session, context, reason, is_new=is_new, now=now)
    elif is_new or not results_of(session, work):
        check_quiz(session, context)


def _is_over(work: WorkSession, now: datetime) -> bool:
    return work.status is SessionStatus.EXPIRED or (work.status is SessionStatus.OPEN and now >= work.expires_at)


_BLOCKED = exists().where(
    Block.worker_id == Worker.id,
    Block.lifted_at.is_(None),
    or_(Block.task_id.is_(None), Block.task_id == bindparam("task")),
)
_CLAIMED = (
    select(Worker, WorkSession, _BLOCKED)
    .outerjoin(
        WorkSession,
        (WorkSession.hit_id == bindparam("hit"))
        & (WorkSession.claimed_assignment == bindparam("assignment"))
        & (WorkSession.worker_id == Worker.id),
    )
    .where(Worker.marketplace == bindparam("marketplace"), Worker.external_id == bindparam("worker"))
    .execution_options(populate_existing=True)
)


def find_worker(session: Session, hit: Hit, worker: str) -> Worker | None:
    """Return a worker of the HIT's marketplace, if we have seen them; WorkRefused if they are blocked."""
    return _find(session, hit, "", worker)[0]


def _find(session: Session, hit: Hit, assignment: str, worker: str) -> tuple[Worker | None, WorkSession | None]:
    """Return the worker and the session as they are now, if they exist; WorkRefused if the worker is blocked."""
    claim = {"marketplace": hit.marketplace, "worker": worker, "task": hit.task_id}
    row = session.execute(_CLAIMED, {**claim, "hit": hit.id, "assignment": assignment}).one_or_none()
    if row is None:
        return None, None
    who, found, is_blocked = row
    if is_blocked:
        text = gettext("you cannot work on this task; return the HIT, please")
        raise errors.WorkerBlocked(text, hint=errors.RETURN_HIT)
    return who, found


def hit_problem(session: Session, hit: Hit, *, refresh: bool = False) -> errors.HitUnavailable | None:
    """Return why the HIT cannot be started, or None; `refresh` reads the round again."""
    # A HIT is on the marketplace before we have read the reply to its creation; a worker can be faster.
    being_posted = hit.status is HitStatus.PLANNED and hit.sent_at is not None
    if (hit.status in NOT_THERE and not being_posted) or hit.finished_at is not None:
        return errors.HitUnavailable(gettext("this HIT is not on the marketplace; take another one"))
    if hit.round_id is None:
        return None
    round = session.get_one(Round, hit.round_id, populate_existing=refresh)
    if round.status not in LIVE:
        text = gettext("this round is closed and takes no more work; return the HIT, please")
        return errors.HitUnavailable(text, hint=errors.RETURN_HIT)
    if round.status is RoundStatus.VALIDATING and hit.kind is HitKind.CREATE:
        text = gettext("this round has what it needs, and nothing new is written in it; return the HIT, please")
        return errors.HitUnavailable(text, hint=errors.RETURN_HIT)
    if round.paused_at is not None:
        text = gettext("this task is paused at the moment; return the HIT, please, and come again later")
        return errors.HitUnavailable(text, hint=errors.RETURN_HIT)
    return None


def _require_place(session: Session, hit: Hit, worker: Worker, held_ids: Collection[str] | None, now: datetime) -> None:
    """Raise TooManyHits if the worker has as many HITs of the task open as its terms allow; the task must be locked.

    A worker can take a HIT once, so several pages of one HIT count once: those that a stranger opens on the same link
    in the worker's name leave the worker their places. Unless the marketplace proves which HITs the worker holds, a HIT
    that was returned counts until its time is over. The error may be read by a stranger: it does not help to take over
    a page.
    """
    owner = session.get_one(Task, hit.task_id) if hit.round_id is None else session.get_one(Round, hit.round_id)
    most = spec_of(owner).work.hits_at_once
    held = (
        select(Hit.kind, func.min(WorkSession.started_at), func.max(WorkSession.expires_at))
        .join(WorkSession, WorkSession.hit_id == Hit.id)
        .where(WorkSession.worker_id == worker.id, Hit.task_id == hit.task_id, Hit.id != hit.id)
        .where(WorkSession.status == SessionStatus.OPEN, WorkSession.expires_at > now)
        .group_by(Hit.id, Hit.kind)
        .order_by(func.min(WorkSession.started_at), Hit.id)
    )
    if held_ids is not None:
        held = held.where(Hit.external_id.in_(held_ids))
    found = session.execute(held).all()
    if len(found) < most:
        return
    free_at = min(expires_at for _, _, expires_at in found)
    text = ngettext(
        "you have %(n)s HIT of this task open, and at most %(most)s can be open at once: %(opened)s; finish it and try "
        "again; a HIT that you returned counts until its time is over, at %(free_at)s UTC",
        "you have %(n)s HITs of this task open, and at most %(most)s can be open at once: %(opened)s; finish one of "
        "them and try again; a HIT that you returned counts until its time is over, the first until %(free_at)s UTC",
        len(found),
        most=most,
        opened=[_opened(kind, started_at) for kind, started_at, _ in found],
        free_at=f"{free_at:%H:%M}",
    )
    raise errors.TooManyHits(text, hint=errors.FINISH_HIT)


def _opened(kind: HitKind, at: datetime) -> Message:
    time = f"{at:%H:%M}"
    if kind is HitKind.CREATE:
        return gettext("one to write since %(time)s UTC", time=time)
    if kind is HitKind.VALIDATE:
        return gettext("one to check since %(time)s UTC", time=time)
    return gettext("one with a quiz since %(time)s UTC", time=time)


def _check_claim(assignment: str, worker: str) -> None:
    if not (_is_id(assignment) and _is_id(worker)):
        text = gettext("the marketplace did not say whose HIT this is; open the HIT again from there")
        raise errors.HitNotAccepted(text, hint=errors.REOPEN_HIT)


def _is_id(text: str) -> bool:
    return 0 < len(text) <= LONGEST_ID and text.isascii() and text.isprintable() and " " not in text
