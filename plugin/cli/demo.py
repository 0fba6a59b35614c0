"""`outfox demo`: runs everything on this machine, from one command."""

import signal
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Group

from plugin.cli.output import console, data_command, show, table, wants_json
from plugin.cli.progress import ProgressBar, stopped_by_signals
from plugin.wiring import Application

if TYPE_CHECKING:
    from plugin.demo.demo import Demo
    from plugin.demo.servers import Watch
    from plugin.demo.simulation import SimulationOptions
    from plugin.demo.welcome import Ready
    from plugin.simulation.results import Results

POLL_SECONDS = 0.5
EXAMPLES = 20
# Enough to see a difference between two rounds.
SIMULATED_EXAMPLES = 100
# `head` trains in seconds; `full` takes a minute and learns more from a round.
MODE, SIMULATED_MODE = "head", "full"


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8080, help="Label Studio's port.")
@click.option("--until-ready", is_flag=True, help="Exit as soon as everything is ready, or the report is written.")
@click.option(
    "--examples",
    type=click.IntRange(1, 10_000),
    show_default=f"{EXAMPLES}, or {SIMULATED_EXAMPLES} with --simulate",
    help="Verified fooling examples that end a round.",
)
@click.option("--simulate", is_flag=True, help="Run rounds with a simulated crowd, and report the results.")
@click.option("--rounds", type=click.IntRange(1, 20), default=2, help="Number of simulated rounds.")
@click.option("--workers", type=click.IntRange(7, 500), default=20, help="Number of simulated workers.")
@click.option(
    "--mode",
    type=click.Choice(["full", "head"]),
    show_default=f"{MODE}, or {SIMULATED_MODE} with --simulate",
    help="How models are trained: the whole model, or its last layer only.",
)
@click.option("--seed", default="1", help="Seed of the simulated workers and sentences.")
@data_command
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
    """Start everything with the sentiment task, and show how to use it as owner, worker and researcher.

    Label Studio, a marketplace, the ML backend, the web app and the manager run until Ctrl-C; a process that exits is
    restarted. The next start continues where this one ended. With --simulate, programs work on the marketplace in place
    of people, and the results are written to the folder `report` in the home.
    """
    # A SIGTERM during the start stops what was started, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ProgressBar() as progress:
        progress.start(0, "Loading")
        from plugin.demo.demo import Demo, DemoOptions

        progress.finish()
        target = examples or (SIMULATED_EXAMPLES if simulate else EXAMPLES)
        trained = mode or (SIMULATED_MODE if simulate else MODE)
        options = DemoOptions(target, trained, workers if simulate else 0, rounds if simulate else None)
        running = Demo(app, port, options)
        try:
            ready = running.prepare(progress)
        except BaseException:
            running.stop()
            raise
    with stopped_by_signals() as stop:
        try:
            watch = running.watch(lambda text: click.echo(text, err=True))
            if not simulate or not wants_json():
                _welcome(ready)
            if simulate:
                from plugin.demo.simulation import SimulationOptions

                _simulate(running, ready, watch, stop, SimulationOptions(rounds, workers, seed))
            while not until_ready and not stop.wait(POLL_SECONDS):
                watch.check()
        finally:
            click.echo("stopping the servers …", err=True)
            running.stop()


def _welcome(ready: "Ready") -> None:
    from plugin.demo.welcome import welcome

    show(asdict(ready), welcome(ready))
    console().file.flush()


def _simulate(
    running: "Demo", ready: "Ready", watch: "Watch", stop: threading.Event, options: "SimulationOptions"
) -> None:
    from plugin.demo.simulation import Simulation
    from plugin.simulation.report import report_json

    with ProgressBar() as progress:
        report = Simulation(running, options, stop).run(watch, progress)
    if report is None:
        return
    data = {"report": report_json(report.results), "files": list(map(str, report.files))}
    show({**asdict(ready), **data}, report_text(report.results, report.files))
    console().file.flush()


def report_text(results: "Results", files: Sequence[Path]) -> Group:
    """Return both tables of the report with their notes, as wide as the terminal."""
    from plugin.simulation import report

    rounds, accuracy = report.rounds_table(results), report.accuracy_table(results)
    blocks = (
        report.title_of(results),
        table(rounds.columns, rounds.rows),
        report.ROUNDS_NOTE,
        report.ACCURACY,
        table(accuracy.columns, accuracy.rows),
        report.ACCURACY_NOTE,
        report.WARNING,
    )
    found = "\n".join(["The report, with a plot, is in:", *(f"  {file}" for file in files)])
    return Group(*(part for block in blocks for part in ("", block)), "", found)
