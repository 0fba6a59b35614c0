"""`outfox round open`: what a round will post and reserve, shown before it is opened."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.errors import Hint
from common.text import count, dollars
from plugin.cli.crowd_context import announce, confirm
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import DRY_RUN, REGISTRY, TIMEOUT, WHY, YES
from plugin.cli.progress import ProgressBar
from plugin.hints import advice_for, with_command
from plugin.settings import Settings
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.loop.quote import OpeningQuote
    from round_manager.services.context import ServiceContext

# A backend looks for new tasks every two seconds, and then loads a model.
SECONDS_TO_LOAD = 15.0
NOT_SERVED = (
    "no process serves {task}, so workers get no verdicts: start `outfox ml-backend` without --tasks, or with {task} "
    "among them; if one is running, its log says what is wrong"
)
IN_HOUSE = click.option(
    "--in-house/--crowd",
    default=None,
    help="Label Studio only: nothing is posted or paid. Default: as the round before; the first one is for the crowd.",
)


@click.command("open")
@click.argument("task")
@click.option(
    "--version",
    "versions",
    multiple=True,
    metavar="VERSION",
    help="A model version to play against; may be repeated. Default: the task's pinned versions, else the newest.",
)
@IN_HOUSE
@WHY
@TIMEOUT
@REGISTRY
@YES
@DRY_RUN
@data_command
def open_next(
    app: Application,
    task: str,
    versions: tuple[str, ...],
    in_house: bool | None,
    why: str,
    timeout: float,
    where: str | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Open the task's next round against pinned model versions; safe to repeat.

    First, what will be posted on the crowd and reserved for it is shown. Nothing of an in-house round is posted: no
    HITs, no quiz; it needs no budget. If the task is connected to Label Studio, its users get verdicts for this round
    from then on.

    Exit code 3: not every serving process confirmed the versions; the round stays a draft.
    """
    from ml_backend.registry.rotation import wait_for_servers
    from round_manager.services.rounds import open_round, quote_opening

    with app.services() as services:
        quote = quote_opening(services, task, marketplace=app.settings.crowd_name, in_house=in_house)
    if dry_run:
        text = quote_text(quote, app.settings) if quote else f"a round of {task} is live already"
        show({"dry_run": True, "quote": quote_data(quote)}, Group(text, "nothing was opened, posted or reserved"))
        return
    confirm_opening(quote, app.settings, yes=yes)
    with app.services() as services, ProgressBar() as progress:
        models = app.model_deployment(timeout=timeout, registry=where, progress=progress)
        # The quote's choice, so that what was confirmed is what is opened.
        chosen = quote.in_house if quote else in_house
        opened = open_round(services, app.actor, task, versions, models=models, reason=why, in_house=chosen)
        servers = [one.name for one in wait_for_servers(models.registry, task, min(timeout, SECONDS_TO_LOAD))]
        followed = _follow(app, services, task)
    data = {"task": task, "round": opened.number, "versions": list(opened.versions), "already": opened.already}
    data |= {"in_house": opened.in_house}
    state = "is open already" if opened.already else "is open"
    in_label_studio = " in-house" if opened.in_house else ""
    text = f"round {opened.number} of {task} {state}{in_label_studio}, against {', '.join(opened.versions)}"
    if opened.paused:
        text = with_command(f"{text}; it is paused", Hint("resume_round", task=task))
    lines = [text, "" if servers else NOT_SERVED.format(task=task), followed]
    show({**data, "servers": servers, "label_studio": followed or None}, "\n".join(filter(None, lines)))


def confirm_opening(quote: "OpeningQuote | None", settings: Settings, *, yes: bool) -> None:
    """Show what opening the round leads to, and continue only if the user agrees; a free round needs no agreement."""
    if quote is None:
        return
    announce(quote_text(quote, settings))
    if quote.spends:
        confirm(f"open round {quote.round} of {quote.task}, which may cost {dollars(quote.most_cents)}?", yes=yes)


def quote_data(quote: "OpeningQuote | None") -> dict[str, Any] | None:
    """Return a quote as JSON-compatible data."""
    return asdict(quote) if quote else None


def quote_text(quote: "OpeningQuote", settings: Settings) -> RenderableType:
    """Return what opening a round leads to."""
    until = f"{count(quote.target_fooling, 'validated fooling example')}, or {count(quote.days, 'day')}"
    rows = [("until", until), ("contexts", f"{quote.contexts:,}")]
    if quote.in_house:
        rows.append(("who works on it", "people in Label Studio only: no HITs, no quiz, no pay"))
    elif not quote.spends:
        rows.append(("posted", "no HITs: pay.create_cents in task.yaml is 0"))
    else:
        by = "by the manager" if settings.has_crowd_keys else "once a manager has access keys; none are set here"
        rows += [
            ("posted first", f"HITs: {quote.first}; {by}"),
            ("reserved for them", f"{dollars(quote.reserved_cents)}, fees and possible bonuses included"),
            ("in all, at most", f"{dollars(quote.most_cents)}; `--in-house` posts nothing"),
        ]
    return table(("", f"round {quote.round} of {quote.task}"), rows)


def _follow(app: Application, services: "ServiceContext", task: str) -> str:
    """Point the task's connection in Label Studio at the round; a failure is reported, and the round stays open."""
    from round_manager.labelstudio.port import LabelStudioError

    connected = app.connected_label_studio(lambda: services)
    try:
        url = connected.follow(task) if connected and task in connected.tasks() else None
        return f"Label Studio uses the ML backend at {url} now" if url else ""
    except LabelStudioError as error:
        return f"Label Studio does not use this round's models yet; the manager retries: {advice_for(error)}"
