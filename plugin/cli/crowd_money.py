"""`outfox crowd balance`, `bonus` and `pay`: what there is, and what goes to workers."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.money import dollars
from common.text import count
from plugin.cli.crowd_context import (
    DOLLARS,
    DRY_RUN,
    YES,
    CrowdContext,
    announce,
    ask,
    leave,
    leave_paid,
    open_crowd_context,
)
from plugin.cli.crowd_texts import paid_text
from plugin.cli.output import json_option, show, table
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.fair_pay import GroupWage
    from round_manager.models import LedgerEntry
    from round_manager.money.statement import Owed


@click.command()
@json_option
@click.pass_obj
def balance(app: Application) -> None:
    """Show what the account has, what all tasks have reserved and owe, and whether it covers that."""
    settings = app.settings
    from round_manager.money.statement import money_by_task

    with open_crowd_context(settings) as context:
        account = context.account_cents()
        with context.store.read() as session:
            tasks = money_by_task(session, context.crowd.name)
    # Rewards were set aside by the marketplace when the HITs were posted; only bonuses are still to come out of it.
    bonuses = sum(one.owed_bonuses_cents for one in tasks)
    covered = account >= bonuses
    owed = sum(one.owed_cents for one in tasks)
    columns = ("task", "budget", "reserved", "owed", "in doubt", "paid")
    rows = [(one.task, *map(dollars, (one.budget_cents, one.reserved_cents, one.owed_cents, one.in_doubt_cents,
             one.paid_cents))) for one in tasks]  # fmt: skip
    told = f"the account has {dollars(account)}; {dollars(owed)} is owed, {dollars(bonuses)} of it in bonuses"
    verdict = "that is covered" if covered else f"that is {dollars(bonuses - account)} short: add to the account"
    nothing = "there is no task yet; `outfox task create PACK` makes one"
    data = {"account_cents": account, "owed_cents": owed, "owed_bonuses_cents": bonuses, "covered": covered}
    listed: list[dict[str, Any]] = [{**asdict(one), "owed_cents": one.owed_cents} for one in tasks]
    show({**data, "tasks": listed}, Group(f"{told}; {verdict}", "", table(columns, rows) if rows else nothing))


@click.command()
@click.argument("assignment")
@click.argument("cents", type=DOLLARS, metavar="DOLLARS")
@click.option("--reason", required=True, metavar="TEXT", help="What for; the worker reads it.")
@click.option("--again", is_flag=True, help="Give it although the same bonus was given before.")
@YES
@DRY_RUN
@json_option
@click.pass_obj
def bonus(app: Application, assignment: str, cents: int, reason: str, again: bool, yes: bool, dry_run: bool) -> None:
    """Give whoever handed in an assignment a bonus, from the budget of its round, and pay it.

    Whatever else is owed is paid with it. After a crash, `outfox crowd pay` goes on; the same bonus for the same reason
    is not given twice unless --again says so.
    """
    settings = app.settings
    with open_crowd_context(settings) as context:
        # Tried out first, so that nobody is asked about what would then be refused.
        _give(context, assignment, cents, reason, again=again, rehearse=True)
        price = context.crowd.bonus_price(cents)
        told = f"{dollars(cents)} for {assignment} ({dollars(price.total_cents)} with the fee)"
        data = {"dry_run": dry_run, "assignment": assignment, "cents": cents, "fee_cents": price.fee_cents}
        account = context.account_cents()
        if dry_run:
            short = ", which does not cover it" if account < price.total_cents else ""
            show({**data, "account_cents": account},
                 f"would give {told}; the account has {dollars(account)}{short}; nothing was changed")  # fmt: skip
            return
        ask(f"give a bonus of {told}?", yes=yes)
        entry = _give(context, assignment, cents, reason, again=again, rehearse=False)
        with ProgressBar() as progress:
            paid = context.services.payments.run(progress)
        elsewhere = not paid.bonuses and _is_paid(context, entry)
    became = "another command, at the same time, has paid it" if elsewhere else paid_text(paid)
    show({**data, "key": entry.key, "paid": asdict(paid)}, f"a bonus of {told} is given; {became}")
    leave_paid(paid)


@click.command()
@click.argument("task", required=False)
@click.option("--top-up", is_flag=True, help="First owe what brings low groups to the minimum for an hour.")
@YES
@DRY_RUN
@json_option
@click.pass_obj
def pay(app: Application, task: str | None, top_up: bool, yes: bool, dry_run: bool) -> None:
    """Pay all that is owed on the marketplace, after asking it about what is in doubt.

    Payments of every task are made; a TASK only narrows --top-up. Safe to run again after a crash: each is made once.
    """
    settings = app.settings
    with open_crowd_context(settings) as context:
        account = context.account_cents()
        wages = _wages(context, task, top_up=top_up)
        planned = _planned(context, wages)
        # Tried out first, so that nobody is asked about what the budget would then refuse.
        new, owed = _owe_top_ups(context, wages, rehearse=True)
        if dry_run:
            doubtful = context.services.reconciler.in_doubt()
            data = {"account_cents": account, "owed": [asdict(one) for one in owed], "in_doubt": doubtful}
            texts = _would_pay(owed, doubtful, account)
            show({"dry_run": True, **data, "top_up_cents": new, "top_ups": planned},
                 Group(*([_top_ups(planned), ""] if top_up else []), *texts))  # fmt: skip
            return
        if new:
            announce(_top_ups(planned))
            ask(f"owe {dollars(new)} in top-ups and pay all that is owed?", yes=yes)
        with ProgressBar() as progress:
            cleared = context.services.reconciler.run(progress)
            leave(problem=cleared.problem)
            new, _ = _owe_top_ups(context, wages, rehearse=False)
            paid = context.services.payments.run(progress)
        left = sum(one.count for one in _owed(context)) - paid.waiting
    text = f"{dollars(new)} in top-ups; {paid_text(paid)}" if top_up else paid_text(paid)
    later = f"; {left} more are tried again in a few minutes" if left > 0 else ""
    show({"dry_run": False, "top_up_cents": new, "top_ups": planned, "reconciled": asdict(cleared),
          "paid": asdict(paid), "later": left}, text + later)  # fmt: skip
    leave_paid(paid)


def _give(
    context: CrowdContext, assignment: str, cents: int, reason: str, *, again: bool, rehearse: bool
) -> "LedgerEntry":
    from round_manager.crowd.reviews import find_assignment, give_bonus, give_bonus_once

    give = give_bonus if again else give_bonus_once
    with context.store.dry_run() if rehearse else context.store.write() as session:
        work = find_assignment(session, context.crowd.name, assignment)
        return give(session, context.crowd, work, cents, reason, who=context.who, now=context.clock.now())


def _is_paid(context: CrowdContext, entry: "LedgerEntry") -> bool:
    from round_manager.models import EntryState, LedgerEntry

    with context.store.read() as session:
        return session.get_one(LedgerEntry, entry.id).state is EntryState.CONFIRMED


def _wages(context: CrowdContext, task: str | None, *, top_up: bool) -> list["GroupWage"]:
    """What top-ups go by; nothing where none are wanted, but a task that is not there is told all the same."""
    from round_manager.crowd.fair_pay import group_wages
    from round_manager.tasks.tasks import find_task, list_tasks

    with context.store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        return [wage for one in tasks for wage in group_wages(session, one)] if top_up else []


def _planned(context: CrowdContext, wages: list["GroupWage"]) -> list[dict[str, Any]]:
    """What each group would get."""
    from round_manager.crowd.fair_pay import new_top_ups

    with context.store.read() as session:
        lacking = new_top_ups(session, wages)
    return [
        {
            "task": wage.task,
            "kind": wage.kind.value,
            "group_id": wage.group_id,
            "assignments": wage.assignments,
            "median_hourly_cents": wage.median_hourly_cents,
            "minimum_hourly_cents": wage.minimum_hourly_cents,
            "top_ups": len(lacking[wage.group_id]),
            "cents": sum(lacking[wage.group_id]),
            "fee_cents": sum(context.crowd.bonus_price(cents).fee_cents for cents in lacking[wage.group_id]),
        }
        for wage in wages
    ]


def _owe_top_ups(context: CrowdContext, wages: list["GroupWage"], *, rehearse: bool) -> tuple[int, list["Owed"]]:
    """How many cents of top-ups are owed now, without fees, and all that is owed then."""
    from round_manager.crowd.fair_pay import owe_top_ups
    from round_manager.money.statement import owed_by_kind

    with context.store.dry_run() if rehearse else context.store.write() as session:
        new = owe_top_ups(session, context.crowd, wages, now=context.clock.now())
        owed = owed_by_kind(session, context.crowd.name)
    return new, owed


def _owed(context: CrowdContext) -> list["Owed"]:
    from round_manager.money.statement import owed_by_kind

    with context.store.read() as session:
        return owed_by_kind(session, context.crowd.name)


def _would_pay(owed: list["Owed"], doubtful: int, account: int) -> list[RenderableType]:
    texts: list[RenderableType] = []
    if doubtful:
        texts.append(f"{count(doubtful, 'HIT or payment', 'HITs and payments')} in doubt would be looked up first")
    columns = ("would be paid", "payments", "to workers", "fees")
    rows = [(one.kind.value, one.count, dollars(one.cents), dollars(one.fee_cents)) for one in owed]
    texts.append(table(columns, rows) if rows else "nothing is owed")
    # Rewards were set aside when the HITs were posted.
    bonuses = sum(one.cents + one.fee_cents for one in owed if one.kind.value != "reward")
    short = f", which is {dollars(bonuses - account)} short" if bonuses > account else ""
    texts.append(f"the account has {dollars(account)}, bonuses need {dollars(bonuses)}{short}; nothing was changed")
    return texts


def _top_ups(planned: list[dict[str, Any]]) -> RenderableType:
    if not planned:
        return "no work is approved yet, so there is no wage to bring up"
    columns = ("task", "kind", "group", "approved", "an hour pays", "promised", "top-ups", "to workers", "fees")
    rows = [
        (one["task"], one["kind"], one["group_id"], one["assignments"], dollars(one["median_hourly_cents"]),
         dollars(one["minimum_hourly_cents"]), one["top_ups"], dollars(one["cents"]), dollars(one["fee_cents"]))
        for one in planned
    ]  # fmt: skip
    return table(columns, rows)
