"""Proof of an archive's splits: drawn again from what is in it, and held against the rounds that lie beside it."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from common.text import count
from round_manager.archive.duplicates import WrittenBatch
from round_manager.archive.manifest import CURE, ArchiveManifest, read_manifest
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
        """In the archive's order, which is that of their ids."""
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
class _Beside:
    """Another round of the task: whether it was split by worker, and the parts that workers are in."""

    by_worker: bool
    parts: Parts


class SplitCheck:
    """What is wrong with an archive's splits, and what could not be looked at."""

    def __init__(self, folder: Path, manifest: ArchiveManifest, spec: TaskSpec) -> None:
        self._folder = folder
        self._manifest = manifest
        self._spec = spec
        self.unchecked: list[str] = []

    def problems(self) -> Iterator[str]:
        """Whatever is not as the archive's own texts and ids make it."""
        try:
            told = Sides.told_in(self._manifest.splits)
        except (TypeError, ValueError):
            yield f"the manifest does not tell workers' sides as it should; {CURE}"
            return
        rule = self._manifest.splits.get("rule", FIRST_RULE)
        if rule not in (FIRST_RULE, RULE):
            yield f"the splits were drawn by the rule {rule}, which this program does not know; use the newer Outfox"
            return
        beside = self._beside() if self._spec.rounds.split_by_worker else {}
        found = _sides(told.rounds, beside) if told.rounds else None
        if found is None and told.rounds:
            rounds = ", ".join(map(str, told.rounds))
            self.unchecked.append(f"sides that workers have since rounds {rounds}, which do not all lie beside it")
        policy, seed = self._spec.rounds, split_seed(self._manifest.task, self._manifest.round)
        plan, report = plan_splits(ArchivedTexts(self._folder, self._spec), policy, seed, found or told, rule=rule)
        if report.sides != told:
            rounds = ", ".join(map(str, told.rounds))
            yield f"workers' sides are not those that rounds {rounds} gave them; {CURE}"
        would, says = _short(report.told()), _short(dict(self._manifest.splits))
        if would != says:
            yield f"the splits would be {would}, the manifest says {says}; {CURE}"
        wrong, parts = self._held_against(plan)
        if wrong:
            yield f"{count(wrong, 'example is', 'examples are')} not in the part that follows from the ids; {CURE}"
        if policy.split_by_worker:
            yield from _worker_problems(parts, beside)

    def _held_against(self, plan: SplitPlan) -> tuple[int, Parts]:
        """How many examples are not where the plan has them, and the parts that workers are in."""
        parts: Parts = defaultdict(set)
        wrong = 0
        for batch in table_batches(self._folder, "examples", ["id", "author", "status", "split"]):
            for row in batch.to_pylist():
                verified = row["status"] == ExampleStatus.VERIFIED
                wrong += row["split"] != (plan.part(row["id"], row["author"]) if verified else None)
                if row["split"] in PARTS:
                    parts[row["author"]].add(Split(row["split"]))
        return wrong, parts

    def _beside(self) -> dict[int, _Beside]:
        """The other rounds of the task that lie beside this one."""
        if self._folder.name != archive_name(self._manifest.round):
            return {}
        found: dict[int, _Beside] = {}
        for folder in self._folder.absolute().parent.iterdir():
            named = NAME.fullmatch(folder.name)
            if not named or int(named[1]) == self._manifest.round:
                continue
            try:
                manifest = read_manifest(folder)
                if manifest.task == self._manifest.task:
                    by_worker = bool(manifest.splits.get("by_worker"))
                    found[int(named[1])] = _Beside(by_worker, _parts(folder))
            except (ArchiveError, OSError, ValueError, KeyError):
                # Its own proof says what is wrong with it.
                continue
        return found


def _sides(rounds: tuple[int, ...], beside: dict[int, _Beside]) -> Sides | None:
    """The sides that these rounds give, if all of them are there."""
    if not beside.keys() >= set(rounds):
        return None
    parts = [item for number in rounds for item in beside[number].parts.items()]
    on = {part: {who for who, theirs in parts if part in theirs} for part in Split}
    train = frozenset(on[Split.TRAIN])
    return Sides(rounds, train, frozenset(on[Split.HELD_OUT]) - train)


def _worker_problems(parts: Parts, beside: dict[int, _Beside]) -> Iterator[str]:
    both = sum(len(own) > 1 for own in parts.values())
    if both:
        yield f"{count(both, 'worker is', 'workers are')} in both parts, and the task forbids it; {CURE}"
    for number, other in sorted(beside.items()):
        moved = sum(own != other.parts.get(who, own) for who, own in parts.items()) if other.by_worker else 0
        if moved:
            workers = count(moved, "worker is", "workers are")
            yield f"{workers} in the other part in round {number} beside it, and the task forbids it"


def _parts(folder: Path) -> Parts:
    parts: Parts = defaultdict(set)
    for batch in table_batches(folder, "examples", ["author", "split"]):
        met = batch.filter(batch["split"].is_valid())
        for row in pa.Table.from_batches([met]).group_by(["author", "split"]).aggregate([]).to_pylist():
            parts[row["author"]].add(Split(row["split"]))
    return parts


def _short(told: dict[str, object]) -> dict[str, object]:
    """Without names: there may be thousands."""
    return {name: value for name, value in told.items() if not name.startswith("came_")}
