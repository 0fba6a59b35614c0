"""The workshop: where a task's next model version is trained, or found where it was trained before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ml_backend.manifest import DataSource
from round_manager.progress import Progress
from templates import Pack, SeedRow


@dataclass(frozen=True)
class Order:
    """What to train: the pack's model on these rows, from these sources, in this mode (the pack's own if None)."""

    pack: Pack
    rows: Sequence[SeedRow]
    sources: Sequence[DataSource]
    mode: str | None


@dataclass(frozen=True)
class Checked:
    """An order that can be done: the mode, and the folder of the version that was made from just this order before."""

    mode: str
    made: Path | None


class Workshop(Protocol):
    """Makes model versions; the same order gives the same version."""

    def check(self, order: Order) -> Checked:
        """How the order will be done; an error where it cannot be."""
        ...

    def train(self, order: Order, progress: Progress, cancel: Callable[[], bool]) -> Path:
        """The folder of the new version; TrainingCancelled, and nothing written, as soon as `cancel` says so."""
        ...


@dataclass(frozen=True)
class LocalWorkshop:
    """Trains in this process, into the models' folder; `cache` keeps what the encoder said to rows."""

    models: Path
    cache: Path

    def check(self, order: Order) -> Checked:
        """Counts the rows, and looks through the manifests of the models' folder."""
        from ml_backend.artefact import list_versions
        from ml_backend.training.recipe import Recipe

        recipe, name = Recipe.of(order.pack, order.rows, order.mode), order.pack.spec.name
        made = (one.version for one in list_versions(self.models, name) if recipe.made(one))
        return Checked(recipe.settings.mode, next((self.models / name / version for version in made), None))

    def train(self, order: Order, progress: Progress, cancel: Callable[[], bool]) -> Path:
        """Trains from the base model on all rows, so that a version depends on its rows and on no version before."""
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
