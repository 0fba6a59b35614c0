"""`outfox demo`: everything on this machine, from one command."""

import signal
import threading
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING

import click

from plugin.cli.output import console, json_option, show, wants_json
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application

if TYPE_CHECKING:
    from plugin.demo.demo import Demo
    from plugin.demo.servers import Watch
    from plugin.demo.welcome import Ready

SECONDS_BETWEEN_LOOKS = 0.5
EXAMPLES = 20
# So many that a difference between two rounds can be seen.
SIMULATED_EXAMPLES = 100
# The one trains in seconds; the other takes a minute, and learns what a round has to teach.
MODE, SIMULATED_MODE = "head", "full"


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Label Studio's port.")
@click.option("--until-ready", is_flag=True, help="End as soon as everything is ready, or the report written.")
@click.option(
    "--examples",
    type=click.IntRange(1, 10_000),
    show_default=f"{EXAMPLES}, or {SIMULATED_EXAMPLES} with --simulate",
    help="Validated fooling examples that end a round.",
)
@click.option("--simulate", is_flag=True, help="Have a simulated crowd play rounds, and report what came of it.")
@click.option(
    "--rounds", type=click.IntRange(1, 20), default=2, show_default=True, help="Rounds that it plays, in all."
)
@click.option("--workers", type=click.IntRange(7, 500), default=20, show_default=True, help="How many workers it has.")
@click.option(
    "--mode",
    type=click.Choice(["full", "head"]),
    show_default=f"{MODE}, or {SIMULATED_MODE} with --simulate",
    help="How models are trained: all of the model, or its last layer only.",
)
@click.option("--seed", default="1", show_default=True, help="Another seed gives other workers and sentences.")
@json_option
@click.pass_obj
def demo(
    app: Application,
    port: int,
    until_ready: bool,
    examples: int | None,
    simulate: bool,
    rounds: int,
    workers: int,
    mode: str | None,
    seed: str,
) -> None:
    """Start everything with the sentiment task in it, and tell how to use it as owner, worker and researcher.

    Label Studio, a marketplace, the ML backend, the web app and the manager run until Ctrl-C; one that dies is started
    again. The next start finds everything as it was. With --simulate, programs work on the marketplace in place of
    people; what they came to is in `report` in the home.
    """
    # Whoever ends us while we start: what was started ends with us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ProgressBar() as progress:
        progress.start(0, "Loading")
        from plugin.demo.demo import Demo, DemoTerms

        progress.finish()
        target = examples or (SIMULATED_EXAMPLES if simulate else EXAMPLES)
        trained = mode or (SIMULATED_MODE if simulate else MODE)
        terms = DemoTerms(target, trained, workers if simulate else 0, rounds if simulate else None)
        running = Demo(app, port, terms)
        try:
            ready = running.prepare(progress)
        except BaseException:
            running.stop()
            raise
    ended = _ending()
    try:
        watch = running.watch(lambda text: click.echo(text, err=True))
        if not simulate or not wants_json():
            _welcome(ready)
        if simulate:
            _simulate(running, ready, watch, ended, rounds=rounds, workers=workers, seed=seed)
        while not until_ready and not ended.wait(SECONDS_BETWEEN_LOOKS):
            watch.look()
    finally:
        click.echo("ending the servers …", err=True)
        running.stop()


def _welcome(ready: "Ready") -> None:
    from plugin.demo.welcome import welcome

    show(asdict(ready), welcome(ready))
    console().file.flush()


def _simulate(
    running: "Demo",
    ready: "Ready",
    watch: "Watch",
    ended: threading.Event,
    *,
    rounds: int,
    workers: int,
    seed: str,
) -> None:
    from plugin.cli.simulation_report import shown_report
    from plugin.demo.simulation import Simulation, Wanted
    from plugin.simulation.report import report_json

    with ProgressBar() as progress:
        reported = Simulation(running, Wanted(rounds, workers, seed), ended).play(watch, progress)
    if reported is None:
        return
    data = {"report": report_json(reported.results), "files": list(map(str, reported.files))}
    show({**asdict(ready), **data}, shown_report(reported.results, reported.files))
    console().file.flush()


def _ending() -> threading.Event:
    """Set by Ctrl-C, and by whoever ends the process."""
    ended = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        ended.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, end)
    return ended
