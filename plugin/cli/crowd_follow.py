"""`outfox crowd follow`: work is read as it comes in."""

import signal
import threading
from typing import TYPE_CHECKING

import click

from common.text import count
from plugin.cli.crowd_context import open_crowd_context
from plugin.cli.crowd_texts import every_text
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.collection import CollectionResult

STOPS = (signal.SIGINT, signal.SIGTERM)


@click.command()
@click.option(
    "--every",
    type=click.FloatRange(1, 86_400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How often everything unfinished is read without an event.",
)
@click.pass_obj
def follow(app: Application, every: float) -> None:
    """Read what workers hand in, until Ctrl-C: soon after an event, and every so often without one.

    Events come from the SQS queue of the setting crowd_queue_url. They are hints: nothing is lost where one does not
    arrive, and nothing is done twice where one does.
    """
    settings = app.settings
    from round_manager.crowd.collection import CollectionLoop

    stop = threading.Event()
    for one in STOPS:
        signal.signal(one, lambda *_: stop.set())
    events = app.event_queue()
    heard = "events and " if events else ""
    with open_crowd_context(settings) as context:
        context.account_cents()  # Wrong keys are told now, and not to a log every minute.
        click.echo(f"following {settings.crowd_url}: {heard}{every_text(every)} (Ctrl-C ends it)")
        CollectionLoop(context.services.collector, events, every=every, pause=stop.wait).run(_tell)
    click.echo("ended")


def _tell(found: "CollectionResult") -> None:
    parts = [f"{count(found.works, 'new assignment')}"] if found.works else []
    parts += [f"{count(found.finished, 'HIT')} finished"] if found.finished else []
    click.echo(", ".join(parts))
