"""Pages to find work, preview it, accept it, do it in a frame, return it and continue with the next."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, g, redirect, render_template, request, url_for
from sqlalchemy import select
from sqlalchemy.orm import Session

from common.origins import origin_of
from mturk.marketplace import credentials, worker_actions
from mturk.marketplace.errors import (
    AlreadySubmitted,
    NotQualified,
    WorkerActionRefused,
)
from mturk.marketplace.site.auth import SiteAuth
from mturk.marketplace.site.frame import Frame, preview_address, submit_to, work_address
from mturk.marketplace.tables.people import Requester, Worker
from mturk.marketplace.tables.work import Assignment, AssignmentStatus, Hit, HitType
from mturk.marketplace.worker_actions import HitGroup

SORTS = (("newest", "Newest"), ("reward", "Best paid"), ("many", "Most tasks"))
LONGEST_SEARCH = 100
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


class WorkPages:
    """The pages on which workers find work and do it."""

    def __init__(self, auth: SiteAuth) -> None:
        self._auth = auth
        self._market = auth.market

    def blueprint(self) -> Blueprint:
        """Return the pages."""
        pages = Blueprint("work", __name__)
        pages.add_url_rule("/", "find", self._find)
        pages.add_url_rule("/groups/<group_id>", "preview", self._preview)
        pages.add_url_rule("/groups/<group_id>/accept", "accept", self._accept, methods=["POST"])
        pages.add_url_rule("/queue", "queue", self._queue)
        pages.add_url_rule("/work/<assignment_id>", "work", self._work)
        pages.add_url_rule("/work/<assignment_id>/return", "ask_return", self._ask_return)
        pages.add_url_rule("/work/<assignment_id>/return", "return_task", self._return_task, methods=["POST"])
        pages.add_url_rule("/work/<assignment_id>/next", "proceed", self._proceed, methods=["POST"])
        return pages

    def _find(self) -> str:
        visitor = self._auth.visitor()
        if visitor is None:
            return render_template("welcome.html")
        query = request.args.get("q", "").strip()[:LONGEST_SEARCH]
        chosen = request.args.get("sort", "")
        sort = chosen if chosen in dict(SORTS) else SORTS[0][0]
        with self._market.read() as session:
            worker = session.get_one(Worker, visitor.worker_id)
            every = worker_actions.list_groups(session, worker, self._market.now())
        mine = [group for group in every if group.qualified]
        return render_template(
            "find.html",
            here="find",
            groups=_sorted([group for group in every if _matches(group, query)], sort),
            open_groups=len(mine),
            open_tasks=sum(group.available for group in mine),
            locked_groups=len(every) - len(mine),
            queue_is_full=visitor.held >= worker_actions.MAX_HELD,
            query=query,
            sort=sort,
            sorts=SORTS,
        )

    def _preview(self, group_id: str) -> str:
        visitor, now = self._auth.require_visitor(), self._market.now()
        with self._market.read() as session:
            worker = session.get_one(Worker, visitor.worker_id)
            found = [one for one in worker_actions.list_groups(session, worker, now) if one.group_id == group_id]
            try:
                hit = worker_actions.preview(session, worker, group_id, now)
            except NotQualified:
                if not found:
                    raise
                return render_template("preview.html", here="find", group=found[0], frame=None)
        frame = Frame(preview_address(hit.page_url, hit.id), f"Preview: {found[0].title}", hit.frame_height)
        return self._framed("preview.html", frame, here="find", group=found[0])

    def _accept(self, group_id: str) -> Any:
        visitor = self._auth.require_form()
        with self._market.write() as session:
            worker = session.get_one(Worker, visitor.worker_id)
            assignment = worker_actions.accept(session, worker, group_id, self._market.now())
            credentials.issue_submit_pass(session, assignment.id, self._auth.submit_secret(assignment))
        return redirect(url_for("work.work", assignment_id=assignment.id), 303)

    def _queue(self) -> str:
        visitor, now = self._auth.require_visitor(), self._market.now()
        with self._market.read() as session:
            held = worker_actions.held_assignments(session, session.get_one(Worker, visitor.worker_id), now)
            tasks = [_task(session, one, now) for one in held]
        return render_template("queue.html", here="queue", tasks=tasks)

    def _work(self, assignment_id: str) -> str:
        visitor = self._auth.require_visitor()
        task = self._held(assignment_id, visitor.worker_id)
        submit_url = submit_to(self._auth.public_url, self._submit_secret(assignment_id, visitor.worker_id))
        address = work_address(task.page_url, task.hit_id, task.assignment_id, visitor.worker_id, submit_url)
        frame = Frame(address, task.title, task.frame_height)
        return self._framed("work.html", frame, task=task, origin=origin_of(self._auth.public_url))

    def _ask_return(self, assignment_id: str) -> str:
        visitor = self._auth.require_visitor()
        return render_template("return.html", here="queue", task=self._held(assignment_id, visitor.worker_id))

    def _return_task(self, assignment_id: str) -> Any:
        visitor = self._auth.require_form()
        with self._market.write() as session:
            worker = session.get_one(Worker, visitor.worker_id)
            worker_actions.return_assignment(session, worker, assignment_id, self._market.now())
        return redirect(url_for("work.find", said="returned"), 303)

    def _proceed(self, assignment_id: str) -> Any:
        """Continue after a submission: accept or preview the next task of the group, or show all work."""
        visitor, now = self._auth.require_form(), self._market.now()
        keeps_going = bool(request.form.get("keep_going"))
        if keeps_going != visitor.keeps_going:
            self._auth.set_keeps_going(keeps_going=keeps_going)
        with self._market.read() as session:
            worker = session.get_one(Worker, visitor.worker_id)
            assignment = worker_actions.find_assignment(session, assignment_id, worker.id)
            if assignment.status is AssignmentStatus.ACCEPTED:
                return redirect(url_for("work.work", assignment_id=assignment_id), 303)
            group_id = _task(session, assignment, now).group_id
        try:
            if not keeps_going:
                with self._market.read() as session:
                    worker_actions.preview(session, worker, group_id, now)
                return redirect(url_for("work.preview", group_id=group_id, said="submitted"), 303)
            with self._market.write() as session:
                assignment = worker_actions.accept(session, session.get_one(Worker, worker.id), group_id, now)
                credentials.issue_submit_pass(session, assignment.id, self._auth.submit_secret(assignment))
        except WorkerActionRefused:
            return redirect(url_for("work.find", said="last"), 303)
        return redirect(url_for("work.work", assignment_id=assignment.id), 303)

    def _held(self, assignment_id: str, worker_id: str) -> HeldTask:
        now = self._market.now()
        with self._market.read() as session:
            assignment = worker_actions.find_assignment(session, assignment_id, worker_id)
            if assignment.status is not AssignmentStatus.ACCEPTED:
                raise AlreadySubmitted
            return _task(session, assignment, now)

    def _submit_secret(self, assignment_id: str, worker_id: str) -> str:
        """Return the secret that submits the task; issue a pass if it was accepted in another browser."""
        with self._market.glance() as session:
            secret = self._auth.submit_secret(worker_actions.find_assignment(session, assignment_id, worker_id))
            if credentials.assignment_of_submit_pass(session, secret) is not None:
                return secret
        with self._market.write() as session:
            # Checked again: it may have been returned or submitted meanwhile.
            secret = self._auth.submit_secret(worker_actions.find_assignment(session, assignment_id, worker_id))
            credentials.issue_submit_pass(session, assignment_id, secret)
        return secret

    def _framed(self, template: str, frame: Frame, **values: Any) -> str:
        g.frame_origins = (frame.origin, origin_of(self._auth.public_url))
        return render_template(template, frame=frame, **values)


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


def _matches(group: HitGroup, query: str) -> bool:
    text = " ".join((group.title, group.requester, group.description, *group.keywords)).casefold()
    return all(word in text for word in query.casefold().split())


def _sorted(groups: list[HitGroup], sort: str) -> list[HitGroup]:
    """Sort groups, those that the worker can accept first; they come in with the newest first."""
    keys = {"reward": lambda one: -one.reward_cents, "many": lambda one: -one.available}
    ordered = sorted(groups, key=keys[sort]) if sort in keys else groups
    return sorted(ordered, key=lambda one: not one.qualified)
