"""`outfox manage`: runs the steps that rounds need, again and again."""

import threading
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from plugin.cli.output import every_text, json_option, show, table
from plugin.cli.parameters import DRY_RUN, MODE, WHOLE_NUMBER
from plugin.cli.progress import stopped_by_signals
from plugin.hints import hint_data
from plugin.wiring import Application, ManagerOptions

if TYPE_CHECKING:
    from plugin.manager.loop import Manager, StepOutcome
    from plugin.manager.step import ManagerContext

STEP_FAILED = 1
POLL_SECONDS = 0.5


@click.command()
@click.option("--once", is_flag=True, help="Run one pass, for cron; wait for the jobs that it starts here.")
@click.option("--task", metavar="TASK", help="Only this task's rounds; payments are made for all tasks.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 86_400),
    default=30.0,
    metavar="SECONDS",
    help="Pause between two passes; an event of the marketplace ends it early.",
)
@DRY_RUN
@click.option("--skip", multiple=True, metavar="STEP", help="A step to skip; --dry-run lists the steps.")
@click.option("--rounds", type=WHOLE_NUMBER, metavar="N", help="The last round to open.")
@MODE
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3_600),
    default=60.0,
    metavar="SECONDS",
    help="How long serving processes may take to confirm a new round's version.",
)
@json_option
@click.pass_context
def manage(
    context: click.Context,
    once: bool,
    task: str | None,
    every: float,
    dry_run: bool,
    skip: tuple[str, ...],
    rounds: int | None,
    mode: str | None,
    timeout: float,
) -> None:
    """Run the rounds: collect work, decide, approve, pay, post HITs, end rounds, freeze, train, open the next.

    Each step is small and can be repeated: if the manager is killed, the next one continues, and two can run at once.
    An error in one step or task does not stop the others. SIGTERM stops it after the current step; a training that it
    started on this machine is stopped too, and started again by the next manager. Open round 1 yourself: `outfox round
    open TASK`.

    With --once, exit code 1: a step failed.

    Example, every five minutes by cron: outfox manage --once
    """
    from plugin.manager.loop import STEP_NAMES, STEPS, Manager

    app: Application = context.obj
    unknown = [name for name in skip if name not in STEP_NAMES]
    if unknown:
        raise click.UsageError(f"unknown step {unknown[0]}; the steps are {', '.join(STEP_NAMES)}")
    options = ManagerOptions(_global_arguments(context), mode, rounds, timeout)
    with app.manager_context(options) as manager_context:
        _check_task(manager_context, task)
        steps = [step for step in STEPS if step.name not in skip]
        if dry_run:
            _show([*Manager(manager_context, steps, task=task).preview()], dry_run=True)
            return
        with stopped_by_signals() as stop:
            manager = Manager(manager_context, steps, task=task, stop=stop)
            if once:
                _once(manager, manager_context, stop)
            else:
                _run(manager, app, every, stop)


def _global_arguments(context: click.Context) -> list[str]:
    """Return the arguments before the command's name; training processes get the same."""
    given = context.find_root().params
    return [text for name in ("home", "config") if given.get(name) for text in (f"--{name}", str(given[name]))]


def _check_task(context: "ManagerContext", task: str | None) -> None:
    from round_manager.services.workers import check_task

    if task is not None:
        check_task(context.services, task)


def _once(manager: "Manager", context: "ManagerContext", stop: threading.Event) -> None:
    outcomes = manager.once()
    # A later pass finds trainings on a cluster: managers that waited for one would pile up.
    jobs = (context.submissions,) if context.trainings.durable else (context.trainings, context.submissions)
    while any(one.running for one in jobs) and not stop.is_set():
        stop.wait(POLL_SECONDS)
        if any(one.has_ended for one in jobs):
            outcomes += manager.once()
    _show(outcomes, dry_run=False)
    if any(outcome.error for outcome in outcomes):
        raise click.exceptions.Exit(STEP_FAILED)


def _run(manager: "Manager", app: Application, every: float, stop: threading.Event) -> None:
    from plugin.manager.loop import PassTimer

    settings = app.settings
    click.echo(f"managing {every_text(every)} (Ctrl-C stops it)")
    market = (
        settings.crowd_url if settings.has_crowd_keys else "none, because crowd_key_id or crowd_key_secret is empty"
    )
    click.echo(f"marketplace: {market}")
    studio = settings.label_studio_url if settings.label_studio_token else "none, because label_studio_token is empty"
    click.echo(f"Label Studio: {studio}")
    manager.run(PassTimer(stop, every, app.event_queue()).wait)
    click.echo("stopped")


def _show(outcomes: list["StepOutcome"], *, dry_run: bool) -> None:
    data = [
        {
            "step": one.step,
            "task": one.task or None,
            "would" if dry_run else "did": one.result.done or None,
            "waits": one.result.waits or None,
            "error": one.error or None,
            "retry": one.retry,
            "code": one.code or None,
            "hint": hint_data(one.hint),
        }
        for one in outcomes
    ]
    show(data, _text(data, "would" if dry_run else "did"))


def _text(data: list[dict[str, Any]], verb: str) -> RenderableType:
    rows = []
    for one in data:
        text = one["error"] or one[verb] or (f"waiting: {one['waits']}" if one["waits"] else "")
        if text or verb == "would":
            rows.append((one["step"], one["task"] or "", f"failed: {text}" if one["error"] else text or "nothing"))
    return table(("step", "task", "would do" if verb == "would" else "did"), rows) if rows else "nothing to do"
