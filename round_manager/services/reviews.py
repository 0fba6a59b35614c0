"""Use cases of submitted work: show what there is, select, approve, reject, and override a rejection."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from common.progress import Progress
from crowd.port import Crowd
from crowd.profile import Price
from round_manager.crowd import reviews
from round_manager.crowd.reviews import UndecidedWork, find_assignment, undecided
from round_manager.crowd.status import CrowdOverview, find_overview
from round_manager.errors import AssignmentNotFound, AssignmentStateError, BudgetError, ReasonRequired
from round_manager.models import AssignmentStatus, EntryKind
from round_manager.money.budget import reward_cost
from round_manager.money.ledger import owe_rewards, owed_entry
from round_manager.services.context import Actor, ConnectedCrowd, ServiceContext
from round_manager.services.payments import find_due_top_ups
from round_manager.tasks.tasks import find_task, list_tasks
from round_manager.work.reports import WorkerReport, worker_reports

BATCH = 200
APPROVED_BY_DEFAULT = "work is approved unless a person decides otherwise"


@dataclass(frozen=True)
class WorkSelection:
    """Work to approve, and work that is left out because its page was not finished."""

    chosen: list[UndecidedWork]
    left_out: list[UndecidedWork]


@dataclass(frozen=True)
class ApprovalResult:
    """How much work was approved and how much was not covered; `problem` is the budget's error, if there is one."""

    approved: int
    uncovered: int
    unfinished: int
    problem: BudgetError | None = None


def show_crowd(
    context: ServiceContext, marketplace: str, task: str | None = None, crowd: Crowd | None = None, *, our_pages: bool
) -> CrowdOverview:
    """Return what was posted, submitted, decided and earned; with a crowd, also the open places of its HITs."""
    found = find_overview(context.store, marketplace, task, crowd, our_pages=our_pages)
    due = {name: find_due_top_ups(context, name) for name in found.tasks}
    return replace(found, to_approve={name: one for name, one in due.items() if one.need_approval})


def list_reports(context: ServiceContext, task: str) -> list[WorkerReport]:
    """Return what workers reported on a task's pages, and why they skipped a text; the newest first."""
    with context.store.read() as session:
        return worker_reports(session, find_task(session, task))


def split_names(context: ServiceContext, names: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the task, if the first name is one, and the names of assignments."""
    with context.store.read() as session:
        if names and names[0] in [task.name for task in list_tasks(session)]:
            return names[0], names[1:]
        # The marketplace's ids are capitals and digits; the names of tasks are not.
        if names and not names[0].isupper():
            find_task(session, names[0])
    return None, names


def select_work(
    context: ServiceContext,
    crowd: ConnectedCrowd,
    *,
    task: str | None = None,
    assignments: Sequence[str] = (),
    our_pages: bool = False,
) -> WorkSelection:
    """Return the undecided work that was named, or all of it with a finished page."""
    with context.store.read() as session:
        task_id = find_task(session, task).id if task else None
        for one in assignments:
            reviews.check_approvable(find_assignment(session, crowd.name, one))
        waiting = undecided(session, crowd.name, task_id, our_pages=our_pages)
    if assignments:
        return WorkSelection([one for one in waiting if one.assignment_id in assignments], [])
    return WorkSelection(
        [one for one in waiting if not one.page_unfinished], [one for one in waiting if one.page_unfinished]
    )


def price_of(context: ServiceContext, crowd: ConnectedCrowd, works: Sequence[UndecidedWork]) -> Price:
    """Return what approving this work costs."""
    cents = sum(one.reward_cents for one in works)
    with context.store.read() as session:
        found = [find_assignment(session, crowd.name, one.assignment_id) for one in works]
        return Price(cents, sum(reward_cost(session, one) for one in found) - cents)


def approve_work(
    context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, works: Sequence[UndecidedWork], *, reason: str = ""
) -> int:
    """Owe the rewards of this work; return how many the budget covers. The next payment pays them."""
    with context.store.write() as session:
        found = [find_assignment(session, crowd.name, one.assignment_id) for one in works]
        return reviews.approve(session, found, actor=actor.name, reason=reason, now=context.now())


def approve_waiting(
    context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, task: str, *, our_pages: bool
) -> ApprovalResult:
    """Approve all of a task's submitted work, except work whose page was not finished."""
    found = select_work(context, crowd, task=task, our_pages=our_pages)
    approved, problem = 0, None
    for first in range(0, len(found.chosen), BATCH):
        try:
            some = found.chosen[first : first + BATCH]
            approved += approve_work(context, actor, crowd, some, reason=APPROVED_BY_DEFAULT)
        except BudgetError as error:
            problem = error
    return ApprovalResult(approved, len(found.chosen) - approved, len(found.left_out), problem)


def ensure_collected(context: ServiceContext, crowd: ConnectedCrowd, assignment: str, progress: Progress) -> None:
    """Collect from the marketplace if the assignment is not known yet."""
    try:
        with context.store.read() as session:
            find_assignment(session, crowd.name, assignment)
    except AssignmentNotFound:
        crowd.collector.run(progress)


def preview_rejection(context: ServiceContext, crowd: ConnectedCrowd, assignment: str, *, override: bool) -> int:
    """Return what a rejection would release, or an override would cost, with the fee; raise if it is not possible."""
    with context.store.read() as session:
        work = find_assignment(session, crowd.name, assignment)
        is_paying = owed_entry(session, work, EntryKind.REWARD) is not None
        cents = reward_cost(session, work)
    needed = AssignmentStatus.REJECTED if override else AssignmentStatus.SUBMITTED
    if work.status is not needed or is_paying:
        state = "approved and being paid" if is_paying else work.status.value
        raise AssignmentStateError(f"{assignment} is {state}; it would have to be {needed.value}")
    if override:
        with context.store.dry_run() as session:
            owe_rewards(session, [find_assignment(session, crowd.name, assignment)], now=context.now())
    return cents


def reject_work(actor: Actor, crowd: ConnectedCrowd, assignment: str, *, reason: str) -> None:
    """Reject work on the marketplace, which is then not paid."""
    crowd.rejections.reject(assignment, reason, actor=actor.name)


def override_rejection(actor: Actor, crowd: ConnectedCrowd, assignment: str, *, reason: str) -> None:
    """Owe the reward of rejected work; the next payment overrides the rejection on the marketplace."""
    if not reason.strip():
        raise ReasonRequired("overriding a rejection needs a reason")
    crowd.rejections.override(assignment, actor=actor.name, reason=reason)
