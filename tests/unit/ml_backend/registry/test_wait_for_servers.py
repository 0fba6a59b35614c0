"""Waiting for a process to serve a task that was pinned for the first time."""

import threading
import time
from pathlib import Path

from ml_backend.registry.model_pool import ModelPool
from ml_backend.registry.rotation import rotate, wait_for_servers
from tests.fakes.registry import TASK, QuickRegistry, load_fixed, make_version
from tests.unit.ml_backend.registry.conftest import StartPool

LONG = 30.0


def test_without_serving_processes_nothing_is_waited_for(models: Path, registry: QuickRegistry) -> None:
    rotate(registry, TASK, [make_version(models)], load=load_fixed)
    began = time.monotonic()
    assert wait_for_servers(registry, TASK, LONG) == []
    assert time.monotonic() - began < LONG / 2


def test_it_waits_until_a_process_starts_serving_the_new_task(models: Path, registry: QuickRegistry) -> None:
    rotate(registry, "nli", [make_version(models, task="nli")], load=load_fixed)
    may_load = threading.Event()

    def load_late(directory: Path) -> object:
        assert directory.parent.name == "nli" or may_load.wait(LONG)
        return load_fixed(directory)

    pool = ModelPool(registry, load_late, ["nli"], can_serve=lambda _: True)  # type: ignore[arg-type]
    pool.start()
    try:
        rotate(registry, TASK, [make_version(models)], load=load_fixed)
        threading.Timer(0.1, may_load.set).start()
        (server,) = wait_for_servers(registry, TASK, LONG)
        assert server.tasks[TASK].generation == 1
        assert pool.models_for(TASK).generation == 1
    finally:
        may_load.set()
        pool.stop()


def test_it_waits_for_a_running_process_that_serves_no_task_yet(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    rotate(registry, TASK, [make_version(models)], load=load_fixed)
    assert wait_for_servers(registry, TASK, LONG) == []
    late = threading.Timer(0.1, start_pool, [load_fixed, TASK])
    late.start()
    try:
        (server,) = wait_for_servers(registry, TASK, LONG, is_running=True)
    finally:
        late.join()
    assert server.tasks[TASK].generation == 1


def test_it_stops_waiting_for_processes_that_serve_other_tasks_only(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    rotate(registry, "nli", [make_version(models, task="nli")], load=load_fixed)
    start_pool(load_fixed, "nli")
    rotate(registry, TASK, [make_version(models)], load=load_fixed)
    assert wait_for_servers(registry, TASK, 0.05) == []
