"""`outfox evaluate`: measure any models on the seed, on every round, on test suites and on files."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Group, RenderableType

from common.text import count
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import REGISTRY, RUNTIME, YES, find_named_pack
from plugin.cli.progress import ProgressBar
from plugin.evaluations import EvaluatedTask, EvaluationRequest, task_of_archives, task_of_pack, write_rows
from plugin.evaluations import evaluate as run_evaluation
from plugin.wiring import Application
from templates import PackNotFound

if TYPE_CHECKING:
    from ml_backend.targets.label_mapping import LabelMapping
    from round_manager.evaluation.candidates import Confirm
    from round_manager.services.evaluations import EvaluationReport, EvaluationRow


Command = TypeVar("Command", bound=Callable[..., Any])
SEED = "seed"

_OPTIONS = (
    click.option(
        "--on",
        "data",
        multiple=True,
        metavar="DATA,…",
        help="seed, rounds, a round, suites, a suite or a file. Default: seed,rounds.",
    ),
    click.option("--axes", multiple=True, metavar="AXIS,…", help="Axes, or `all`. Default: performance,calibration."),
    click.option("--labels", metavar="THEIRS=OURS,…", help="What the labels of Hugging Face and ONNX models mean."),
    click.option("--slices", metavar="COLUMN,…", help="Columns of files by whose values results are split up."),
    click.option("--name", help="The name of the model, if there is only one; else write name=model."),
    YES,
    RUNTIME,
    REGISTRY,
)


def evaluation_options(command: Command) -> Command:
    """Add the options of an evaluation to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(no_args_is_help=True)
@click.argument("task")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@evaluation_options
@click.option("--order", is_flag=True, hidden=True, help="MODEL is an order, which this job of a cluster carries out.")
@data_command
def evaluate(
    app: Application,
    /,
    task: str,
    models: tuple[str, ...],
    data: tuple[str, ...],
    order: bool,
    **options: Any,
) -> None:
    """Measure models on the held-out rows of the seed and of every frozen round, on test suites and on files.

    A MODEL is a version, a folder with a Hugging Face or ONNX model, a model of the hub, or a CSV or Parquet file with
    predictions; `name=MODEL` gives it a name. Results are stored next to the archives. What is stored already is not
    measured again, and an evaluation that was stopped continues where it was.
    """
    if order:
        _carry_out(app, task, *models)
        return
    report = evaluate_models(app, _task(app, task), models, _parts(data), **options)
    show({"results": report.as_data(), "notes": list(report.notes)}, summary(report))


@click.command("evaluate", no_args_is_help=True)
@click.argument("pack")
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@evaluation_options
@click.option("--rows", metavar="FILE", help="The same as --on FILE.")
@click.option("--version", metavar="VERSION", help="A trained version; default, without a MODEL: the newest.")
@data_command
def evaluate_version(
    app: Application,
    /,
    pack: str,
    models: tuple[str, ...],
    data: tuple[str, ...],
    rows: str | None,
    version: str | None,
    **options: Any,
) -> None:
    """Measure models as `outfox evaluate` does; by default the newest version on the held-out rows of the seed."""
    from ml_backend.artefact import version_folder

    task = _task(app, pack)
    if version or not models:
        models = (*models, str(version_folder(app.settings.models_path, task.spec.name, version)))
    chosen = [*_parts(data), *([rows] if rows else [])]
    report = evaluate_models(app, task, models, chosen or [SEED], **options)
    about = {"results": report.as_data(), "notes": list(report.notes)}
    show({**about, **report.metrics()}, summary(report))


@click.command("rows", no_args_is_help=True)
@click.argument("task")
@_OPTIONS[0]
@click.option("--axes", multiple=True, metavar="AXIS,…", help="Also write the copies for robustness or fairness.")
@click.option("--to", "path", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The file to write.")
@data_command
def rows_to_predict(app: Application, task: str, data: tuple[str, ...], axes: tuple[str, ...], path: Path) -> None:
    """Write the held-out rows for a model that runs elsewhere, as JSON lines: `id` and the texts, no right answers.

    Predict each row, and pass the ids and predictions to `outfox evaluate` as CSV or Parquet.
    """
    with ProgressBar() as progress:
        rows = write_rows(app, _task(app, task), _parts(data), _parts(axes), path, progress)
    show({"file": str(path), "rows": rows}, f"{count(rows, 'row')} in {path}")


def evaluate_models(
    app: Application,
    task: EvaluatedTask,
    models: Sequence[str],
    data: Sequence[str],
    axes: Sequence[str],
    labels: str | None,
    slices: str | None,
    name: str | None,
    runtime: str,
    where: str | None,
    *,
    yes: bool,
) -> "EvaluationReport":
    """Run an evaluation with these options, and show its progress."""
    if name is not None and len(models) != 1:
        raise click.UsageError("--name is for one model; write name=MODEL for several")
    request = EvaluationRequest(
        models=[f"{name}={models[0]}"] if name else models,
        data=data,
        axes=_parts(axes),
        labels=label_mapping(labels),
        slices=_parts([slices or ""]),
        runtime=runtime,
        registry=where,
    )
    with ProgressBar() as progress:
        return run_evaluation(app, task, request, _confirm(yes=yes), progress)


def _carry_out(app: Application, task: str, order: str) -> None:
    from plugin.evaluation_jobs import carry_out

    carry_out(app, task, order, click.get_current_context().find_root().params["config"])


def _task(app: Application, name: str) -> EvaluatedTask:
    try:
        return task_of_pack(find_named_pack(app, name))
    except PackNotFound:
        return task_of_archives(app, name)


def label_mapping(written: str | None) -> Mapping[str, str]:
    """Return the mapping that `--labels` gives."""
    pairs = [part.partition("=") for part in _parts([written or ""])]
    if any(not theirs.strip() or not ours.strip() for theirs, _, ours in pairs):
        raise click.UsageError("--labels must be written THEIRS=OURS, for example LABEL_0=negative,LABEL_1=positive")
    return {theirs.strip(): ours.strip() for theirs, _, ours in pairs}


def summary(report: "EvaluationReport") -> RenderableType:
    """Return the figures of all rows as a table, one line for each model, data set and axis."""
    columns = ("model", "data", "axis", "metric", "rows", "value", "low to high")
    rows = [
        (one.model, one.data, _words(one.axis), _words(one.metric), one.n, _shown(one.value), _interval(one))
        for one in report.rows
        if not one.slice
    ]
    stored = f"{report.measured} results measured, {report.cached} were stored before"
    return Group(table(columns, rows), stored, *report.notes)


def _interval(row: "EvaluationRow") -> str:
    return "" if row.low is None or row.high is None else f"{_shown(row.low)} to {_shown(row.high)}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: float) -> str:
    return f"{value:.1f}" if abs(value) < 1_000 else f"{value:,.0f}"


def _parts(values: Sequence[str]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _confirm(*, yes: bool) -> "Confirm":
    """Return what asks whether the labels of a model mean what their names suggest."""

    def ask(name: str, mapping: "LabelMapping") -> bool:
        if yes or not sys.stdin.isatty():
            return yes
        return click.confirm(f"The labels of {name} probably mean {mapping}. Is that right?", err=True)

    return ask
