"""`outfox crowd balance`, `bonus` and `pay`: what the account has, and what workers get."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count, dollars
from plugin.cli.crowd_context import announce, confirm, leave, leave_paid, open_crowd_context, paid_text
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import DOLLARS, DRY_RUN, YES
from plugin.cli.progress import ProgressBar
from plugin.hints import NO_TASKS
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.money.budget import Owed
    from round_manager.services.payments import GroupTopUp


@click.command()
@data_command
def balance(app: Application) -> None:
    """Show what the account has, what all tasks have reserved and owe, and whether it covers that."""
    from round_manager.services.payments import account_balance

    with open_crowd_context(app) as context:
        found = account_balance(context.services, context.crowd)
    account, bonuses = found.account_cents, found.owed_bonuses_cents
    columns = ("task", "budget", "reserved", "owed", "in doubt", "paid")
    rows = [(one.task, *map(dollars, (one.budget_cents, one.reserved_cents, one.owed_cents, one.in_doubt_cents,
             one.paid_cents))) for one in found.tasks]  # fmt: skip
    text = f"the account has {dollars(account)}; {dollars(found.owed_cents)} is owed, {dollars(bonuses)} in bonuses"
    verdict = "covered" if found.is_covered else f"{dollars(bonuses - account)} short: add funds to the account"
    data = {"account_cents": account, "owed_cents": found.owed_cents, "owed_bonuses_cents": bonuses,
            "covered": found.is_covered}  # fmt: skip
    listed: list[dict[str, Any]] = [{**asdict(one), "owed_cents": one.owed_cents} for one in found.tasks]
    show({**data, "tasks": listed}, Group(f"{text}; {verdict}", "", table(columns, rows) if rows else NO_TASKS))


@click.command()
@click.argument("assignment")
@click.argument("cents", type=DOLLARS, metavar="DOLLARS")
@click.option("--reason", required=True, metavar="TEXT", help="What for; the worker reads it.")
@click.option("--again", is_flag=True, help="Give it even if the same bonus was given before.")
@YES
@DRY_RUN
@data_command
def bonus(app: Application, assignment: str, cents: int, reason: str, again: bool, yes: bool, dry_run: bool) -> None:
    """Give the worker of an assignment a bonus, from the budget of its round, and pay it.

    Everything else that is owed is paid too. After a crash, continue with `outfox crowd pay`; the same bonus for the
    same reason is given twice only with --again.
    """
    from round_manager.services.payments import give_bonus, is_paid

    with open_crowd_context(app) as context:
        given = (context.services, context.actor, context.crowd, assignment, cents)
        # A dry run first, so that the user is not asked about something that is then refused.
        give_bonus(*given, reason=reason, again=again, dry_run=True)
        price = context.crowd.crowd.bonus_price(cents)
        text = f"{dollars(cents)} for {assignment} ({dollars(price.total_cents)} with the fee)"
        data = {"dry_run": dry_run, "assignment": assignment, "cents": cents, "fee_cents": price.fee_cents}
        account = context.account_cents()
        if dry_run:
            short = ", which does not cover it" if account < price.total_cents else ""
            show({**data, "account_cents": account},
                 f"would give {text}; the account has {dollars(account)}{short}; nothing was changed")  # fmt: skip
            return
        confirm(f"give a bonus of {text}?", yes=yes)
        entry = give_bonus(*given, reason=reason, again=again)
        with ProgressBar() as progress:
            paid = context.crowd.payments.run(progress)
        elsewhere = not paid.bonuses and is_paid(context.services, entry)
    result = "another process has already paid it" if elsewhere else paid_text(paid)
    show({**data, "key": entry.key, "paid": asdict(paid)}, f"gave a bonus of {text}; {result}")
    leave_paid(paid)


@click.command()
@click.argument("task", required=False)
@click.option(
    "--top-up",
    is_flag=True,
    help="First owe what brings low-paid groups to the hourly minimum; this approves top-ups above the task's limit.",
)
@YES
@DRY_RUN
@data_command
def pay(app: Application, task: str | None, top_up: bool, yes: bool, dry_run: bool) -> None:
    """Pay everything that is owed on the marketplace, after looking up what is in doubt.

    Payments of every task are made; a TASK only limits --top-up. Safe to repeat after a crash: each is made once.
    """
    from round_manager.services.payments import owe_top_ups, owed_payments, plan_top_ups

    with open_crowd_context(app) as context:
        account = context.account_cents()
        plan = plan_top_ups(context.services, context.crowd, task, top_up=top_up)
        groups = [asdict(one) for one in plan.groups]
        if dry_run:
            doubtful = context.crowd.reconciler.in_doubt()
            data = {"account_cents": account, "owed": [asdict(one) for one in plan.owed], "in_doubt": doubtful}
            texts = _would_pay(plan.owed, doubtful, account)
            show({"dry_run": True, **data, "top_up_cents": plan.cents, "top_ups": groups},
                 Group(*([_top_ups(plan.groups), ""] if top_up else []), *texts))  # fmt: skip
            return
        if plan.cents:
            announce(_top_ups(plan.groups))
            confirm(f"owe {dollars(plan.cents)} in top-ups and pay everything that is owed?", yes=yes)
        with ProgressBar() as progress:
            reconciled = context.crowd.reconciler.run(progress)
            leave(problem=reconciled.problem)
            new = owe_top_ups(context.services, context.actor, context.crowd, plan)
            paid = context.crowd.payments.run(progress)
        left = sum(one.count for one in owed_payments(context.services, context.crowd)) - paid.waiting
    text = f"{dollars(new)} in top-ups; {paid_text(paid)}" if top_up else paid_text(paid)
    later = f"; {left} more will be retried in a few minutes" if left > 0 else ""
    show({"dry_run": False, "top_up_cents": new, "top_ups": groups, "reconciled": asdict(reconciled),
          "paid": asdict(paid), "later": left}, text + later)  # fmt: skip
    leave_paid(paid)


def _would_pay(owed: Sequence["Owed"], doubtful: int, account: int) -> list[RenderableType]:
    texts: list[RenderableType] = []
    if doubtful:
        texts.append(f"{count(doubtful, 'HIT or payment', 'HITs and payments')} in doubt would be looked up first")
    columns = ("would be paid", "payments", "to workers", "fees")
    rows = [(one.kind.value, one.count, dollars(one.cents), dollars(one.fee_cents)) for one in owed]
    texts.append(table(columns, rows) if rows else "nothing is owed")
    # The marketplace set rewards aside when the HITs were posted.
    bonuses = sum(one.cents + one.fee_cents for one in owed if one.kind.value != "reward")
    short = f", which is {dollars(bonuses - account)} short" if bonuses > account else ""
    texts.append(f"the account has {dollars(account)}, bonuses need {dollars(bonuses)}{short}; nothing was changed")
    return texts


def _top_ups(groups: Sequence["GroupTopUp"]) -> RenderableType:
    if not groups:
        return "no work is approved yet, so there is nothing to top up"
    columns = ("task", "round", "kind", "group", "approved", "hourly pay", "minimum", "top-ups", "to workers", "fees")
    rows = [
        (one.task, one.round or "", one.kind, one.group_id, one.assignments, dollars(one.median_hourly_cents),
         dollars(one.minimum_hourly_cents), one.top_ups, dollars(one.cents), dollars(one.fee_cents))
        for one in groups
    ]  # fmt: skip
    return table(columns, rows)
