"""A recipe: all that decides which version a training makes, known before it runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from ml_backend.checkpoint import open_checkpoint
from ml_backend.manifest import DataRecord, Manifest
from ml_backend.training.data import TrainingData
from templates import Pack, SeedRow
from templates.spec import TaskSpec, TrainingSettings


@dataclass(frozen=True)
class Recipe:
    """A training from the base model; a version that has this recipe need not be trained again."""

    spec: TaskSpec
    settings: TrainingSettings
    train: DataRecord
    held_out: DataRecord
    base: str
    base_sha256: str

    @classmethod
    def of(cls, pack: Pack, rows: Sequence[SeedRow], mode: str | None = None) -> "Recipe":
        """The recipe of a pack's model for these rows; an error where there is nothing to learn or to measure on."""
        records = TrainingData.of(rows, pack.spec).records()
        settings = pack.spec.training
        chosen = TrainingSettings.model_validate({**settings.model_dump(), "mode": mode or settings.mode})
        base = open_checkpoint(pack.model_base())
        return cls(pack.spec, chosen, records["train"], records["held_out"], base.name, base.sha256)

    def made(self, manifest: Manifest) -> bool:
        """Whether the version came from this recipe."""
        spec = self.spec
        ours = (spec.name, spec.kind, spec.label_names, spec.model_input, spec.model.max_length, spec.model.doc_stride)
        theirs = (
            manifest.task,
            manifest.kind,
            manifest.labels,
            manifest.model_input,
            manifest.max_length,
            manifest.doc_stride,
        )
        learned = (manifest.train, manifest.held_out, manifest.base, manifest.base_sha256, manifest.training)
        wanted = (self.train, self.held_out, self.base, self.base_sha256, self.settings)
        return manifest.parent is None and theirs == ours and learned == wanted
