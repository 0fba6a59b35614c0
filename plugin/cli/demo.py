"""`outfox demo`: everything on this machine, from one command."""

import signal
import threading
from dataclasses import asdict
from types import FrameType

import click

from plugin.cli.output import console, json_option, show
from plugin.cli.progress import ProgressBar
from plugin.settings import Settings

WELCOME = """
Ready after {seconds:.0f} s. As the owner of the task:

  open      {url}
  log in    {email}
  password  {password}

Open one of the {tasks} tasks, write a sentence and press Shift+Enter: the model answers at once, and tells whether you
fooled it. It is {version} ({accuracy:.1f} % on held-out sentences). What you submitted:

  outfox --home {home} task show sentiment

Ctrl-C ends the demo; what you did is kept in {home}.
"""


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Label Studio's port.")
@click.option("--until-ready", is_flag=True, help="End as soon as everything is ready.")
@json_option
@click.pass_obj
def demo(settings: Settings, port: int, until_ready: bool) -> None:
    """Start Label Studio with the sentiment task and a model that answers there, and tell how to log in."""
    with ProgressBar() as progress:
        progress.start(0, "Loading")
        from plugin.demo import Demo

        progress.finish()
        running = Demo(settings, port)
        try:
            ready = running.prepare(progress)
        except BaseException:
            running.stop()
            raise
    try:
        values = {**asdict(ready), "home": settings.home}
        show(values, WELCOME.format(**values))
        console().file.flush()
        if not until_ready:
            _wait_for_the_end()
    finally:
        running.stop()


def _wait_for_the_end() -> None:
    ended = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        ended.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, end)
    ended.wait()
    click.echo("ending the servers …", err=True)
