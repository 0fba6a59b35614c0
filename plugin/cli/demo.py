"""`outfox demo`: runs everything on this machine, from one command."""

import signal
import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click
from rich.console import Group

from common.progress import show_waiting
from plugin.cli.output import console, data_command, escape_controls, show, table, wants_json
from plugin.cli.progress import ProgressBar, stopped_by_signals
from plugin.wiring import Application

if TYPE_CHECKING:
    from plugin.demo.demo import Demo, DemoOptions
    from plugin.demo.servers import Watch
    from plugin.demo.simulation import SimulationOptions
    from plugin.demo.visit import Visit
    from plugin.demo.welcome import Ready
    from plugin.simulation.results import Results

SIMULATED_TITLE = "Simulated worker"
# The quiz is open for the six colleagues, the visitor and two people more.
RECRUITS = 9
EXAMPLES, ALONE_EXAMPLES = 8, 20
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
    show_default=f"{EXAMPLES}; {ALONE_EXAMPLES} with --no-crowd, {SIMULATED_EXAMPLES} with --simulate",
    help="Verified fooling examples that end a round.",
)
@click.option("--crowd/--no-crowd", default=True, help="Let simulated colleagues write and validate beside you.")
@click.option(
    "--minutes", type=click.FloatRange(0.1, 600), default=4.0, help="How long the colleagues take to fill a round."
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
    crowd: bool,
    minutes: float,
    simulate: bool,
    rounds: int,
    workers: int,
    mode: str | None,
    seed: str,
) -> None:
    """Start everything with the sentiment task, and show how to use it as owner, worker and researcher.

    Label Studio, a marketplace, the ML backend, the web app and the manager run until Ctrl-C; a process that exits is
    restarted. The next start continues where this one ended. Six simulated colleagues (programs) write and validate
    beside you, so that your example is validated and paid and the next round opens within about ten minutes. With
    --simulate, programs work on the marketplace in place of people, and the results are written to the folder `report`
    in the home.
    """
    # A SIGTERM during the start stops what was started, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with_colleagues = crowd and not simulate
    with ProgressBar() as progress:
        module = show_waiting(progress, "Loading Outfox", lambda: import_module("plugin.demo.demo"))
        target = examples or (SIMULATED_EXAMPLES if simulate else EXAMPLES if crowd else ALONE_EXAMPLES)
        trained = mode or (SIMULATED_MODE if simulate else MODE)
        recruits = workers if simulate else RECRUITS if crowd else 0
        options = module.DemoOptions(target, trained, recruits, rounds if simulate else None, with_colleagues)
        if simulate:
            options = replace(options, crowd_title=SIMULATED_TITLE)
    running: Demo = _demo(app, port, module, options)
    ready: Ready | None = None
    try:
        with ProgressBar() as progress:
            ready = running.prepare(progress)
        visit = _visit(running, ready, minutes if with_colleagues else None)
        if not simulate or not wants_json():
            _welcome(ready)
        with ProgressBar() as progress:
            running.wait_for_manager(progress)
        with stopped_by_signals() as stop:
            watch = running.watch(_report)
            if simulate:
                from plugin.demo.simulation import SimulationOptions

                _simulate(running, ready, watch, stop, SimulationOptions(rounds, workers, seed))
            if not until_ready and not stop.is_set():
                visit.run(watch, stop)
    finally:
        running.stop(_report)
        if ready is not None:
            _report(f"stopped; everything is kept in {ready.home} for the next start")


def _demo(app: Application, port: int, module: ModuleType, options: "DemoOptions") -> "Demo":
    running: Demo = module.Demo(app, port, options)
    return running


def _visit(running: "Demo", ready: "Ready", minutes: float | None) -> "Visit":
    """Return a visit that knows the state in which the visitor finds the demo."""
    from plugin.demo.visit import Visit

    visit = Visit(running, ready, minutes, _report)
    visit.begin()
    return visit


def _report(text: str) -> None:
    click.echo(escape_controls(text), err=True)


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
