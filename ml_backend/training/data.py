"""The rows of a training in a stable order, and the recipe: everything that determines which version it makes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ml_backend.checkpoint import open_checkpoint
from ml_backend.errors import TrainingDataInvalid
from ml_backend.hashing import rows_in_order, rows_sha256
from ml_backend.manifest import TRAINED, DataRecord, Manifest
from templates import Pack, SeedRow
from templates.spec import TaskSpec, TrainingSettings


@dataclass(frozen=True)
class TrainingData:
    """The training and held-out rows, each sorted by content."""

    train: tuple[SeedRow, ...]
    held_out: tuple[SeedRow, ...]
    spec: TaskSpec

    @classmethod
    def of(cls, rows: Sequence[SeedRow], spec: TaskSpec) -> "TrainingData":
        """Return the rows, sorted; raise TrainingDataInvalid unless there are rows to train and to evaluate on."""
        ordered = rows_in_order(rows, spec)
        data = cls(
            tuple(row for row in ordered if row.split == "train"),
            tuple(row for row in ordered if row.split == "held_out"),
            spec,
        )
        if not data.train or not data.held_out:
            part = "held_out" if data.train else "train"
            raise TrainingDataInvalid(
                f'there are no rows with "split": "{part}"; training needs both train and held_out'
            )
        counts = data.label_counts()
        if unused := [label for label in spec.label_names if not counts[label]]:
            raise TrainingDataInvalid(f"no training row has the label `{unused[0]}`; add some")
        return data

    def label_counts(self) -> Counter[str]:
        """Return the number of training rows of each label."""
        return Counter(row.label for row in self.train if row.label is not None)

    def class_weights(self) -> dict[str, float]:
        """Return the weight of a row of each label with which all labels count the same; the mean weight is one."""
        counts = self.label_counts()
        return {label: len(self.train) / (len(counts) * counts[label]) for label in self.spec.label_names}

    def records(self) -> dict[str, DataRecord]:
        """Return the records of both parts for the manifest."""
        return {"train": self._record(self.train), "held_out": self._record(self.held_out)}

    def _record(self, rows: Sequence[SeedRow]) -> DataRecord:
        return DataRecord(sha256=rows_sha256(rows, self.spec), rows=len(rows))


@dataclass(frozen=True)
class Recipe:
    """A training from the base model; a version with this recipe need not be trained again."""

    spec: TaskSpec
    settings: TrainingSettings
    train: DataRecord
    held_out: DataRecord
    base: str
    base_sha256: str

    @classmethod
    def of(cls, pack: Pack, rows: Sequence[SeedRow], mode: str | None = None) -> "Recipe":
        """Return the recipe of a pack's model for these rows; raise TrainingDataInvalid for unusable rows."""
        records = TrainingData.of(rows, pack.spec).records()
        settings = pack.spec.training
        chosen = TrainingSettings.model_validate({**settings.model_dump(), "mode": mode or settings.mode})
        base = open_checkpoint(pack.model_base())
        return cls(pack.spec, chosen, records["train"], records["held_out"], base.name, base.sha256)

    def made(self, manifest: Manifest) -> bool:
        """Return whether the version was made from this recipe."""
        spec = self.spec
        wanted = {
            "target": TRAINED,
            "parent": None,
            "task": spec.name,
            "kind": spec.kind,
            "labels": spec.label_names,
            "model_input": spec.model_input,
            "max_length": spec.model.max_length,
            "doc_stride": spec.model.doc_stride,
            "training": self.settings,
            "train": self.train,
            "held_out": self.held_out,
            "base": self.base,
            "base_sha256": self.base_sha256,
        }
        return all(getattr(manifest, name, None) == value for name, value in wanted.items())
