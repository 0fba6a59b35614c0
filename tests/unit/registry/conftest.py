"""A registry in a folder, and shelves on it that end with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ml_backend.registry.candidate import Load
from ml_backend.registry.registry import Registry
from ml_backend.registry.shelf import Shelf
from tests.fakes.registry import TASK, QuickRegistry, load_fixed

StartShelf = Callable[..., Shelf]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def registry(models: Path) -> QuickRegistry:
    return QuickRegistry(models)


@pytest.fixture
def start_shelf(registry: QuickRegistry) -> Iterator[StartShelf]:
    """Starts a shelf, which serves sentiment from the test's registry by default."""
    started: list[Shelf] = []

    def start_shelf(load: Load = load_fixed, *tasks: str, on: Registry | None = None, spare: int = 2) -> Shelf:
        shelf = Shelf(on or registry, load, tasks or (TASK,), spare=spare)
        started.append(shelf)
        shelf.start()
        return shelf

    yield start_shelf
    for shelf in started:
        shelf.stop()
