"""`outfox crowd expire`: stops workers from accepting HITs, and releases the money of empty places."""

from dataclasses import asdict
from typing import Any

import click

from common.text import count, dollars
from plugin.cli.crowd_context import DRY_RUN, KIND, YES, confirm, open_crowd_context
from plugin.cli.crowd_texts import unknown_text
from plugin.cli.output import json_option, show
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application


@click.command()
@click.argument("task")
@click.argument("hits", nargs=-1, metavar="[HIT]...")
@KIND
@click.option("--all", "every", is_flag=True, help="Every HIT of the task, or of the kind.")
@YES
@DRY_RUN
@json_option
@click.pass_obj
def expire(
    app: Application, task: str, hits: tuple[str, ...], kind: str | None, every: bool, yes: bool, dry_run: bool
) -> None:
    """Stop workers from accepting HITs; workers who accepted one may finish it and are paid.

    The marketplace is then read, so that the money of empty places is released. With --all, HITs that were planned and
    never sent are cancelled too.
    """
    from round_manager.models import HitKind
    from round_manager.services.hits import expire_hits, plan_expiry

    if bool(hits) == every:
        raise click.UsageError("name the HITs, or use --all")
    only = HitKind(kind) if kind else None
    with open_crowd_context(app) as context:
        plan = plan_expiry(context.services, context.actor, context.crowd, task, hit_ids=hits, kind=only)
        data: dict[str, Any] = {"task": task, "dry_run": dry_run, "hits": [one.hit_id for one in plan.hits]}
        if not plan.hits and not plan.cancelled:
            show({**data, "reserved_cents": 0}, f"workers cannot accept any HIT of {task}; there is nothing to expire")
            return
        text = f"{count(len(plan.hits), 'HIT')} of {task}, with {dollars(plan.reserved_cents)} reserved"
        if plan.cancelled:
            text += f", and cancel {plan.cancelled} that were never sent, with {dollars(plan.cancelled_cents)}"
        if dry_run:
            rest = "submitted work is still paid, the rest is released"
            show({**data, "reserved_cents": plan.reserved_cents, "given_up": plan.cancelled,
                  "given_up_cents": plan.cancelled_cents},
                 f"would expire {text}; {rest}; nothing was changed")  # fmt: skip
            return
        confirm(f"expire {text}?", yes=yes)
        # First: with wrong keys, or a marketplace that does not answer, nothing is cancelled either.
        context.account_cents()
        with ProgressBar() as progress:
            result = expire_hits(
                context.services, context.actor, context.crowd, task, plan, kind=only, cancel=every, progress=progress
            )
    text = f"expired {count(result.expired, 'HIT')} of {task}"
    text += f", cancelled {result.cancelled}" if result.cancelled else ""
    text += f"; released {dollars(result.released_cents)}"
    if result.reserved_cents:
        text += f"; {dollars(result.reserved_cents)} stays reserved for accepted and submitted work"
    show({**data, "reserved_cents": result.reserved_cents, "released_cents": result.released_cents,
          "given_up": result.cancelled, "collected": asdict(result.collected)},
         text + unknown_text(result.collected))  # fmt: skip
