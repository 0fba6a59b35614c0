"""`outfox crowd approve` and `outfox crowd reject`: what becomes of work that was handed in."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from common.money import dollars
from common.text import count
from plugin.cli.crowd_context import DRY_RUN, CrowdContext, leave_paid, open_crowd_context
from plugin.cli.crowd_texts import (
    DECIDE,
    MOST_SHOWN,
    more_than,
    page_text,
    paid_text,
    unfinished_text,
    unknown_text,
    when,
)
from plugin.cli.output import json_option, show, table
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.reviews import UndecidedWork
    from round_manager.models import Assignment

MOST_NAMED = 10


@click.command()
@click.argument("names", nargs=-1, metavar="[TASK] [ASSIGNMENT]...")
@click.option("--all", "every", is_flag=True, help="All work that waits for a decision, of the task or of every task.")
@click.option("--why", default="", metavar="TEXT", help="What for; it is kept with the change.")
@DRY_RUN
@json_option
@click.pass_obj
def approve(app: Application, names: tuple[str, ...], every: bool, why: str, dry_run: bool) -> None:
    """Read what was handed in, approve it and pay the rewards; whatever else is owed is paid with it.

    Where HITs show our own pages, --all leaves out what was handed in without its page being finished: name it to pay
    for it. With --dry-run nothing is read from the marketplace, so only what was collected before is told.
    """
    settings = app.settings
    ours = settings.serves_hit_pages
    with open_crowd_context(settings) as context:
        task_id, works = _split(context, names)
        if bool(works) == every:
            raise click.UsageError("name the assignments, or give --all for all that waits")
        if dry_run:
            _would_approve(context, *_chosen(context, task_id, works, ours))
            return
        # Asked first: with wrong keys the marketplace would refuse every payment for good.
        context.account_cents()
        with ProgressBar() as progress:
            collected = context.services.collector.run(progress)
            chosen, left = _chosen(context, task_id, works, ours)
            new = _owe(context, chosen, why)
            paid = context.services.payments.run(progress)
    uncovered = len(chosen) - new
    data = {"dry_run": False, "collected": asdict(collected), "approved": new, "uncovered": uncovered,
            "left_out": [one.assignment_id for one in left], "paid": asdict(paid)}  # fmt: skip
    text = f"{count(collected.works, 'new piece')} of work, {new} newly approved; {paid_text(paid)}"
    text += unknown_text(collected) + _left_text(left)
    show(data, text if new or paid.rewards else f"{text}; `outfox crowd status` shows what is where")
    leave_paid(paid, uncovered)


@click.command()
@click.argument("assignment")
@click.option("--reason", required=True, metavar="TEXT", help="Why; the worker reads it.")
@click.option("--override", is_flag=True, help="Take a rejection back and pay after all; possible for 30 days.")
@DRY_RUN
@json_option
@click.pass_obj
def reject(app: Application, assignment: str, reason: str, override: bool, dry_run: bool) -> None:
    """Reject work, which is then not paid.

    A rejection harms a worker's record everywhere, so it is not the default for bad work: approve it, do not use it,
    and take the worker's qualification back with `outfox crowd workers withdraw`.
    """
    settings = app.settings
    from round_manager.errors import CrowdWorkError

    if not reason.strip():
        raise CrowdWorkError("give a reason that can be read with --reason")
    with open_crowd_context(settings) as context:
        if dry_run:
            _would_reject(context, assignment, reason, override=override)
            return
        _make_known(context, assignment)
        if override:
            context.account_cents()
            context.services.rejections.override(assignment, who=context.who, why=reason)
            with ProgressBar() as progress:
                paid = context.services.payments.run(progress)
            show({"assignment": assignment, "status": "overridden", "paid": asdict(paid)},
                 f"the rejection of {assignment} is taken back; {paid_text(paid)}")  # fmt: skip
            leave_paid(paid)
            return
        context.services.rejections.reject(assignment, reason, who=context.who)
    text = f"{assignment} is rejected and its money is free again"
    show(
        {"assignment": assignment, "status": "rejected", "reason": reason.strip()}, f"{text}; --override takes it back"
    )


def _split(context: CrowdContext, names: tuple[str, ...]) -> tuple[int | None, tuple[str, ...]]:
    """The task, where the first name is one, and the assignments."""
    from round_manager.tasks.tasks import find_task, list_tasks

    with context.store.read() as session:
        if names and names[0] in [task.name for task in list_tasks(session)]:
            return find_task(session, names[0]).id, names[1:]
        # The marketplace's ids are capitals and digits, the names of tasks are not.
        if names and not names[0].isupper():
            find_task(session, names[0])
    return None, names


def _chosen(
    context: CrowdContext, task_id: int | None, works: tuple[str, ...], our_pages: bool
) -> tuple[list["UndecidedWork"], list["UndecidedWork"]]:
    """What is to be approved, and what is left out because only a person who names it can say that it is right."""
    from round_manager.crowd.reviews import find_assignment, undecided

    with context.store.read() as session:
        for one in works:
            _refuse_rejected(find_assignment(session, context.crowd.name, one))
        waiting = undecided(session, context.crowd.name, task_id, our_pages=our_pages)
    if works:
        return [one for one in waiting if one.assignment_id in works], []
    return [one for one in waiting if not one.page_unfinished], [one for one in waiting if one.page_unfinished]


def _left_text(left: list["UndecidedWork"]) -> str:
    if not left:
        return ""
    named = ", ".join(one.assignment_id for one in left[:MOST_NAMED]) + (" …" if len(left) > MOST_NAMED else "")
    return f"; left out: {unfinished_text(len(left))} ({named}); {DECIDE}"


def _refuse_rejected(work: "Assignment") -> None:
    from round_manager.errors import CrowdWorkError
    from round_manager.models import AssignmentStatus

    if work.status is AssignmentStatus.REJECTED:
        cure = f"`outfox crowd reject {work.external_id} --override --reason TEXT` pays for it after all"
        raise CrowdWorkError(f"{work.external_id} was rejected; {cure}")


def _owe(context: CrowdContext, chosen: list["UndecidedWork"], why: str) -> int:
    from round_manager.crowd import reviews

    with context.store.write() as session:
        works = [reviews.find_assignment(session, context.crowd.name, one.assignment_id) for one in chosen]
        return reviews.approve(session, works, who=context.who, why=why, now=context.clock.now())


def _would_approve(context: CrowdContext, chosen: list["UndecidedWork"], left: list["UndecidedWork"]) -> None:
    from rich.console import Group

    from round_manager.crowd.reviews import find_assignment
    from round_manager.money.statement import reward_cost

    cents = sum(one.reward_cents for one in chosen)
    with context.store.read() as session:
        works = [find_assignment(session, context.crowd.name, one.assignment_id) for one in chosen]
        fees = sum(reward_cost(session, work) for work in works) - cents
    columns = ("assignment", "worker", "kind", "reward", "handed in", "page")
    rows = [
        (one.assignment_id, one.worker_id, one.kind, dollars(one.reward_cents), when(one.submitted_at), page_text(one))
        for one in chosen[:MOST_SHOWN]
    ]
    unfinished = sum(one.page_unfinished for one in chosen)
    shown = len(columns) if unfinished else -1
    price = f"{dollars(cents)} in rewards and {dollars(fees)} in fees"
    told = f"would approve {count(len(chosen), 'piece')} of work for {price}"
    told += f", {unfinished_text(unfinished)}" if unfinished else ""
    text = f"{told}{_left_text(left)}; nothing was changed, and nothing new was read: `outfox crowd status` does that"
    data = {"dry_run": True, "works": [asdict(one) for one in chosen], "reward_cents": cents, "fee_cents": fees,
            "left_out": [one.assignment_id for one in left]}  # fmt: skip
    listed = [table(columns[:shown], [row[:shown] for row in rows])] if rows else []
    show(data, Group(*listed, *filter(None, [more_than(chosen)]), text))


def _make_known(context: CrowdContext, assignment: str) -> None:
    """Reads the marketplace where the work was never collected."""
    from round_manager.crowd.reviews import find_assignment
    from round_manager.errors import CrowdWorkError

    try:
        with context.store.read() as session:
            find_assignment(session, context.crowd.name, assignment)
    except CrowdWorkError:
        with ProgressBar() as progress:
            context.services.collector.run(progress)


def _would_reject(context: CrowdContext, assignment: str, reason: str, *, override: bool) -> None:
    from round_manager.crowd.reviews import find_assignment
    from round_manager.errors import CrowdWorkError
    from round_manager.models import AssignmentStatus, EntryKind
    from round_manager.money.ledger import owe_rewards, owed_entry
    from round_manager.money.statement import reward_cost

    with context.store.read() as session:
        work = find_assignment(session, context.crowd.name, assignment)
        paying = owed_entry(session, work, EntryKind.REWARD) is not None
        cents = reward_cost(session, work)
    needed = AssignmentStatus.REJECTED if override else AssignmentStatus.SUBMITTED
    if work.status is not needed or paying:
        is_now = "approved and being paid" if paying else work.status.value
        raise CrowdWorkError(f"{assignment} is {is_now}; it would have to be {needed.value}")
    if override:
        with context.store.dry_run() as session:
            owe_rewards(session, [find_assignment(session, context.crowd.name, assignment)], now=context.clock.now())
    data: dict[str, Any] = {"dry_run": True, "assignment": assignment, "override": override, "cents": cents}
    back = f"reject {assignment} and give {dollars(cents)} back to the budget, fee included"
    after_all = f"take the rejection of {assignment} back and spend {dollars(cents)} on it, fee included"
    show({**data, "reason": reason.strip()}, f"would {after_all if override else back}; nothing was changed")
