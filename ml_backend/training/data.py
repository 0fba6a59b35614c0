"""The rows that a model learns from and is measured on, in an order that does not depend on their file's."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ml_backend.errors import BackendError
from ml_backend.hashing import rows_in_order, rows_sha256
from ml_backend.manifest import DataRecord
from templates.rows import SeedRow
from templates.spec import TaskSpec


@dataclass(frozen=True)
class TrainingData:
    """Both parts of the rows, each in the order of its content."""

    train: tuple[SeedRow, ...]
    held_out: tuple[SeedRow, ...]
    spec: TaskSpec

    @classmethod
    def of(cls, rows: Sequence[SeedRow], spec: TaskSpec) -> "TrainingData":
        """The rows, sorted and checked: there must be something to learn and something to measure on."""
        ordered = rows_in_order(rows, spec)
        data = cls(
            tuple(row for row in ordered if row.split == "train"),
            tuple(row for row in ordered if row.split == "held_out"),
            spec,
        )
        if not data.train or not data.held_out:
            part = "held_out" if data.train else "train"
            raise BackendError(f'there are no rows with "split": "{part}"; training needs both train and held_out')
        counts = data.label_counts()
        if unused := [label for label in spec.label_names if not counts[label]]:
            raise BackendError(f"no row to train on has the label `{unused[0]}`; add some")
        return data

    def label_counts(self) -> Counter[str]:
        """How many rows to train on each label has."""
        return Counter(row.label for row in self.train if row.label is not None)

    def class_weights(self) -> dict[str, float]:
        """The weight of a row of each label with which all labels count the same, one on average."""
        counts = self.label_counts()
        return {label: len(self.train) / (len(counts) * counts[label]) for label in self.spec.label_names}

    def records(self) -> dict[str, DataRecord]:
        """What the manifest says about both parts."""
        return {"train": self._record(self.train), "held_out": self._record(self.held_out)}

    def _record(self, rows: Sequence[SeedRow]) -> DataRecord:
        return DataRecord(sha256=rows_sha256(rows, self.spec), rows=len(rows))
