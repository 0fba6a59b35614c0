"""An evaluation as the command line and `outfox.evaluate` ask for it: texts that users wrote, found and checked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from plugin.errors import PluginError
from plugin.wiring import Application
from templates import Pack, PackNotFound, SeedRow, TaskSpec, find_pack, load_pack

if TYPE_CHECKING:
    from common.progress import Progress
    from round_manager.evaluation.candidates import Confirm
    from round_manager.services.evaluations import EvaluationOrder, EvaluationReport, Run


@dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate, as it was written: models, data sets, axes, the meaning of labels, and columns of files."""

    models: Sequence[str]
    data: Sequence[str] = ()
    axes: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    slices: Sequence[str] = ()
    runtime: str = "auto"
    registry: str | None = None


@dataclass(frozen=True)
class EvaluatedTask:
    """A task whose models are evaluated: its spec, and the held-out rows of its seed if there is a pack."""

    spec: TaskSpec
    seed: Sequence[SeedRow]


def evaluate(
    app: Application,
    task: EvaluatedTask,
    request: EvaluationRequest,
    confirm: "Confirm",
    progress: "Progress | None" = None,
) -> "EvaluationReport":
    """Find the models and the data sets, measure what is missing, and return all figures."""
    from round_manager.evaluation.axes import chosen_axes
    from round_manager.evaluation.candidates import CandidateFinder
    from round_manager.evaluation.data_sets import DataSets
    from round_manager.services.evaluations import EvaluationOrder, evaluate_models

    axes, place = chosen_axes(tuple(request.axes)), app.settings.archives_location
    finder = CandidateFinder(task.spec, app.registry(request.registry), request.labels, confirm, request.runtime)
    models = finder.find(request.models)
    data = DataSets(task.spec, place, task.seed).choose(request.data, request.slices)
    order = EvaluationOrder(task.spec.name, models, data, axes, place, app.settings.cache_path)
    return evaluate_models(order, run=_cluster_run(app, order), progress=progress)


def write_rows(
    app: Application, task: EvaluatedTask, data: Sequence[str], axes: Sequence[str], path: Path, progress: "Progress"
) -> int:
    """Write the rows to predict as JSON lines, the whole file or nothing; return how many there are."""
    from round_manager.evaluation.axes import chosen_axes
    from round_manager.evaluation.data_sets import DataSets
    from round_manager.services.evaluations import rows_to_predict

    chosen = DataSets(task.spec, app.settings.archives_location, task.seed).choose(data)
    draft = path.with_name(f".{uuid4().hex}.draft")
    count = 0
    try:
        with draft.open("w", encoding="utf-8") as file:
            for row in rows_to_predict(chosen, chosen_axes(tuple(axes)), progress):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
        draft.replace(path)
    except OSError as error:
        raise PluginError(f"cannot write {path}: {error.strerror}; choose another place") from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def _cluster_run(app: Application, order: "EvaluationOrder") -> "Run | None":
    """Return what performs the work on a cluster, if the settings name one."""
    if app.settings.jobs_runner != "ray":
        return None
    from plugin.evaluation_jobs import cluster_evaluation
    from round_manager.evaluation.orders import order_identity

    models, data = [one.id for one in order.models], [one.sha256 for one in order.data]
    return cluster_evaluation(app, order.task, order_identity(order.task, models, data, order.axes)).run


def task_of_pack(pack: Pack) -> EvaluatedTask:
    """Return the task of a pack."""
    return EvaluatedTask(pack.spec, [row for row in pack.seed if row.split == "held_out"])


def task_of_archives(app: Application, name: str) -> EvaluatedTask:
    """Return a task without a pack, as its newest archive describes it."""
    from round_manager.evaluation.data_sets import recorded_spec

    return EvaluatedTask(recorded_spec(app.settings.archives_location, name), ())


def task_of_name(app: Application, name: str, pack: str | None = None) -> EvaluatedTask:
    """Return the task of the pack that is named or has the task's name, or else the one that archives describe."""
    if pack is not None:
        return task_of_pack(load_pack(Path(pack)) if Path(pack).is_dir() else find_pack(pack))
    try:
        return task_of_pack(find_pack(name, app.settings.templates_path))
    except PackNotFound:
        return task_of_archives(app, name)
