"""Verification of an archive's splits: recompute them, and compare workers' sides with the rounds next to it."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from common.text import count
from round_manager.archive.duplicates import WrittenBatch
from round_manager.archive.manifest import REPAIR, ArchiveManifest, read_manifest
from round_manager.archive.reader import table_batches
from round_manager.archive.split_plan import FIRST_RULE, RULE, Sides, SplitPlan, plan_splits
from round_manager.archive.splits import split_seed, written
from round_manager.archive.storage import archive_name
from round_manager.archive.tables import Columns
from round_manager.errors import ArchiveError
from round_manager.examples.submissions import content_sha256
from round_manager.models import ExampleStatus, Split
from templates import TaskSpec

Parts = dict[str, set[Split]]
NAME = re.compile(r"round-([1-9][0-9]*)")
PARTS = frozenset(Split)


class ArchivedTexts:
    """The verified examples of a round in an archive."""

    def __init__(self, folder: Path, spec: TaskSpec) -> None:
        self._folder = folder
        self._columns = Columns(spec)

    def batches(self) -> Iterator[WrittenBatch]:
        """Yield batches in the archive's order, which is that of the ids."""
        spec = self._columns.spec
        names = {name: column for name, column in self._columns.written if name in spec.model_input}
        for batch in table_batches(self._folder, "examples", ["id", "author", "status", *names.values()]):
            some = batch.filter(pa.compute.equal(batch.column("status"), ExampleStatus.VERIFIED.value))
            if some.num_rows == 0:
                continue
            texts = {name: some.column(column) for name, column in names.items()}
            rows = pa.RecordBatch.from_pydict(texts).to_pylist()
            contents = [content_sha256(spec, row) for row in rows]
            ids, authors = some.column("id").to_pylist(), some.column("author").to_pylist()
            yield written(self._columns, ids, authors, contents, texts)


@dataclass(frozen=True)
class _Neighbour:
    """Another round of the task: whether it was split by worker, and the parts of each worker."""

    by_worker: bool
    parts: Parts


class SplitCheck:
    """The problems of an archive's splits, and what could not be checked."""

    def __init__(self, folder: Path, manifest: ArchiveManifest, spec: TaskSpec) -> None:
        self._folder = folder
        self._manifest = manifest
        self._spec = spec
        self.unchecked: list[str] = []

    def problems(self) -> Iterator[str]:
        """Yield differences between the stored splits and the recomputed ones."""
        try:
            stored = Sides.from_data(self._manifest.splits)
        except (TypeError, ValueError):
            yield f"the manifest's sides of workers are invalid; {REPAIR}"
            return
        rule = self._manifest.splits.get("rule", FIRST_RULE)
        if rule not in (FIRST_RULE, RULE):
            yield f"the splits follow rule {rule}, which this version does not know; use a newer version of Outfox"
            return
        neighbours = self._neighbours() if self._spec.rounds.split_by_worker else {}
        found = _sides(stored.rounds, neighbours) if stored.rounds else None
        if found is None and stored.rounds:
            rounds = ", ".join(map(str, stored.rounds))
            self.unchecked.append(f"sides from rounds {rounds}, which are not all in the same folder")
        policy, seed = self._spec.rounds, split_seed(self._manifest.task, self._manifest.round)
        plan, report = plan_splits(ArchivedTexts(self._folder, self._spec), policy, seed, found or stored, rule=rule)
        if report.sides != stored:
            rounds = ", ".join(map(str, stored.rounds))
            yield f"workers' sides differ from those in rounds {rounds}; {REPAIR}"
        would, says = _short(report.as_data()), _short(dict(self._manifest.splits))
        if would != says:
            yield f"the splits would be {would}, the manifest says {says}; {REPAIR}"
        wrong, parts = self._compare(plan)
        if wrong:
            yield f"{count(wrong, 'example is', 'examples are')} not in the part that the ids determine; {REPAIR}"
        if policy.split_by_worker:
            yield from _worker_problems(parts, neighbours)

    def _compare(self, plan: SplitPlan) -> tuple[int, Parts]:
        """Return how many examples are in another part than planned, and the parts of each worker."""
        parts: Parts = defaultdict(set)
        wrong = 0
        for batch in table_batches(self._folder, "examples", ["id", "author", "status", "split"]):
            for row in batch.to_pylist():
                verified = row["status"] == ExampleStatus.VERIFIED
                wrong += row["split"] != (plan.part(row["id"], row["author"]) if verified else None)
                if row["split"] in PARTS:
                    parts[row["author"]].add(Split(row["split"]))
        return wrong, parts

    def _neighbours(self) -> dict[int, _Neighbour]:
        """Return the other rounds of the task in the same folder."""
        if self._folder.name != archive_name(self._manifest.round):
            return {}
        found: dict[int, _Neighbour] = {}
        for folder in self._folder.absolute().parent.iterdir():
            named = NAME.fullmatch(folder.name)
            if not named or int(named[1]) == self._manifest.round:
                continue
            try:
                manifest = read_manifest(folder)
                if manifest.task == self._manifest.task:
                    by_worker = bool(manifest.splits.get("by_worker"))
                    found[int(named[1])] = _Neighbour(by_worker, _parts(folder))
            except (ArchiveError, OSError, ValueError, KeyError):
                # Its own verification reports what is wrong with it.
                continue
        return found


def _sides(rounds: tuple[int, ...], neighbours: dict[int, _Neighbour]) -> Sides | None:
    """Return the sides that these rounds give, if all of them are there."""
    if not neighbours.keys() >= set(rounds):
        return None
    parts = [item for number in rounds for item in neighbours[number].parts.items()]
    on = {part: {who for who, theirs in parts if part in theirs} for part in Split}
    train = frozenset(on[Split.TRAIN])
    return Sides(rounds, train, frozenset(on[Split.HELD_OUT]) - train)


def _worker_problems(parts: Parts, neighbours: dict[int, _Neighbour]) -> Iterator[str]:
    both = sum(len(own) > 1 for own in parts.values())
    if both:
        yield f"{count(both, 'worker is', 'workers are')} in both parts, which the task forbids; {REPAIR}"
    for number, other in sorted(neighbours.items()):
        moved = sum(own != other.parts.get(who, own) for who, own in parts.items()) if other.by_worker else 0
        if moved:
            workers = count(moved, "worker is", "workers are")
            yield f"{workers} in the other part in round {number}, which the task forbids"


def _parts(folder: Path) -> Parts:
    parts: Parts = defaultdict(set)
    for batch in table_batches(folder, "examples", ["author", "split"]):
        met = batch.filter(batch["split"].is_valid())
        for row in pa.Table.from_batches([met]).group_by(["author", "split"]).aggregate([]).to_pylist():
            parts[row["author"]].add(Split(row["split"]))
    return parts


def _short(data: dict[str, object]) -> dict[str, object]:
    """Return the data without workers' names, of which there may be thousands."""
    return {name: value for name, value in data.items() if not name.startswith("came_")}
