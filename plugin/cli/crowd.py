"""`outfox crowd`, and `crowd status`: the state of the work on the marketplace, and what needs a person."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count, dollars
from plugin.cli.crowd_context import DECIDE, asking, open_crowd_context, page_text, unfinished_text
from plugin.cli.crowd_groups import group, report
from plugin.cli.crowd_money import balance, bonus, pay
from plugin.cli.crowd_posting import expire, post
from plugin.cli.crowd_reconcile import reconcile, statement
from plugin.cli.crowd_review import approve, follow, reject, reports
from plugin.cli.crowd_workers import block, workers
from plugin.cli.output import MOST_SHOWN, data_command, limited_table, show, table, when
from plugin.cli.progress import ProgressBar
from plugin.hints import NO_TASKS, with_command
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.reviews import DecidedWork
    from round_manager.crowd.status import CrowdOverview, GroupRow, LooseEnd


FEW = 10


@click.group(
    commands=[
        approve,
        balance,
        block,
        bonus,
        expire,
        follow,
        group,
        pay,
        post,
        reconcile,
        reject,
        report,
        reports,
        statement,
        workers,
    ]
)
def crowd() -> None:
    """Post work on a marketplace, collect it and pay for it.

    Every cent goes through the ledger: it is reserved before a HIT is posted, and each payment is made once, even after
    a crash. See docs/crowd.md.
    """


@crowd.command()
@click.argument("task", required=False)
@click.option("--collect/--no-collect", default=True, help="Read the marketplace first.")
@data_command
def status(app: Application, task: str | None, collect: bool) -> None:
    """Show by HIT group what was posted, submitted, decided and earned, and what needs a person."""
    from round_manager.services.reviews import show_crowd

    collected, ours = None, app.settings.serves_hit_pages
    if collect:
        with open_crowd_context(app) as context:
            with ProgressBar() as progress:
                collected = context.crowd.collector.run(progress)
            market = context.crowd.crowd
            found = show_crowd(context.services, market.name, task, market, our_pages=ours)
    else:
        with app.services() as services:
            found = show_crowd(services, app.settings.crowd_name, task, our_pages=ours)
    data = {"marketplace": app.settings.crowd_name, "collected": asdict(collected) if collected else None}
    show({**data, **_data(found)}, Group(*_texts(found)))


def _data(found: "CrowdOverview") -> dict[str, Any]:
    groups = [
        {
            **asdict(one.figures),
            "available": one.places.available if one.places else None,
            "pending": one.places.pending if one.places else None,
            "median_minutes": one.median_minutes,
            "median_hourly_cents": one.median_hourly_cents,
            "minimum_hourly_cents": one.minimum_hourly_cents,
            "wage_is_low": one.is_low,
        }
        for one in found.groups
    ]
    ends = {
        name: [{**asdict(one), "cure": command_for_held(one) if name == "held" else ""} for one in getattr(found, name)]
        for name in ("in_doubt", "held", "refused", "astray")
    }
    rest = {name: [asdict(one) for one in getattr(found, name)] for name in ("undecided", "decided", "planned")}
    approvals = [{"task": task, **asdict(due)} for task, due in found.to_approve.items()]
    return {"groups": groups, **rest, **ends, "without_round": found.without_round, "top_ups_to_approve": approvals}


def _texts(found: "CrowdOverview") -> Iterator[RenderableType]:
    from round_manager.loop.waiting import top_up_approval

    if found.groups:
        yield _groups(found.groups)
        yield ""
        yield _wages(found.groups)
    else:
        yield _nothing(found)
    for one in found.groups:
        if one.is_low and one.figures.task not in found.to_approve:
            yield f"\n{_warning(one)}"
    for task, due in found.to_approve.items():
        reason = top_up_approval(due, task)
        yield f"\n{task}: {with_command(reason.text, reason.hint)}"
    yield from _work(found)
    for plan in (one for one in found.planned if one.unsent):
        what = f"{count(plan.unsent, 'HIT')} {asking(plan.kind)} of {plan.task}"
        yield f"\n{what} waiting to be posted"
        yield f"their money is reserved; post them with `outfox crowd post {plan.task}`"
    if found.in_doubt:
        yield f"\n{len(found.in_doubt)} in doubt; check them with `outfox crowd reconcile`:"
        yield _ends(found.in_doubt, FEW)
    if found.held:
        yield f"\n{len(found.held)} held: look on the marketplace, then record what you found:"
        yield _ends(found.held)
        yield from (command_for_held(one) for one in found.held[:MOST_SHOWN])
    if found.astray:
        yield f"\n{count(len(found.astray), 'HIT')} astray; their money stays reserved until you decide:"
        yield _astray(found.astray)
    if found.refused:
        yield "\nrefused or cancelled, the newest first; nothing was spent on these:"
        yield _ends(found.refused, FEW)


def _work(found: "CrowdOverview") -> Iterator[RenderableType]:
    if found.undecided:
        yield f"\n{count(len(found.undecided), 'assignment')} to decide, the oldest first:"
        yield _undecided(found)
        yield from _advice(found)
    if found.decided:
        last = found.decided[:FEW]
        yield f"\nthe last {count(len(last), 'decision')}, the newest first:"
        yield _decided(last)


def command_for_held(one: "LooseEnd") -> str:
    """Return the commands that record what a person found out about something that is held."""
    if one.what == "HIT":
        return f"outfox crowd reconcile --not-posted {one.key}"
    return f"outfox crowd reconcile --paid {one.key}   or   --unpaid {one.key}"


def _nothing(found: "CrowdOverview") -> str:
    if not found.tasks:
        return NO_TASKS
    name = next((one for one in found.tasks if one not in found.without_round), None)
    if name is None:
        return f"nothing was posted, and no round is open; open one with `outfox round open {found.tasks[0]}`"
    step = f"outfox crowd post {name} --kind create --hits 10 --dry-run"
    return f"nothing was posted yet; see what it would cost with `{step}`"


def _groups(groups: Sequence["GroupRow"]) -> RenderableType:
    columns = ("task", "kind", "reward", "HITs", "available", "pending", "to decide", "approved", "rejected")
    rows = []
    for one in groups:
        figures = one.figures
        places = (one.places.available, one.places.pending) if one.places else (f"at most {figures.unfilled}", "?")
        work = (figures.undecided, figures.approved, figures.rejected)
        rows.append((figures.task, figures.kind.value, dollars(figures.reward_cents), figures.hits, *places, *work))
    return table(columns, rows)


def _wages(groups: Sequence["GroupRow"]) -> RenderableType:
    columns = ("task", "kind", "open until", "minutes", "hourly pay", "minimum")
    rows = []
    for one in groups:
        figures = one.figures
        until = when(figures.expires_at) if figures.unfinished else "finished"
        minutes = "" if one.median_minutes is None else f"{one.median_minutes:.1f}"
        pays = [
            dollars(cents) if cents is not None else "" for cents in (one.median_hourly_cents, one.minimum_hourly_cents)
        ]
        rows.append((figures.task, figures.kind.value, until, minutes, *pays))
    return table(columns, rows)


def _warning(one: "GroupRow") -> str:
    earned, promised = dollars(one.median_hourly_cents or 0), dollars(one.minimum_hourly_cents or 0)
    figures = one.figures
    return (
        f"warning: work {asking(figures.kind)} of {figures.task} pays a median of {earned} an hour, below the minimum "
        f"of {promised}; top it up with `outfox crowd pay {figures.task} --top-up`, or raise the reward"
    )


def _undecided(found: "CrowdOverview") -> RenderableType:
    columns = ("assignment", "worker", "kind", "reward", "submitted", "approved automatically", "page")
    rows = [
        (
            one.assignment_id,
            one.worker_id,
            one.kind,
            dollars(one.reward_cents),
            when(one.submitted_at),
            when(one.auto_approve_at),
            page_text(one),
        )
        for one in found.undecided
    ]
    return limited_table(columns, rows, optional_end=True)


def _decided(last: Sequence["DecidedWork"]) -> RenderableType:
    columns = ("assignment", "worker", "kind", "decision", "when")
    return table(
        columns, [(one.assignment_id, one.worker_id, one.kind, one.status, when(one.decided_at)) for one in last]
    )


def _advice(found: "CrowdOverview") -> Iterator[str]:
    unfinished = sum(one.page_unfinished for one in found.undecided)
    if not unfinished:
        yield "pay all of it with `outfox crowd approve TASK --all`, or some with `outfox crowd approve ASSIGNMENT…`"
        return
    if unfinished < len(found.undecided):
        yield "pay finished work with `outfox crowd approve TASK --all`"
    yield f"{unfinished_text(unfinished)}; {DECIDE}"


def _ends(ends: Sequence["LooseEnd"], most: int = MOST_SHOWN) -> RenderableType:
    columns = ("key", "what", "task", "costs", "assignment", "since", "why")
    rows = [
        (one.key, one.what, one.task, dollars(one.cents), one.assignment_id, when(one.since), one.why) for one in ends
    ]
    return limited_table(columns, rows, most)


def _astray(ends: Sequence["LooseEnd"]) -> RenderableType:
    rows = [(one.hit_id, one.task, dollars(one.cents), one.why) for one in ends]
    return limited_table(("HIT", "task", "reserved", "why"), rows, FEW)
