"""A registry in a folder, and model pools that stop with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ml_backend.registry.model_pool import Load, ModelPool
from ml_backend.registry.registry import Registry
from tests.fakes.registry import TASK, QuickRegistry, load_fixed

StartPool = Callable[..., ModelPool]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def registry(models: Path) -> QuickRegistry:
    return QuickRegistry(models)


@pytest.fixture
def start_pool(registry: QuickRegistry) -> Iterator[StartPool]:
    """Start a pool, by default for sentiment from the test's registry."""
    started: list[ModelPool] = []

    def start_pool(load: Load = load_fixed, *tasks: str, on: Registry | None = None, spare: int = 2) -> ModelPool:
        pool = ModelPool(on or registry, load, tasks or (TASK,), spare=spare)
        started.append(pool)
        pool.start()
        return pool

    yield start_pool
    for pool in started:
        pool.stop()
