"""Pages to find work, preview it, accept it, do it in a frame, return it and continue with the next."""

from typing import Any

from flask import Blueprint, g, redirect, render_template, request, url_for

from common.messages import gettext
from common.origins import origin_of
from mturk.marketplace.errors import WorkerActionRefused
from mturk.marketplace.inquiries import Inquirer
from mturk.marketplace.services import work
from mturk.marketplace.services.sign_in import set_keeps_going
from mturk.marketplace.site.auth import SiteAuth
from mturk.marketplace.site.frame import Frame, preview_address, proven_address, submit_to, work_address
from mturk.marketplace.worker_actions import MAX_HELD, HitGroup

SORTS = (("newest", gettext("Newest")), ("reward", gettext("Best paid")), ("many", gettext("Most tasks")))
LONGEST_SEARCH = 100


class WorkPages:
    """The pages on which workers find work and do it."""

    def __init__(self, auth: SiteAuth, inquirer: Inquirer) -> None:
        self._auth = auth
        self._market = auth.market
        self._inquirer = inquirer

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
        groups = work.list_groups(self._market, self._inquirer, visitor.worker_id)
        qualified = [group for group in groups if group.qualified and not group.refusal]
        return render_template(
            "find.html",
            here="find",
            groups=_sorted([group for group in groups if _matches(group, query)], sort),
            open_groups=len(qualified),
            open_tasks=sum(group.available for group in qualified),
            locked_groups=sum(not group.qualified for group in groups),
            queue_is_full=visitor.held >= MAX_HELD,
            query=query,
            sort=sort,
            sorts=SORTS,
        )

    def _preview(self, group_id: str) -> str:
        visitor = self._auth.require_visitor()
        found = work.preview_group(self._market, self._inquirer, visitor.worker_id, group_id)
        if found.hit is None:
            return render_template("preview.html", here="find", group=found.group, frame=None)
        address = preview_address(found.hit.page_url, found.hit.id)
        frame = Frame(address, gettext("Preview: %(title)s", title=found.group.title), found.hit.frame_height)
        return self._framed("preview.html", frame, here="find", group=found.group)

    def _accept(self, group_id: str, said: str | None = None, of: str | None = None) -> Any:
        visitor = self._auth.require_form()
        token = self._auth.login_token()
        assignment_id = work.accept_task(self._market, self._inquirer, visitor.worker_id, group_id, token)
        return redirect(url_for("work.work", assignment_id=assignment_id, said=said, of=of), 303)

    def _queue(self) -> str:
        visitor = self._auth.require_visitor()
        return render_template("queue.html", here="queue", tasks=work.list_tasks(self._market, visitor.worker_id))

    def _work(self, assignment_id: str) -> str:
        worker_id, public_url = self._auth.require_visitor().worker_id, self._auth.public_url
        task = work.find_task(self._market, worker_id, assignment_id)
        secret = work.submit_secret(self._market, worker_id, assignment_id, self._auth.login_token())
        submit_url = submit_to(public_url, secret)
        acceptance = work.find_acceptance(self._market, worker_id, assignment_id)
        address = work_address(
            task.page_url, task.hit_id, task.assignment_id, worker_id, submit_url, held=acceptance.held
        )
        frame = Frame(proven_address(address, acceptance, self._market.now()), task.title, task.frame_height)
        return self._framed("work.html", frame, task=task, origin=origin_of(public_url))

    def _ask_return(self, assignment_id: str) -> str:
        visitor = self._auth.require_visitor()
        task = work.find_task(self._market, visitor.worker_id, assignment_id)
        return render_template("return.html", here="queue", task=task)

    def _return_task(self, assignment_id: str) -> Any:
        work.return_task(self._market, self._auth.require_form().worker_id, assignment_id)
        return redirect(url_for("work.find", said="returned"), 303)

    def _proceed(self, assignment_id: str) -> Any:
        """Continue after a submission: accept or preview the next task of the group, or show all work."""
        visitor = self._auth.require_form()
        keeps_going = bool(request.form.get("keep_going"))
        if keeps_going != visitor.keeps_going:
            set_keeps_going(self._market, self._auth.login_token(), keeps_going=keeps_going)
        group_id = work.submitted_group(self._market, visitor.worker_id, assignment_id)
        if group_id is None:
            return redirect(url_for("work.work", assignment_id=assignment_id), 303)
        if keeps_going:
            try:
                return self._accept(group_id, "went_on", assignment_id)
            except WorkerActionRefused:
                return redirect(url_for("work.find", said="last", of=assignment_id), 303)
        if work.has_work(self._market, self._inquirer, visitor.worker_id, group_id):
            return redirect(url_for("work.preview", group_id=group_id, said="submitted", of=assignment_id), 303)
        return redirect(url_for("work.find", said="last", of=assignment_id), 303)

    def _framed(self, template: str, frame: Frame, **values: Any) -> str:
        g.frame_origins = (frame.origin, origin_of(self._auth.public_url))
        return render_template(template, frame=frame, **values)


def _matches(group: HitGroup, query: str) -> bool:
    text = " ".join((group.title, group.requester, group.description, *group.keywords)).casefold()
    return all(word in text for word in query.casefold().split())


def _sorted(groups: list[HitGroup], sort: str) -> list[HitGroup]:
    """Sort groups, those that the worker can accept first; they come in with the newest first."""
    keys = {"reward": lambda one: -one.reward_cents, "many": lambda one: -one.available}
    ordered = sorted(groups, key=keys[sort]) if sort in keys else groups
    return sorted(ordered, key=lambda one: not one.qualified or bool(one.refusal))
