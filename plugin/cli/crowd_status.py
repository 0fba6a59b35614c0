"""`outfox crowd status`: how the work on the marketplace stands, and what needs a person."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.money import dollars
from common.text import count
from plugin.cli.crowd_context import open_crowd_context
from plugin.cli.crowd_texts import DECIDE, MOST_SHOWN, asking, more_than, page_text, unfinished_text, when
from plugin.cli.output import json_option, show, table
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.overview import CrowdOverview, GroupRow
    from round_manager.crowd.reviews import DecidedWork
    from round_manager.crowd.status import LooseEnd

FEW = 10


@click.command()
@click.argument("task", required=False)
@click.option(
    "--collect/--no-collect", default=True, show_default=True, help="Read the marketplace first, or show what is known."
)
@json_option
@click.pass_obj
def status(app: Application, task: str | None, collect: bool) -> None:
    """Show by HIT group what was posted, handed in, decided and earned, and what needs a person."""
    settings = app.settings
    from round_manager.crowd.overview import find_overview
    from round_manager.database.store import open_store

    collected = None
    if collect:
        with open_crowd_context(settings) as context:
            with ProgressBar() as progress:
                collected = context.services.collector.run(progress)
            found = find_overview(
                context.store, context.crowd.name, task, context.crowd, our_pages=settings.serves_hit_pages
            )
    else:
        with open_store(settings.database) as store:
            found = find_overview(store, settings.crowd_name, task, our_pages=settings.serves_hit_pages)
    data = {"marketplace": settings.crowd_name, "collected": asdict(collected) if collected else None}
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
        name: [{**asdict(one), "cure": cure(one) if name == "held" else ""} for one in getattr(found, name)]
        for name in ("in_doubt", "held", "refused", "astray")
    }
    rest = {name: [asdict(one) for one in getattr(found, name)] for name in ("undecided", "decided", "planned")}
    return {"groups": groups, **rest, **ends, "without_round": found.without_round}


def _texts(found: "CrowdOverview") -> Iterator[RenderableType]:
    if found.groups:
        yield _groups(found.groups)
        yield ""
        yield _wages(found.groups)
    else:
        yield _nothing(found)
    for one in found.groups:
        if one.is_low:
            yield ""
            yield _warning(one)
    yield from _work(found)
    for plan in (one for one in found.planned if one.unsent):
        what = f"{count(plan.unsent, 'HIT')} {asking(plan.kind)} of {plan.task}"
        yield from _section(f"{what} waiting to be posted")
        yield f"their money is reserved; `outfox crowd post {plan.task}` posts them"
    if found.in_doubt:
        yield from _section(f"{len(found.in_doubt)} in doubt; `outfox crowd reconcile` asks the marketplace:")
        yield _ends(found.in_doubt, FEW)
    if found.held:
        yield from _section(f"{len(found.held)} held: look on the marketplace, then say what is true:")
        yield _ends(found.held)
        yield from (cure(one) for one in found.held[:MOST_SHOWN])
    if found.astray:
        yield from _section(
            f"{count(len(found.astray), 'HIT')} astray; what is reserved stays so until you have looked:"
        )
        yield _astray(found.astray)
    if found.refused:
        yield from _section("refused or given up, the newest first; nothing was spent on these:")
        yield _ends(found.refused, FEW)


def _work(found: "CrowdOverview") -> Iterator[RenderableType]:
    if found.undecided:
        yield from _section(f"{count(len(found.undecided), 'piece')} of work to decide on, the oldest first:")
        yield _undecided(found)
        yield from _advice(found)
    if found.decided:
        last = found.decided[:FEW]
        yield from _section(f"{count(len(last), 'piece')} of work {_were(last)} decided on last, the newest first:")
        yield _decided(last)


def cure(one: "LooseEnd") -> str:
    """What a person can say about something that is held."""
    if one.what == "HIT":
        return f"outfox crowd reconcile --not-posted {one.key}"
    return f"outfox crowd reconcile --paid {one.key}   or   --unpaid {one.key}"


def _section(text: str) -> Iterator[str]:
    yield from ("", text)


def _nothing(found: "CrowdOverview") -> str:
    if not found.tasks:
        return "there is no task yet; `outfox task create PACK` makes one"
    name = next((one for one in found.tasks if one not in found.without_round), None)
    if name is None:
        return f"nothing was posted, and no round is open; `outfox round open {found.tasks[0]}` opens one"
    step = f"outfox crowd post {name} --kind create --hits 10 --dry-run"
    return f"nothing was posted yet; `{step}` tells what it would cost"


def _groups(groups: Sequence["GroupRow"]) -> RenderableType:
    columns = ("task", "kind", "reward", "HITs", "available", "pending", "to decide", "approved", "rejected")
    rows = []
    for one in groups:
        told = one.figures
        places = (one.places.available, one.places.pending) if one.places else (f"at most {told.unfilled}", "?")
        work = (told.undecided, told.approved, told.rejected)
        rows.append((told.task, told.kind.value, dollars(told.reward_cents), told.hits, *places, *work))
    return table(columns, rows)


def _wages(groups: Sequence["GroupRow"]) -> RenderableType:
    columns = ("task", "kind", "can be taken until", "minutes", "an hour pays", "promised")
    rows = []
    for one in groups:
        told = one.figures
        until = when(told.expires_at) if told.unfinished else "all is done"
        minutes = "" if one.median_minutes is None else f"{one.median_minutes:.1f}"
        pays = [
            dollars(cents) if cents is not None else "" for cents in (one.median_hourly_cents, one.minimum_hourly_cents)
        ]
        rows.append((told.task, told.kind.value, until, minutes, *pays))
    return table(columns, rows)


def _warning(one: "GroupRow") -> str:
    earned, promised = dollars(one.median_hourly_cents or 0), dollars(one.minimum_hourly_cents or 0)
    told = one.figures
    return (
        f"warning: work {asking(told.kind)} of {told.task} pays {earned} an hour in the median, less than the promised "
        f"{promised}; `outfox crowd pay {told.task} --top-up` makes up for it, and a higher reward would prevent it"
    )


def _undecided(found: "CrowdOverview") -> RenderableType:
    columns = ("assignment", "worker", "kind", "reward", "handed in", "approves itself", "page")
    rows = [
        (one.assignment_id, one.worker_id, one.kind, dollars(one.reward_cents), when(one.submitted_at),
         when(one.auto_approve_at), page_text(one))
        for one in found.undecided[:MOST_SHOWN]
    ]  # fmt: skip
    shown = len(columns) if any(one.page_unfinished for one in found.undecided) else -1
    return Group(table(columns[:shown], [row[:shown] for row in rows]), *filter(None, [more_than(found.undecided)]))


def _were(some: Sequence[object]) -> str:
    return "was" if len(some) == 1 else "were"


def _decided(last: Sequence["DecidedWork"]) -> RenderableType:
    columns = ("assignment", "worker", "kind", "was", "when")
    return table(
        columns, [(one.assignment_id, one.worker_id, one.kind, one.status, when(one.decided_at)) for one in last]
    )


def _advice(found: "CrowdOverview") -> Iterator[str]:
    unfinished = sum(one.page_unfinished for one in found.undecided)
    if not unfinished:
        yield "`outfox crowd approve TASK --all` pays for all of it, `outfox crowd approve ASSIGNMENT…` for some"
        return
    if unfinished < len(found.undecided):
        yield "`outfox crowd approve TASK --all` pays for what is finished, `outfox crowd approve ASSIGNMENT…` for some"
    yield f"{unfinished_text(unfinished)}; {DECIDE}"


def _ends(ends: Sequence["LooseEnd"], most: int = MOST_SHOWN) -> RenderableType:
    columns = ("key", "what", "task", "costs", "assignment", "since", "why")
    rows = [
        (one.key, one.what, one.task, dollars(one.cents), one.assignment_id, when(one.since), one.why)
        for one in ends[:most]
    ]
    return Group(table(columns, rows), *filter(None, [more_than(ends, most)]))


def _astray(ends: Sequence["LooseEnd"]) -> RenderableType:
    rows = [(one.hit_id, one.task, dollars(one.cents), one.why) for one in ends[:FEW]]
    return Group(table(("HIT", "task", "reserved", "why"), rows), *filter(None, [more_than(ends, FEW)]))
