"""`outfox crowd follow`: collects work as it is submitted."""

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
    """Collect submitted work until Ctrl-C: soon after each event, and at regular intervals.

    Events come from the SQS queue of the setting crowd_queue_url. They are hints: nothing is lost if one does not
    arrive, and nothing is done twice if one arrives twice.
    """
    settings = app.settings
    from round_manager.crowd.collection import CollectionLoop

    stop = threading.Event()
    for one in STOPS:
        signal.signal(one, lambda *_: stop.set())
    events = app.event_queue()
    sources = "events and " if events else ""
    with open_crowd_context(app) as context:
        context.account_cents()  # Report wrong keys now, and not in a log every minute.
        click.echo(f"following {settings.crowd_url}: {sources}{every_text(every)} (press Ctrl-C to stop)")
        CollectionLoop(context.crowd.collector, events, every=every, pause=stop.wait).run(_report)
    click.echo("stopped")


def _report(found: "CollectionResult") -> None:
    parts = [f"{count(found.works, 'new assignment')}"] if found.works else []
    parts += [f"{count(found.finished, 'HIT')} finished"] if found.finished else []
    click.echo(", ".join(parts))
