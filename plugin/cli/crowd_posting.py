"""`outfox crowd post` and `outfox crowd expire`: quoting, posting and ending HITs."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count, dollars
from plugin.cli.crowd_context import (
    KIND,
    CrowdContext,
    announce,
    asking,
    confirm,
    leave,
    open_crowd_context,
    unknown_text,
)
from plugin.cli.output import data_command, show, table, when
from plugin.cli.parameters import DRY_RUN, YES
from plugin.cli.progress import ProgressBar
from plugin.errors import PluginError
from plugin.hints import advice_for
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
    "--hits",
    type=click.IntRange(0, MOST_HITS),
    default=0,
    help="How many new HITs; without it, only planned HITs are sent.",
)
@click.option(
    "--assignments",
    type=click.IntRange(1, MOST_ASSIGNMENTS),
    default=1,
    help="Workers for each HIT; on MTurk, the fee on rewards doubles from 10 on.",
)
@click.option(
    "--hours",
    type=click.IntRange(1, HOURS_OF_A_YEAR),
    help="How long workers can accept them. Default: until the round closes.",
)
@click.option(
    "--check-page/--no-check-page",
    default=True,
    help="First check that the HITs' page and the model answer; turn it off if only this machine cannot reach them.",
)
@YES
@DRY_RUN
@data_command
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

    Safe to repeat after a crash: it first looks up what was in doubt, then sends what an earlier run planned and did
    not send, and plans new HITs only if none of those are left. Each HIT is posted once.
    """
    from round_manager.models import HitKind
    from round_manager.services.hits import creation_rounds, plan_hits, quote_hits, waiting_hits

    only = HitKind(kind) if kind else None
    if hits and only is None:
        raise click.UsageError("say with --kind what the HITs are for: create, validate or quiz")
    with open_crowd_context(app) as context:
        services, crowd = context.services, context.crowd
        # First: with wrong keys, or a marketplace that does not answer, nothing is planned.
        account = context.account_cents()
        waiting = waiting_hits(services, crowd, task, only)
        continued = bool(hits and waiting.same)
        if continued:
            left = f"an earlier run left {count(waiting.same, 'HIT')} that may not be posted"
            announce(f"{left}: this run posts those and plans no new ones; run it again for new ones")
            hits = 0
        warnings = []
        if check_page and (hits or waiting.all):
            rounds = creation_rounds(services, crowd, also=task if hits and kind == "create" else None)
            warnings = _check_page(app.settings, rounds, dry_run=dry_run)
        reconciled = None if dry_run else _reconcile(context)
        quote = None
        if hits and only:
            quote = quote_hits(
                services, crowd, task, only, hits=hits, assignments=assignments, account_cents=account, hours=hours
            )
        data: dict[str, Any] = {"dry_run": dry_run, "quote": _quote_data(quote), "continued": continued}
        if dry_run:
            data |= {"planned": 0, "waiting": waiting.all, "warnings": warnings}
            texts = [*_quote_texts(quote, waiting.all, context), *(f"warning: {one}" for one in warnings)]
            show(data, Group(*texts, "nothing was reserved or posted"))
            return
        if quote:
            announce(Group(*_quote_texts(quote, waiting.all, context)))
            confirm(f"post {count(hits, 'HIT')} for at most {dollars(quote.cost.total_cents)}?", yes=yes)
            plan_hits(services, context.actor, crowd, quote)
        with ProgressBar() as progress:
            sent = crowd.poster.run(progress)
    found = reconciled.found + reconciled.sent_again if reconciled else 0
    data |= {"planned": hits, "reconciled": found, **asdict(sent)}
    show(data, _outcome(data, task))
    refused = f"the marketplace refused {sent.refused}; see `outfox crowd status`" if sent.refused else ""
    leave(problem=sent.problem, wrong=refused)


def _check_page(settings: Settings, rounds: dict[str, int], *, dry_run: bool) -> list[str]:
    """Check that workers would see a page with a model; return problems as warnings in a dry run, or raise them."""
    from plugin.backend_client import check_backend
    from plugin.crowd import check_pages

    try:
        if check_pages(settings).are_ours:
            for task, number in rounds.items():
                check_backend(settings, task, number)
    except PluginError as error:
        if dry_run:
            return [f"{advice_for(error)}; --no-check-page skips this check"]
        raise type(error)(f"{error}; --no-check-page skips this check", hint=error.hint) from error
    return []


def _reconcile(context: CrowdContext) -> "ReconciliationResult":
    with ProgressBar() as progress:
        result = context.crowd.reconciler.run(progress)
    leave(problem=result.problem)
    return result


def _quote_texts(quote: "Quote | None", waiting: int, context: CrowdContext) -> list[RenderableType]:
    lines: list[RenderableType] = []
    if waiting:
        lines.append(f"{count(waiting, 'HIT')} of earlier runs come first: missing HITs are posted")
    if quote is None:
        return lines or ["no HIT is waiting to be posted; use --kind and --hits for new ones"]
    request, cost = quote.request, quote.cost
    each = f"{dollars(quote.reward_cents)} each" + (
        f", and up to {dollars(quote.possible_bonus_cents)} in bonuses" if quote.possible_bonus_cents else ""
    )
    places = f"{count(request.hits, 'HIT')} of {count(request.assignments, 'assignment')} {asking(request.kind)}"
    rows = [
        ("work", f"{places}, for round {quote.round} of {quote.task}, until {when(request.expires_at)}"),
        ("pay", each),
        ("rewards", dollars(cost.reward_cents)),
        ("bonuses, at most", dollars(cost.bonus_cents)),
        ("fees, at most", dollars(cost.fee_cents)),
        ("total, at most", dollars(cost.total_cents)),
        ("from the account", f"{dollars(quote.at_once_cents)} at once; it has {dollars(quote.account_cents)}"),
        (f"round {quote.round}", f"{dollars(quote.round_figures.released_cents)} left; {quote.round_figures}"),
        (quote.task, f"{dollars(quote.task_figures.released_cents)} left; {quote.task_figures}"),
    ]
    lines.append(table(("", f"on {context.crowd.name}"), rows))
    lines += _votes(quote)
    if quote.fees_double:
        fees = context.crowd.crowd.profile.fees
        raised = f"{fees.percent + fees.large_hit_percent} %, not {fees.percent} %"
        most = count(fees.assignments_before_fee_rises or 0, "assignment")
        text = f"with {request.assignments} assignments the fee on rewards is {raised}"
        lines.append(f"warning: {text}; it stays lower for HITs of at most {most}")
    return [*lines, *_who(quote)]


def _votes(quote: "Quote") -> list[str]:
    """Describe what there is to validate, and whether the request has too many places."""
    wanted = quote.votes_wanted
    if wanted is None:
        return []
    needs = f"{count(wanted.votes, 'vote is', 'votes are')} missing; {count(wanted.places_out, 'place')} for them"
    texts = [f"{needs} posted already, {count(wanted.places_needed, 'more place')} needed"]
    if quote.places_too_many:
        many = count(quote.places_too_many, "place")
        texts.append(f"warning: {many} too many: workers would find nothing to validate there, and return the HIT")
    return texts


def _who(quote: "Quote") -> list[str]:
    """Describe who can accept the HITs."""
    if not quote.needs_qualification:
        return []
    if quote.request.kind.value != "quiz":
        text = f"only workers with the qualification of {quote.task} can accept them"
        return [f"{text}; passing the quiz grants it, and so does `outfox crowd workers grant {quote.task} WORKER`"]
    paid = "passing grants it, and failing is paid too"
    lines = [f"only workers without the qualification of {quote.task} can accept them; {paid}"]
    if quote.request.hits > 1:
        times = count(quote.quiz_attempts, "time")
        each = f"each HIT has one place for a worker, who may take the quiz {times} in all"
        lines.append(f"{each}; one HIT with more --assignments asks everyone once")
    return lines


def _quote_data(quote: "Quote | None") -> dict[str, Any] | None:
    if quote is None:
        return None
    data = {key: value for key, value in asdict(quote).items() if key not in ("request", "cost")}
    return {**data, **asdict(quote.request), **{f"total_{key}": value for key, value in asdict(quote.cost).items()},
            "total_cents": quote.cost.total_cents, "places_too_many": quote.places_too_many}  # fmt: skip


def _outcome(data: dict[str, Any], task: str) -> str:
    parts = [f"{count(data['posted'], 'HIT')} posted"]
    parts += [f"{data['reconciled']} of an earlier run found or sent again"] if data["reconciled"] else []
    parts += [f"{data[name]} {words}" for name, words in (
        ("refused", "refused, their money is released"), ("in_doubt", "in doubt"), ("waiting", "still to be sent"),
    ) if data[name]]  # fmt: skip
    if data["in_doubt"] or data["waiting"]:
        return "; ".join(parts) + f"; continue with `outfox crowd post {task}`"
    if not (data["posted"] or data["refused"] or data["reconciled"]):
        return "nothing was waiting to be posted; use --kind and --hits for new HITs"
    return "; ".join(parts) + f"; follow them with `outfox crowd status {task}`"


@click.command()
@click.argument("task")
@click.argument("hits", nargs=-1, metavar="[HIT]...")
@KIND
@click.option("--all", "every", is_flag=True, help="Every HIT of the task, or of the kind.")
@YES
@DRY_RUN
@data_command
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
