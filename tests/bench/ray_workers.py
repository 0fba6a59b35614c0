"""One and two workers of a Ray cluster that share the pieces of an evaluation, each with one thread."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from plugin.evaluation_jobs import cluster_evaluation
from plugin.settings import load_settings
from plugin.wiring import Application
from round_manager.evaluation.storage import EVALUATIONS
from round_manager.services.evaluations import EvaluationOrder, EvaluationReport, evaluate_models
from tests.ray_cluster import RayCluster


def worker_seconds(order: EvaluationOrder, folder: Path, workers: int) -> tuple[float, EvaluationReport]:
    """Return how long a cluster with that many workers takes for the evaluation, with nothing stored before."""
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
        run = cluster_evaluation(Application(load_settings(settings)), order.task, "bench").run
        began = time.perf_counter()
        report = evaluate_models(own, run=run)
        return time.perf_counter() - began, report
    finally:
        cluster.stop()


def compare_workers(order: EvaluationOrder, folder: Path, show: Callable[[str], None]) -> float:
    """Return how many times as fast two workers are than one, from the submission to the last result."""
    folder.mkdir()
    one, alone = worker_seconds(order, folder / "one", 1)
    two, shared = worker_seconds(order, folder / "two", 2)
    assert alone.as_data() == shared.as_data(), "the figures do not depend on the workers"
    show(f"on a Ray cluster: {one:.1f} s with one worker, {two:.1f} s with two, {one / two:.2f} x")
    return one / two
