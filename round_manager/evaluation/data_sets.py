"""The data sets of a task: the seed's held-out rows, those of every frozen round, test suites, and files.

A `DataSet` is plain data, so that another process or machine reads the same rows.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.errors import Hint
from ml_backend.errors import EvaluationDataInvalid
from ml_backend.hashing import data_set_sha256
from round_manager.archive.example_rows import example_rows, origin_of, slices_of
from round_manager.archive.files import FILE
from round_manager.archive.reader import open_source
from round_manager.archive.storage import S3, bucket_errors
from round_manager.errors import ArchiveNotFound, DataSetNotFound
from templates import SeedRow, TaskSpec
from templates.evaluation_file import RowCounts, read_evaluation_file

SEED, ROUNDS, SUITES = "seed", "rounds", "suites"
_ROUND, _SUITE = re.compile(r"round-(\d+)"), re.compile(r"suite-(.+)")
_NAMED_ROUND = re.compile(r"(?:round[ -]?)?(\d+)")

DataKind = Literal["seed", "round", "suite", "file"]


@dataclass(frozen=True)
class DataSet:
    """Frozen rows to evaluate on. `rows` holds them if they are in no file or archive that others can read."""

    name: str
    kind: DataKind
    sha256: str
    row_count: int
    spec: TaskSpec = field(repr=False)
    place: str = ""
    rows: tuple[SeedRow, ...] = field(default=(), repr=False)
    slices: tuple[str, ...] = ()
    hidden: bool = False
    left_out: int = 0

    @property
    def round(self) -> int:
        """The number of the round; 0 for other data sets."""
        return int(self.name.rpartition(" ")[2]) if self.kind == "round" else 0

    def read(self) -> Iterator[SeedRow]:
        """Yield the rows in their order."""
        return _read(self.kind, self.place, self.rows, self.spec, self.slices)


def _read(
    kind: DataKind,
    place: str,
    rows: Sequence[SeedRow],
    spec: TaskSpec,
    slices: Sequence[str],
    counts: RowCounts | None = None,
) -> Iterator[SeedRow]:
    if kind == "file":
        return read_evaluation_file(Path(place), spec, slices, counts)
    return iter(rows) if kind == "seed" else example_rows(place, spec)


def seed_data_set(name: str, rows: Sequence[SeedRow], spec: TaskSpec) -> DataSet:
    """Return rows in memory as a data set."""
    sha256, count = data_set_sha256(rows, spec)
    return DataSet(name, "seed", sha256, count, spec, rows=tuple(rows))


@dataclass(frozen=True)
class DataSets:
    """The data sets of a task. `seed` are the seed's held-out rows; `place` is where the archives are."""

    spec: TaskSpec
    place: str
    seed: Sequence[SeedRow] = ()

    def choose(self, names: Sequence[str] = (), slices: Sequence[str] = ()) -> list[DataSet]:
        """Return the data sets of these names, by default the seed and every round; each of them has rows.

        A name is `seed`, `rounds`, a round such as `round 3` or `3`, `suites`, a suite's name, or a file. `slices` are
        columns of files.
        """
        found: list[DataSet] = []
        for name in names or self._default_names():
            found += self._named(name, slices)
        for one in found:
            if not one.row_count:
                raise EvaluationDataInvalid(f"{one.name} has no held-out rows to evaluate on; choose another data set")
        return list({(one.name, one.sha256): one for one in found}.values())

    def _default_names(self) -> list[str]:
        names = [*([SEED] if self.seed else []), *([ROUNDS] if self.rounds() else [])]
        if not names:
            text = f"{self.spec.name} has no seed here and no frozen round; name a suite or a file"
            raise DataSetNotFound(text, hint=Hint("freeze_round", task=self.spec.name, round=1))
        return names

    def rounds(self) -> dict[int, str]:
        """Return the places of the frozen rounds by their numbers."""
        found = ((_ROUND.fullmatch(name), place) for name, place in self._archives().items())
        return dict(sorted((int(match[1]), place) for match, place in found if match))

    def suites(self) -> dict[str, str]:
        """Return the places of the test suites by their names."""
        found = ((_SUITE.fullmatch(name), place) for name, place in self._archives().items())
        return dict(sorted((match[1], place) for match, place in found if match))

    def _named(self, name: str, slices: Sequence[str]) -> list[DataSet]:
        if name == SEED:
            if not self.seed:
                raise DataSetNotFound(f"{self.spec.name} has no seed here; name a pack, or other data sets")
            return [seed_data_set(SEED, self.seed, self.spec)]
        rounds, suites = self.rounds(), self.suites()
        if name == ROUNDS:
            # A round can be too small to have held-out rows.
            every = [self._archive("round", f"round {number}", place) for number, place in rounds.items()]
            return [one for one in every if one.row_count]
        if name == SUITES:
            return [self._archive("suite", f"suite {one}", place) for one, place in suites.items()]
        suite = name.removeprefix("suite ")
        if suite in suites:
            return [self._archive("suite", f"suite {suite}", suites[suite])]
        number = _NAMED_ROUND.fullmatch(name)
        if number and int(number[1]) in rounds:
            return [self._archive("round", f"round {int(number[1])}", rounds[int(number[1])])]
        if Path(name).is_file():
            return [self._file(Path(name), slices)]
        raise self._not_found(name, number, rounds, suites)

    def _not_found(
        self, name: str, number: re.Match[str] | None, rounds: dict[int, str], suites: dict[str, str]
    ) -> DataSetNotFound:
        known = ", ".join(["seed", *(f"round {one}" for one in rounds), *(f"suite {one}" for one in suites)])
        task = self.spec.name
        hint = Hint("freeze_round", task=task, round=int(number[1])) if number else Hint("list_rounds", task=task)
        return DataSetNotFound(f"{task} has no data set and there is no file `{name}`; known are {known}", hint=hint)

    def _archive(self, kind: DataKind, name: str, place: str) -> DataSet:
        manifest = open_source(place).manifest()
        slices = slices_of(manifest)
        sha256, count = data_set_sha256(example_rows(place, self.spec), self.spec, slices)
        hidden = bool(origin_of(manifest).get("hidden", False))
        return DataSet(name, kind, sha256, count, self.spec, place, slices=slices, hidden=hidden)

    def _file(self, path: Path, slices: Sequence[str]) -> DataSet:
        counts, place = RowCounts(), str(path.resolve())
        rows = _read("file", place, (), self.spec, slices, counts)
        sha256, count = data_set_sha256(rows, self.spec, slices)
        return DataSet(path.name, "file", sha256, count, self.spec, place, slices=tuple(slices), left_out=counts.train)

    def _archives(self) -> dict[str, str]:
        return _archives(self.place, self.spec.name)


def _archives(place: str, task: str) -> dict[str, str]:
    """Return the places of a task's archives by the names of their folders."""
    if place.startswith(S3):
        from ml_backend.registry.bucket import Bucket

        root = f"{place.rstrip('/')}/{task}"
        with bucket_errors():
            keys = [one.key for one in Bucket.open(root).below("")]
        names = sorted(key.split("/")[0] for key in keys if key.count("/") == 1 and key.endswith(f"/{FILE}"))
        return {name: f"{root}/{name}" for name in names}
    folder = Path(place).expanduser() / task
    return {path.parent.name: str(path.parent) for path in sorted(folder.glob(f"*/{FILE}"))}


def recorded_spec(place: str, task: str) -> TaskSpec:
    """Return the task's spec as its newest archive recorded it, for tasks without a pack on this machine.

    A task can have test suites only.
    """
    archives = _archives(place, task)
    numbers = [(int(match[1]), where) for name, where in archives.items() if (match := _ROUND.fullmatch(name))]
    suites = [where for name, where in archives.items() if _SUITE.fullmatch(name)]
    if not numbers and not suites:
        raise ArchiveNotFound(f"there is no pack and no frozen round of {task} at {place}; check the name and the path")
    newest = max(numbers)[1] if numbers else suites[-1]
    return TaskSpec.model_validate(open_source(newest).manifest().spec)
