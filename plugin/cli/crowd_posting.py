"""`outfox crowd post`: what HITs would cost, then the HITs."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.money import dollars
from common.text import count
from plugin.cli.crowd_context import DRY_RUN, KIND, YES, CrowdContext, announce, ask, leave, open_crowd_context
from plugin.cli.crowd_texts import asking, when
from plugin.cli.hints import advice_for
from plugin.cli.output import json_option, show, table
from plugin.cli.progress import ProgressBar
from plugin.errors import PluginError
from plugin.settings import Settings
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.reconciliation import ReconciliationResult
    from round_manager.loop.quote import Quote

MOST_HITS = 100_000
MOST_ASSIGNMENTS = 1_000
HOURS_OF_A_YEAR = 365 * 24


@click.command()
@click.argument("task")
@KIND
@click.option(
    "--hits", type=click.IntRange(0, MOST_HITS), default=0, help="How many new ones; none sends only what is planned."
)
@click.option(
    "--assignments",
    type=click.IntRange(1, MOST_ASSIGNMENTS),
    default=1,
    show_default=True,
    help="Workers for each HIT; from 10 on, the fee on rewards is twice as high.",
)
@click.option(
    "--hours",
    type=click.IntRange(1, HOURS_OF_A_YEAR),
    help="How long workers can take them. Default: until the round closes.",
)
@click.option(
    "--check-page/--no-check-page",
    default=True,
    show_default=True,
    help="Look first whether the HITs' page and the model answer; not where only this machine cannot reach them.",
)
@YES
@DRY_RUN
@json_option
@click.pass_obj
def post(
    app: Application,
    task: str,
    kind: str | None,
    hits: int,
    assignments: int,
    hours: int | None,
    check_page: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Post HITs of a task's open round: the cost is shown first, and reserved before anything is sent.

    Safe to run again after a crash: it first asks the marketplace about what was in doubt, then sends what an earlier
    run planned and did not send, and plans new HITs only when none of those are left. Each HIT is posted once.
    """
    settings = app.settings
    if hits and kind is None:
        raise click.UsageError("say with --kind what the HITs ask for: create, validate or quiz")
    with open_crowd_context(settings) as context:
        # Asked first: with wrong keys, or a silent marketplace, nothing is planned.
        account = context.account_cents()
        waiting = _waiting(context, task, kind)
        continued = bool(hits and waiting["this"])
        if continued:
            left = f"an earlier run left {count(waiting['this'], 'HIT')} that may not be posted"
            announce(f"{left}: this run sees to those and plans no new ones; run it again for new ones")
            hits = 0
        warnings = []
        if check_page and (hits or waiting["all"]):
            to_create = _to_create(context, task if hits and kind == "create" else None)
            warnings = _check_page(settings, to_create, dry_run=dry_run)
        cleared = None if dry_run else _reconcile(context)
        order = _quote(context, task, kind, hits, assignments, hours, account) if hits and kind else None
        if dry_run:
            data = {
                "dry_run": True,
                "quote": _quoted(order),
                "planned": 0,
                "continued": continued,
                "waiting": waiting["all"],
                "warnings": warnings,
            }
            told = [*_told(order, waiting["all"], context), *(f"warning: {one}" for one in warnings)]
            show(data, Group(*told, "nothing was reserved or posted"))
            return
        if order:
            announce(Group(*_told(order, waiting["all"], context)))
            ask(f"post {count(hits, 'HIT')} for at most {dollars(order.cost.total_cents)}?", yes=yes)
            _plan(context, task, order)
        with ProgressBar() as progress:
            sent = context.services.poster.run(progress)
    data = {"dry_run": False, "quote": _quoted(order), "planned": hits, "continued": continued,
            "reconciled": cleared.found + cleared.sent_again if cleared else 0, **asdict(sent)}  # fmt: skip
    show(data, _outcome(data, task))
    refused = f"the marketplace refused {sent.refused}; `outfox crowd status` tells why" if sent.refused else ""
    leave(problem=sent.problem, wrong=refused)


def _check_page(settings: Settings, to_create: dict[str, int], *, dry_run: bool) -> list[str]:
    """Workers are not sent to a page that is not there or has no model to ask, and no money is bound for it.

    Whoever only asks what it would cost is warned: those are often not started yet.
    """
    from plugin.backend_client import check_backend
    from plugin.page_check import check_pages

    try:
        if check_pages(settings).are_ours:
            for task, number in to_create.items():
                check_backend(settings, task, number)
    except PluginError as error:
        if dry_run:
            return [f"{advice_for(error)}; --no-check-page skips this check"]
        raise type(error)(f"{error}; --no-check-page skips this check", hint=error.hint) from error
    return []


def _to_create(context: CrowdContext, task: str | None) -> dict[str, int]:
    """The open rounds, by their tasks, that HITs to create are to be posted for."""
    from round_manager.crowd.status import planned
    from round_manager.models import HitKind
    from round_manager.tasks.rounds import live_round
    from round_manager.tasks.tasks import find_task

    with context.store.read() as session:
        names = {one.task for one in planned(session, context.crowd.name) if one.kind is HitKind.CREATE}
        names |= {task} if task else set()
        rounds = {name: live_round(session, find_task(session, name).id) for name in sorted(names)}
    return {name: live.number for name, live in rounds.items() if live}


def _reconcile(context: CrowdContext) -> "ReconciliationResult":
    with ProgressBar() as progress:
        cleared = context.services.reconciler.run(progress)
    leave(problem=cleared.problem)
    return cleared


def _waiting(context: CrowdContext, task: str, kind: str | None) -> dict[str, int]:
    """HITs that were planned and may not be posted: all on this marketplace, and those of this task and kind."""
    from round_manager.crowd.status import planned
    from round_manager.tasks.tasks import find_task

    with context.store.read() as session:
        find_task(session, task)
        plans = planned(session, context.crowd.name)
    return {
        "all": sum(one.unsent + one.in_doubt for one in plans),
        "this": sum(one.unsent + one.in_doubt for one in plans if (one.task, one.kind.value) == (task, kind)),
    }


def _quote(
    context: CrowdContext, task: str, kind: str, hits: int, assignments: int, hours: int | None, account: int
) -> "Quote":
    from round_manager.loop.quote import open_round_of, quote, request_for
    from round_manager.models import HitKind
    from round_manager.money.budget import check_budget
    from round_manager.tasks.tasks import find_task

    with context.store.dry_run() as session:
        found = find_task(session, task)
        live = open_round_of(session, found)
        request = request_for(live, HitKind(kind), hits, assignments, hours, now=context.clock.now())
        made = quote(session, found, live, request, context.crowd, account, now=context.clock.now())
        check_budget(session, found, live, made.cost.total_cents)
    made.check_account()
    return made


def _plan(context: CrowdContext, task: str, order: "Quote") -> None:
    from round_manager.crowd.hit_planning import plan_hits
    from round_manager.loop.quote import open_round_of
    from round_manager.tasks.tasks import find_task

    if order.needs_qualification:
        with context.store.read() as session:
            found = find_task(session, task)
        context.services.access.qualification(found)
    with context.store.write() as session:
        live = open_round_of(session, find_task(session, task))
        plan_hits(session, live, order.request, context.crowd, now=context.clock.now())


def _told(order: "Quote | None", waiting: int, context: CrowdContext) -> list[RenderableType]:
    lines: list[RenderableType] = []
    if waiting:
        lines.append(f"{count(waiting, 'HIT')} of earlier runs come first: what does not stand there is sent")
    if order is None:
        return lines or ["no HIT waits to be sent; give --kind and --hits for new ones"]
    request, cost = order.request, order.cost
    each = f"{dollars(order.reward_cents)} each" + (
        f", and up to {dollars(order.possible_bonus_cents)} in bonuses" if order.possible_bonus_cents else ""
    )
    places = f"{count(request.hits, 'HIT')} of {count(request.assignments, 'assignment')} {asking(request.kind)}"
    rows = [
        ("work", f"{places}, for round {order.round} of {order.task}, until {when(request.expires_at)}"),
        ("pay", each),
        ("rewards", dollars(cost.reward_cents)),
        ("bonuses, at most", dollars(cost.bonus_cents)),
        ("fees, at most", dollars(cost.fee_cents)),
        ("total, at most", dollars(cost.total_cents)),
        ("of the account", f"{dollars(order.at_once_cents)} at once; it has {dollars(order.account_cents)}"),
        (f"round {order.round}", f"{dollars(order.round_figures.released_cents)} left; {order.round_figures}"),
        (order.task, f"{dollars(order.task_figures.released_cents)} left; {order.task_figures}"),
    ]
    lines.append(table(("", f"on {context.crowd.name}"), rows))
    lines += _votes(order)
    if order.fees_double:
        half = "HITs of 9 assignments or fewer cost half of that fee"
        lines.append(f"warning: with {request.assignments} assignments the fee on rewards is 40 %, not 20 %; {half}")
    return [*lines, *_who(order)]


def _votes(order: "Quote") -> list[str]:
    """What there is to validate, and whether more places are asked for than that fills."""
    wanted = order.votes_wanted
    if wanted is None:
        return []
    places = count(wanted.places_needed, "more place")
    needs = f"{count(wanted.votes, 'vote is', 'votes are')} lacking; {count(wanted.places_out, 'place')} for them"
    told = [f"{needs} out already, {places} needed"]
    if order.places_too_many:
        many = count(order.places_too_many, "place")
        told.append(f"warning: {many} too many: workers would find nothing to validate there, and return the HIT")
    return told


def _who(order: "Quote") -> list[str]:
    """Who can take the HITs."""
    if not order.needs_qualification:
        return []
    if order.request.kind.value != "quiz":
        needed = f"only workers with the qualification of {order.task} can take them"
        return [f"{needed}; `outfox crowd workers grant {order.task} WORKER` gives it, and so does passing the quiz"]
    paid = "who passes gets it, and failing is paid too"
    lines = [f"only workers without the qualification of {order.task} can take them; {paid}"]
    if order.request.hits > 1:
        often = count(order.quiz_attempts, "time")
        each = f"each HIT has one place for a worker, who may take the quiz {often} in all"
        lines.append(f"{each}; one HIT with more --assignments asks everybody once")
    return lines


def _quoted(order: "Quote | None") -> dict[str, Any] | None:
    if order is None:
        return None
    told = {key: value for key, value in asdict(order).items() if key not in ("request", "cost")}
    return {**told, **asdict(order.request), **{f"total_{key}": value for key, value in asdict(order.cost).items()},
            "total_cents": order.cost.total_cents, "fees_double": order.fees_double,
            "places_too_many": order.places_too_many}  # fmt: skip


def _outcome(data: dict[str, Any], task: str) -> str:
    parts = [f"{count(data['posted'], 'HIT')} posted"]
    parts += [f"{data['reconciled']} of an earlier run found there or sent again"] if data["reconciled"] else []
    parts += [f"{data[name]} {words}" for name, words in (
        ("refused", "refused, their money is free again"), ("in_doubt", "in doubt"), ("waiting", "still to be sent"),
    ) if data[name]]  # fmt: skip
    if data["in_doubt"] or data["waiting"]:
        return "; ".join(parts) + f"; `outfox crowd post {task}` goes on"
    if not (data["posted"] or data["refused"] or data["reconciled"]):
        return "nothing was waiting to be sent; give --kind and --hits for new HITs"
    return "; ".join(parts) + f"; `outfox crowd status {task}` shows how they do"
