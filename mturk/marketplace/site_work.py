"""Working: find it, look at it, take it, do it in a frame, give it back, go on to the next."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, g, redirect, render_template, request, url_for
from sqlalchemy import select
from sqlalchemy.orm import Session

from common.origins import origin_of
from mturk.marketplace import passes, working
from mturk.marketplace.errors import AlreadySubmitted, NoSuchWork, NotQualified, NotTheHolder, TimeIsOver, WorkRefused
from mturk.marketplace.site_door import Door
from mturk.marketplace.site_frame import Frame, preview_address, submit_to, work_address
from mturk.marketplace.tables import Assignment, AssignmentStatus, Hit, HitType, Requester, Worker
from mturk.marketplace.working import Group

SORTS = (("newest", "Newest"), ("reward", "Best paid"), ("many", "Most tasks"))
LONGEST_SEARCH = 100
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Task:
    """An assignment as its worker sees it; the times are what is left, for their clock may be wrong."""

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
        """How long it may take in all."""
        return self.milliseconds // 1_000


class WorkPages:
    """The pages of somebody who looks for work or does it."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._market = door.market

    def blueprint(self) -> Blueprint:
        """All of them."""
        pages = Blueprint("work", __name__)
        pages.add_url_rule("/", "find", self._find)
        pages.add_url_rule("/groups/<group_id>", "preview", self._preview)
        pages.add_url_rule("/groups/<group_id>/accept", "accept", self._accept, methods=["POST"])
        pages.add_url_rule("/queue", "queue", self._queue)
        pages.add_url_rule("/work/<assignment_id>", "work", self._work)
        pages.add_url_rule("/work/<assignment_id>/return", "ask_return", self._ask_return)
        pages.add_url_rule("/work/<assignment_id>/return", "give_back", self._give_back, methods=["POST"])
        pages.add_url_rule("/work/<assignment_id>/next", "proceed", self._proceed, methods=["POST"])
        return pages

    def _find(self) -> str:
        visit = self._door.visit()
        if visit is None:
            return render_template("welcome.html")
        asked = request.args.get("q", "").strip()[:LONGEST_SEARCH]
        chosen = request.args.get("sort", "")
        sort = chosen if chosen in dict(SORTS) else SORTS[0][0]
        with self._market.read() as session:
            worker = session.get_one(Worker, visit.worker_id)
            every = working.groups(session, worker, self._market.now())
        mine = [group for group in every if group.qualified]
        return render_template(
            "find.html",
            here="find",
            groups=_sorted([group for group in every if _matches(group, asked)], sort),
            open_groups=len(mine),
            open_tasks=sum(group.available for group in mine),
            locked_groups=len(every) - len(mine),
            queue_is_full=visit.held >= working.HELD_AT_MOST,
            asked=asked,
            sort=sort,
            sorts=SORTS,
        )

    def _preview(self, group_id: str) -> str:
        visit, now = self._door.visitor(), self._market.now()
        with self._market.read() as session:
            worker = session.get_one(Worker, visit.worker_id)
            found = [one for one in working.groups(session, worker, now) if one.group_id == group_id]
            try:
                hit = working.preview(session, worker, group_id, now)
            except NotQualified:
                if not found:
                    raise
                return render_template("preview.html", here="find", group=found[0], frame=None)
        frame = Frame(preview_address(hit.page_url, hit.id), f"Preview: {found[0].title}", hit.frame_height)
        return self._framed("preview.html", frame, here="find", group=found[0])

    def _accept(self, group_id: str) -> Any:
        visit = self._door.sender()
        with self._market.write() as session:
            worker = session.get_one(Worker, visit.worker_id)
            taken = working.accept(session, worker, group_id, self._market.now())
            passes.issue(session, taken.id, self._door.work_secret(taken))
        return redirect(url_for("work.work", assignment_id=taken.id), 303)

    def _queue(self) -> str:
        visit, now = self._door.visitor(), self._market.now()
        with self._market.read() as session:
            held = working.held(session, session.get_one(Worker, visit.worker_id), now)
            tasks = [_task(session, one, now) for one in held]
        return render_template("queue.html", here="queue", tasks=tasks)

    def _work(self, assignment_id: str) -> str:
        visit = self._door.visitor()
        task = self._held(assignment_id, visit.worker_id)
        posted_to = submit_to(self._door.public_url, self._pass(assignment_id, visit.worker_id))
        address = work_address(task.page_url, task.hit_id, task.assignment_id, visit.worker_id, posted_to)
        frame = Frame(address, task.title, task.frame_height)
        return self._framed("work.html", frame, task=task, origin=origin_of(self._door.public_url))

    def _ask_return(self, assignment_id: str) -> str:
        visit = self._door.visitor()
        return render_template("return.html", here="queue", task=self._held(assignment_id, visit.worker_id))

    def _give_back(self, assignment_id: str) -> Any:
        visit = self._door.sender()
        with self._market.write() as session:
            worker = session.get_one(Worker, visit.worker_id)
            working.give_back(session, worker, assignment_id, self._market.now())
        return redirect(url_for("work.find", said="returned"), 303)

    def _proceed(self, assignment_id: str) -> Any:
        """After a task was handed in: the next of its group, at once or to look at, or else everything there is."""
        visit, now = self._door.sender(), self._market.now()
        going = bool(request.form.get("keep_going"))
        if going != visit.keeps_going:
            self._door.keep_going(going=going)
        with self._market.read() as session:
            worker = session.get_one(Worker, visit.worker_id)
            assignment = _own(session, assignment_id, worker.id)
            if assignment.status is AssignmentStatus.ACCEPTED:
                return redirect(url_for("work.work", assignment_id=assignment_id), 303)
            group_id = _task(session, assignment, now).group_id
        try:
            if not going:
                with self._market.read() as session:
                    working.preview(session, worker, group_id, now)
                return redirect(url_for("work.preview", group_id=group_id, said="submitted"), 303)
            with self._market.write() as session:
                taken = working.accept(session, session.get_one(Worker, worker.id), group_id, now)
                passes.issue(session, taken.id, self._door.work_secret(taken))
        except WorkRefused:
            return redirect(url_for("work.find", said="last"), 303)
        return redirect(url_for("work.work", assignment_id=taken.id), 303)

    def _held(self, assignment_id: str, worker_id: str) -> Task:
        now = self._market.now()
        with self._market.read() as session:
            assignment = _own(session, assignment_id, worker_id)
            if assignment.status is not AssignmentStatus.ACCEPTED:
                raise AlreadySubmitted("InvalidAssignmentState", "this assignment was handed in already")
            return _task(session, assignment, now)

    def _pass(self, assignment_id: str, worker_id: str) -> str:
        """What the task is handed in with; made here where it was accepted in another browser."""
        with self._market.glance() as session:
            secret = self._door.work_secret(_own(session, assignment_id, worker_id))
            if passes.is_issued(session, secret):
                return secret
        with self._market.write() as session:
            # Looked at again: it may have been returned or handed in meanwhile.
            secret = self._door.work_secret(_own(session, assignment_id, worker_id))
            passes.issue(session, assignment_id, secret)
        return secret

    def _framed(self, template: str, frame: Frame, **values: Any) -> str:
        g.frame_origins = (frame.origin, origin_of(self._door.public_url))
        return render_template(template, frame=frame, **values)


def _own(session: Session, assignment_id: str, worker_id: str) -> Assignment:
    """An assignment that this worker holds or has handed in."""
    found = session.scalar(select(Assignment).where(Assignment.id == assignment_id))
    if found is None:
        raise NoSuchWork("AssignmentDoesNotExist", "there is no such assignment")
    if found.status is AssignmentStatus.FREE:
        raise TimeIsOver("InvalidAssignmentState", "nobody has this assignment: its time was over, or it was returned")
    if found.worker_id != worker_id:
        raise NotTheHolder("PermissionDenied", "somebody else has this assignment")
    return found


def _task(session: Session, assignment: Assignment, now: datetime) -> Task:
    hit, kind, requester = session.execute(
        select(Hit, HitType, Requester.name)
        .join(HitType, HitType.id == Hit.type_id)
        .join(Requester, Requester.id == Hit.requester_id)
        .where(Hit.id == assignment.hit_id)
    ).one()
    deadline, accepted_at = assignment.deadline or now, assignment.accepted_at or now
    return Task(
        assignment_id=assignment.id,
        group_id=kind.group_id,
        hit_id=hit.id,
        title=kind.title,
        requester=requester,
        reward_cents=hit.reward_cents,
        page_url=hit.page_url,
        frame_height=hit.frame_height,
        milliseconds=(deadline - accepted_at) // MILLISECOND,
        milliseconds_left=max(0, (deadline - now) // MILLISECOND),
    )


def _matches(group: Group, asked: str) -> bool:
    text = " ".join((group.title, group.requester, group.description, *group.keywords)).casefold()
    return all(word in text for word in asked.casefold().split())


def _sorted(groups: list[Group], sort: str) -> list[Group]:
    """What the worker can take comes first; `groups` are the newest first already."""
    keys = {"reward": lambda one: -one.reward_cents, "many": lambda one: -one.available}
    ordered = sorted(groups, key=keys[sort]) if sort in keys else groups
    return sorted(ordered, key=lambda one: not one.qualified)
