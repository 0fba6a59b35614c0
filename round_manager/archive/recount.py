"""Recount: check that the status and gold label of every example follow from its votes, and its split from its id."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa

from common.text import count
from common.text import count as plural
from round_manager.archive.duplicates import DecidedBatch, WrittenBatch, written_batch
from round_manager.archive.files import REPAIR, ArchiveManifest, read_manifest
from round_manager.archive.reader import table_batches
from round_manager.archive.split_plan import (
    FIRST_RULE,
    RULE,
    SEARCH_RULE,
    Sides,
    SplitPlan,
    plan_decided,
    plan_splits,
    split_seed,
)
from round_manager.archive.storage import archive_name
from round_manager.archive.tables import Columns
from round_manager.errors import ArchiveError, PolicyError
from round_manager.examples.submissions import content_sha256
from round_manager.models import ExampleStatus, Split
from round_manager.validation.decisions import DECIDED, VoteCounter, VoteValue
from templates import TaskSpec

NOT_YET = (ExampleStatus.PENDING, ExampleStatus.UNCHECKED, ExampleStatus.FLAGGED, ExampleStatus.UNCONFIRMED)
# With more votes there are too many orders to try.
MOST_IN_ANY_ORDER = 6


@dataclass(frozen=True)
class ArchivedVote:
    """A label, or an answer with its start, or a flag; unlike a VoteValue it can be a key."""

    label: str | None = None
    answer: str | None = None
    start: int | None = None
    flag: str | None = None
    established: bool = False

    @property
    def value(self) -> VoteValue:
        """The vote as it is counted."""
        answer = None if self.answer is None else {"text": self.answer, "start": self.start}
        return VoteValue(self.label, answer, self.flag, self.established)


class Recount:
    """Compares the examples of an archive with the outcome of their votes."""

    def __init__(self, folder: Path, columns: Columns) -> None:
        self._folder = folder
        self._columns = columns
        self.done = False
        self.unchecked: list[str] = []

    def problems(self) -> Iterator[str]:
        """Yield problems: decisions that no order of the votes gives, and gold labels of undecided examples."""
        count = self._count()
        wrong = not_yet = settled = unsure = taken = 0
        for status, author, gold, votes in self._rows():
            if status in DECIDED and count is not None:
                verdict = count(status, author, gold, votes)
                wrong += verdict == "wrong"
                settled += verdict == "settled"
                unsure += verdict == "unsure"
            elif status not in DECIDED:
                taken += 1
                not_yet += status in NOT_YET and gold != ArchivedVote()
        if wrong:
            yield f"{plural(wrong, 'example is', 'examples are')} decided differently from their votes; {REPAIR}"
        if not_yet:
            yield f"{plural(not_yet, 'example has', 'examples have')} a gold label but no decision; {REPAIR}"
        parts = (
            (settled, "label that was settled", "labels that were settled", "where validators disagreed"),
            (unsure, "example", "examples", "with too many votes to try every order"),
            (taken, "example that is", "examples that are", "withdrawn or undecided"),
        )
        self.unchecked += [f"{plural(number, one, many)} {rest}" for number, one, many, rest in parts if number]

    def _count(self) -> Callable[[str, ArchivedVote, ArchivedVote, tuple[ArchivedVote, ...]], str] | None:
        counter = VoteCounter(self._columns.spec)
        try:
            counter.policy  # noqa: B018 - an unknown policy is reported once, and not for every example
        except PolicyError as error:
            self.unchecked.append(f"gold labels ({error})")
            return None
        self.done = True
        # There are few labels, and few ways to vote on them.
        return lru_cache(maxsize=100_000)(partial(_verdict, counter))

    def _rows(self) -> Iterator[tuple[str, ArchivedVote, ArchivedVote, tuple[ArchivedVote, ...]]]:
        names = [name for prefix in ("", "gold_") for name, _ in self._columns.target(prefix)]
        for batch in table_batches(self._folder, "examples", ["status", *names, "votes"]):
            for row in batch.to_pylist():
                yield (
                    row["status"],
                    _vote_of(row),
                    _vote_of(row, "gold_"),
                    tuple(_vote_of(vote) for vote in row["votes"] or ()),
                )


def _vote_of(row: dict[str, Any], prefix: str = "") -> ArchivedVote:
    names = (f"{prefix}label", f"{prefix}answer", f"{prefix}answer_start", "" if prefix else "flag")
    label, answer, start, flag = (row.get(name) for name in names)
    return ArchivedVote(label, answer, start, flag, bool(row.get("established")))


def _verdict(
    counter: VoteCounter, status: str, author: ArchivedVote, gold: ArchivedVote, votes: tuple[ArchivedVote, ...]
) -> str:
    """Return `same`, `settled` or `wrong`, or `unsure` if it cannot be determined."""
    try:
        found = _compare(counter, status, author, gold, votes)
        # Votes count in the order of arrival, which their times do not always show.
        if found == "wrong" and len(votes) > MOST_IN_ANY_ORDER:
            return "unsure"
        if found == "wrong":
            orders = set(permutations(votes))
            others = {_compare(counter, status, author, gold, order) for order in orders}
            return next(one for one in ("same", "settled", "wrong") if one in others)
    except PolicyError:
        return "unsure"
    return found


def _compare(
    counter: VoteCounter, status: str, author: ArchivedVote, gold: ArchivedVote, votes: Sequence[ArchivedVote]
) -> str:
    own = author.value
    outcome = counter.outcome(own.label, own.answer, [vote.value for vote in votes])
    answer = outcome.gold_answer or {}
    counted = (outcome.status, ArchivedVote(outcome.gold_label, answer.get("text"), answer.get("start")))
    if counted == (status, gold):
        return "same"
    # The owner may settle disputed examples with Dawid-Skene.
    not_agreed = counted == (ExampleStatus.DISPUTED, ArchivedVote())
    is_authors = gold.label == author.label
    may_be = not_agreed and gold.label is not None and (status == ExampleStatus.VERIFIED) == is_authors
    return "settled" if may_be else "wrong"


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
            yield written_batch(spec, ids, authors, contents, texts)


class ArchivedDecisions:
    """The verified examples of a round in an archive, with the decision whether they are new."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def batches(self) -> Iterator[DecidedBatch]:
        """Yield batches in the archive's order, which is that of the ids."""
        for batch in table_batches(self._folder, "examples", ["id", "author", "status", "duplicate"]):
            some = batch.filter(pa.compute.equal(batch.column("status"), ExampleStatus.VERIFIED.value))
            yield DecidedBatch(*(some.column(name).to_pylist() for name in ("id", "author", "duplicate")))


def is_decided(manifest: ArchiveManifest) -> bool:
    """Return whether the archive's examples have the decision whether they are new."""
    rule = manifest.splits.get("rule", FIRST_RULE)
    return isinstance(rule, int) and rule >= RULE


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
        if rule not in (FIRST_RULE, SEARCH_RULE, RULE):
            yield f"the splits follow rule {rule}, which this version does not know; use a newer version of Outfox"
            return
        neighbours = self._neighbours() if self._spec.rounds.split_by_worker else {}
        found = _sides(stored.rounds, neighbours) if stored.rounds else None
        if found is None and stored.rounds:
            rounds = ", ".join(map(str, stored.rounds))
            self.unchecked.append(f"sides from rounds {rounds}, which are not all in the same folder")
        policy, seed = self._spec.rounds, split_seed(self._manifest.task, self._manifest.round)
        sides = found or stored
        if rule == RULE:
            plan, report = plan_decided(ArchivedDecisions(self._folder), policy, seed, sides)
        else:
            plan, report = plan_splits(ArchivedTexts(self._folder, self._spec), policy, seed, sides, rule=rule)
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
