"""One and two workers of a Ray cluster that share the pieces of an evaluation, each with one thread."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.progress import Progress
from plugin.evaluation_jobs import cluster_evaluation
from plugin.settings import load_settings
from plugin.wiring import Application
from round_manager.evaluation.storage import EVALUATIONS
from round_manager.evaluation.work import Done, Work
from round_manager.services.evaluations import EvaluationOrder, EvaluationReport, evaluate_models
from tests.ray_cluster import RayCluster


@dataclass(frozen=True)
class Measured:
    """How long an evaluation took on a cluster: in all, and per piece once all workers had ended their first."""

    seconds: float
    seconds_per_piece: float
    report: EvaluationReport


def measure(order: EvaluationOrder, folder: Path, workers: int) -> Measured:
    """Evaluate on a cluster with that many workers, with nothing stored before."""
    folder.mkdir()
    place = folder / "archives"
    shutil.copytree(order.place, place, ignore=shutil.ignore_patterns(EVALUATIONS))
    theirs = folder / "jobs.toml"
    theirs.write_text(f'home = "{folder / "node"}"\n', encoding="utf-8")
    moved = [replace(one, place=one.place.replace(order.place, str(place), 1)) for one in order.data]
    own = replace(order, place=str(place), data=moved)
    cluster = RayCluster(workers)
    try:
        cluster.start()
        settings = {
            "OUTFOX_HOME": str(folder / "home"),
            "OUTFOX_REGISTRY": str(folder / "models"),
            "OUTFOX_ARCHIVES": str(place),
            "OUTFOX_JOBS_RUNNER": "ray",
            "OUTFOX_JOBS_ADDRESS": cluster.address,
            "OUTFOX_JOBS_CONFIG": str(theirs),
        }
        cluster_run = cluster_evaluation(Application(load_settings(settings)), order.task, "bench").run
        ends: list[float] = []

        def run(work: Sequence[Work], progress: Progress) -> Iterator[Done]:
            for done in cluster_run(work, progress):
                ends.append(time.perf_counter())
                yield done

        began = time.perf_counter()
        report = evaluate_models(own, run=run)
        seconds = time.perf_counter() - began
        return Measured(seconds, (ends[-1] - ends[workers - 1]) / (len(ends) - workers), report)
    finally:
        cluster.stop()


def compare_workers(order: EvaluationOrder, folder: Path, show: Callable[[str], None]) -> float:
    """Return how many times as fast two workers are than one, from the submission to the last result."""
    folder.mkdir()
    one, two = measure(order, folder / "one", 1), measure(order, folder / "two", 2)
    assert one.report.as_data() == two.report.as_data(), "the figures do not depend on the workers"
    steady = one.seconds_per_piece / two.seconds_per_piece
    show(
        f"on a Ray cluster: {one.seconds:.1f} s with one worker, {two.seconds:.1f} s with two; "
        f"once all workers had begun, two were {steady:.2f} x as fast"
    )
    return one.seconds / two.seconds
