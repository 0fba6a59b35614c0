"""The ModelTrainer port: it trains a task's next model version, or finds the one that was trained before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from common.progress import Progress
from ml_backend.manifest import DataSource
from templates import Pack, SeedRow


@dataclass(frozen=True)
class TrainingOrder:
    """What to train: the pack's model on these rows, from these sources, in this mode (the pack's own if None)."""

    pack: Pack
    rows: Sequence[SeedRow]
    sources: Sequence[DataSource]
    mode: str | None


@dataclass(frozen=True)
class TrainingPlan:
    """How an order will be carried out: the mode, and the folder of an existing version of exactly this order."""

    mode: str
    existing: Path | None


class ModelTrainer(Protocol):
    """Trains model versions. The same order gives the same version."""

    def plan(self, order: TrainingOrder) -> TrainingPlan:
        """Return how the order will be carried out; raise where it cannot be."""
        ...

    def train(self, order: TrainingOrder, progress: Progress, cancel: Callable[[], bool]) -> Path:
        """Return the folder of the new version; raise TrainingCancelled as soon as `cancel` returns True."""
        ...


@dataclass(frozen=True)
class LocalTrainer:
    """Trains in this process, into the models' folder; `cache` keeps the features of a frozen encoder."""

    models: Path
    cache: Path

    def plan(self, order: TrainingOrder) -> TrainingPlan:
        """Check the rows, and look for a version with the same recipe."""
        from ml_backend.artefact import list_versions
        from ml_backend.training.data import Recipe

        recipe, name = Recipe.of(order.pack, order.rows, order.mode), order.pack.spec.name
        matching = (one.version for one in list_versions(self.models, name) if recipe.made(one))
        return TrainingPlan(recipe.settings.mode, next((self.models / name / version for version in matching), None))

    def train(self, order: TrainingOrder, progress: Progress, cancel: Callable[[], bool]) -> Path:
        """Train from the base model on all rows, so that a version depends on its rows and on no earlier version."""
        from ml_backend.training import train

        trained = train(
            order.pack,
            self.models,
            mode=order.mode,
            rows=order.rows,
            sources=order.sources,
            cache=self.cache,
            progress=progress,
            cancel=cancel,
        )
        return trained.directory
