"""`outfox model`: train, query and evaluate the models of a task, and choose those that serve."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count
from plugin.cli.evaluate import evaluate_version
from plugin.cli.model_training import cancel, jobs, retrain
from plugin.cli.output import data_command, data_table, show, table
from plugin.cli.parameters import LARGEST_NUMBER, MODE, PACK, RUNTIME, task_pack
from plugin.cli.progress import ProgressBar
from plugin.cli.rotation import pins, publish, rollback, rotate, verify
from plugin.errors import InputFileError
from plugin.wiring import Application
from templates import Pack, TaskSpec
from templates.rows import read_seed
from templates.texts import InvalidJsonRow, read_json_row

if TYPE_CHECKING:
    from round_manager.learning.lineage import Ancestor

VERSION = click.option("--version", "version", metavar="VERSION", help="A model version; default: the newest.")


@click.group(commands=[rotate, rollback, pins, verify, publish, retrain, jobs, cancel, evaluate_version])
def model() -> None:
    """Train, query and evaluate target models, and choose those that serve."""


@model.command()
@click.argument("pack", type=PACK)
@MODE
@click.option("--rows", type=click.Path(path_type=Path), help="Train on this JSONL file instead of the pack's seed.")
@click.option("--parent", metavar="VERSION", help="Start from this version instead of the base model.")
@click.option("--epochs", type=click.IntRange(1, 100), help="Maximum passes over the data. Default: the pack's.")
@click.option("--seed", type=click.IntRange(0, LARGEST_NUMBER), help="Random seed. Default: the pack's.")
@data_command
def train(
    app: Application,
    pack: Pack,
    mode: str | None,
    rows: Path | None,
    parent: str | None,
    epochs: int | None,
    seed: int | None,
) -> None:
    """Train a model version of a task; Ctrl-C stops it and writes nothing."""
    from ml_backend.artefact import version_folder
    from ml_backend.training import train as train_model

    changed = {name: value for name, value in (("epochs", epochs), ("seed", seed)) if value is not None}
    with ProgressBar() as progress:
        trained = train_model(
            pack,
            app.settings.models_path,
            mode=mode,
            rows=_rows(rows, pack.spec) if rows else None,
            parent=version_folder(app.settings.models_path, pack.spec.name, parent) if parent else None,
            settings=pack.spec.training.model_copy(update=changed),
            cache=app.settings.cache_path / "embeddings",
            progress=progress,
        )
    data = {"version": trained.manifest.version, "folder": str(trained.directory), "metrics": trained.metrics}
    serving = trained.manifest.serving
    figures = f"{_figures(trained.metrics)} ({_serves(trained.manifest)})"
    text = f"{trained.manifest.version} in {trained.seconds:.0f} s: {figures}\n{trained.directory}"
    more = {"serving": serving.model_dump() if serving else None, "seconds": round(trained.seconds, 1)}
    show({**data, **more}, text)


@model.command()
@click.argument("pack", type=PACK)
@click.argument("fields", nargs=-1, metavar="[FIELD=TEXT]...")
@click.option("--rows", type=click.File("rb"), help="Read rows from a JSONL file; - for standard input.")
@click.option("--target", help="The right answer; the verdict is then printed too.")
@VERSION
@RUNTIME
@data_command
def predict(
    app: Application,
    pack: Pack,
    fields: tuple[str, ...],
    rows: Any,
    target: str | None,
    version: str | None,
    runtime: str,
) -> None:
    """Query a model, for example: outfox model predict sentiment text="What a day." --target negative."""
    from ml_backend.artefact import version_folder
    from ml_backend.targets.loading import load_target
    from ml_backend.verdict import judge

    inputs = _read_rows(rows, pack.spec) if rows else [_from_arguments(fields, pack.spec)]
    model = load_target(version_folder(app.settings.models_path, pack.spec.name, version), runtime)
    predictions = model.predict(inputs)
    found: list[dict[str, Any]] = []
    for row, prediction in zip(inputs, predictions, strict=True):
        verdict = judge(pack.spec, row, [(model.version, prediction)], target, now=app.clock.now())
        output = verdict.shown
        confidence = round(output.confidence, 4)
        found.append({**row, "prediction": output.prediction, "confidence": confidence, **_verdict_data(verdict)})
    columns = ("prediction", "confidence", "fooled", *pack.spec.model_input)
    show(found, data_table(found, columns))


@model.command("list")
@click.argument("task", required=False)
@data_command
def list_models(app: Application, task: str | None) -> None:
    """List the trained model versions, newest first."""
    from ml_backend.artefact import list_versions

    found = list_versions(app.settings.models_path, task)
    columns = ("task", "version", "mode", "serves", "parent", "trained", "figures")
    rows = [
        (one.task, one.version, one.mode, _serves(one), one.parent or "", one.created_at[:19], _figures(one.metrics))
        for one in found
    ]
    nothing = f"{task} has no model yet" if task else "no models yet"
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    show(data, data_table(data) if data else f"{nothing}; `outfox model train {task or 'PACK'}` trains one")


def _rows(path: Path, spec: TaskSpec) -> Any:
    if not path.is_file():
        raise InputFileError(f"file {path} does not exist")
    return read_seed(path, spec)


def _from_arguments(arguments: tuple[str, ...], spec: TaskSpec) -> dict[str, str]:
    given = dict(argument.partition("=")[::2] for argument in arguments)
    return _complete(given, spec, "")


def _read_rows(file: Any, spec: TaskSpec) -> list[dict[str, str]]:
    found = []
    for number, line in enumerate(file, 1):
        try:
            row = read_json_row(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise InputFileError(f"line {number} is not UTF-8; save the file as UTF-8") from error
        except InvalidJsonRow as error:
            raise InputFileError(f"line {number} {error}") from error
        found.append(_complete(row, spec, f"line {number}: "))
    return found


def _complete(row: Mapping[str, object], spec: TaskSpec, where: str) -> dict[str, str]:
    for name in spec.model_input:
        if not isinstance(row.get(name), str):
            wanted = " ".join(f'{field}="…"' for field in spec.model_input)
            them = "it" if len(spec.model_input) == 1 else "them"
            raise InputFileError(f"{where}the model reads {', '.join(spec.model_input)}; give {them} as {wanted}")
    # Half an emoji is a valid Python string, but cannot be printed or sent.
    return {name: str(row[name]).encode("utf-8", "replace").decode("utf-8") for name in spec.model_input}


def _verdict_data(verdict: Any) -> dict[str, Any]:
    data = {"probabilities": dict(verdict.shown.probabilities)} if verdict.shown.probabilities else {}
    return data if verdict.fooled is None else {**data, "fooled": verdict.fooled}


def _serves(manifest: Any) -> str:
    serving = manifest.serving
    return f"{serving.runtime} {serving.precision}" if serving else "torch fp32"


def _figures(metrics: Mapping[str, Any]) -> str:
    names = ("accuracy", "macro_f1", "exact_match", "f1")
    return ", ".join(f"{name.replace('_', ' ')} {metrics[name]:.1f}" for name in names if name in metrics)


DIFFERS = 2


@model.command()
@click.argument("task")
@click.argument("version", required=False)
@click.option("--check", is_flag=True, help="Read the rows again and compare their hashes; exit code 2 if one differs.")
@data_command
def lineage(app: Application, task: str, version: str | None, check: bool) -> None:
    """Show what a version was trained and evaluated on. Default: the versions that serve."""
    from round_manager.services.model_versions import changed_sources, trace_versions

    with app.services() as context:
        lines = trace_versions(context, app.registry(), task, version)
        data: dict[str, Any] = {"task": task, "lines": [[asdict(one) for one in line] for line in lines]}
        texts: list[RenderableType] = [part for line in lines for one in line for part in _describe(one)]
        if check:
            newest = [line[0] for line in lines]
            seed = task_pack(context, app.settings, task).seed
            data["differs"] = changed_sources(context, task, seed, newest)
            texts.append(_check_result(data["differs"], newest))
    show(data, Group(*texts))
    if data.get("differs"):
        raise click.exceptions.Exit(DIFFERS)


def _check_result(changed: Sequence[str], versions: Sequence["Ancestor"]) -> str:
    if changed:
        return f"the rows have changed: {', '.join(changed)}"
    if not any(version.rounds for version in versions):
        names = ", ".join(one.version for one in versions)
        return f"{names} was not trained on rounds; there is nothing to compare"
    return "the rows are unchanged, by their hashes"


def _describe(one: "Ancestor") -> list[RenderableType]:
    head = f"{one.version} ({one.mode}, from {one.base}), {count(one.rows, 'row')}, {one.sha256[:12]}"
    played = f"; target of round {', '.join(map(str, one.played_in))}" if one.played_in else ""
    texts: list[RenderableType] = [head + played]
    if one.learned:
        columns = ("trained on", "rows", "left out", "SHA-256", "played against", "closed")
        rows = [
            [
                learned.source,
                learned.rows,
                learned.left_out,
                learned.sha256[:12],
                ", ".join(learned.against),
                f"{learned.closed_at:%Y-%m-%d}" if learned.closed_at else "",
            ]
            for learned in one.learned
        ]
        texts.append(table(columns, rows))
    if one.figures:
        scores = [[score.dataset, score.rows, f"{score.metric} {score.points:.1f}"] for score in one.figures]
        texts.append(table(("evaluated on", "rows", "points"), scores))
    return texts
