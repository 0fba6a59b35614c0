"""Splits: which verified examples are for training and which are held out; anyone can recompute them.

By worker (`split_by_worker`): a worker stays on the side that another round of the task gave them (`Sides`). The others
are taken in the order of a hash of the round and their pseudonym, and one is held out if that brings the held-out part
closer to its share. Of two or more workers at least one is held out, if necessary the one who wrote least, and at least
one is not, as far as the sides allow it. If one worker wrote everything, nothing is held out.
By example: the examples with the lowest hashes of the round and their id are held out.

Duplicates are not used and have no split: it is stored with each example whether its text is new, and the bonus follows
the same decision. Rounds that were opened before this was stored keep the rules of their time. By rule 2, of exact
duplicates the first is used, and near duplicates go to the part of their first; if the rule for workers forbids it,
they are not used. Near duplicates that follow another text do not count when the parts are drawn: a worker who wrote
nothing else would fill no part. By rule 1, which applies to manifests without a `rule`, they did count.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from round_manager.archive.duplicates import (
    DecidedBatch,
    DecidedTexts,
    Duplicates,
    Texts,
    WrittenBatch,
    find_duplicates,
)
from round_manager.models import Duplicate, Split
from templates.sections import RoundPolicy

FIRST_RULE, SEARCH_RULE, RULE = 1, 2, 3

ONE_WORKER = (
    "one worker wrote everything, so nothing is held out; with rounds.split_by_worker: false their examples are split"
)
NOBODY_NEW = "all who could be held out were trained on in another round, so nothing is held out"
NOBODY_TO_TRAIN = "all who wrote were held out in another round, so there is nothing to train on"
NOT_COUNTED = "; workers who wrote nothing but near duplicates of others' texts are not counted"
ONE_TEXT = "there is one text only, duplicates aside, so one part is empty"


def split_seed(task: str, number: int) -> str:
    """Return the seed of a round's splits, which are planned from it with ids and pseudonyms."""
    return f"{task}/{number}"


@dataclass(frozen=True)
class Sides:
    """The sides that other rounds of the task gave to workers: those rounds, and the workers on each side.

    A worker whose examples were trained on in any round is on that side, so that no model knows a held-out worker.
    """

    rounds: tuple[int, ...] = ()
    train: frozenset[str] = frozenset()
    held_out: frozenset[str] = frozenset()

    def of(self, workers: Collection[str]) -> "Sides":
        """Return the sides of some workers only."""
        return Sides(self.rounds, self.train.intersection(workers), self.held_out.intersection(workers))

    @classmethod
    def from_data(cls, splits: Mapping[str, Any]) -> Self:
        """Read the sides from a manifest."""
        parts = (frozenset(map(str, splits.get(name, ()))) for name in ("came_to_train", "came_held_out"))
        return cls(tuple(int(number) for number in splits.get("sides_from", ())), *parts)


@dataclass(frozen=True)
class SplitReport:
    """How a round was split, and why some verified examples are in no part."""

    verified: int
    train: int
    held_out: int
    held_out_share: float
    by_worker: bool
    workers: int
    exact_duplicates: int
    near_duplicates: int
    near_groups: int
    kept_apart: int
    note: str = ""
    sides: Sides = Sides()
    rule: int = FIRST_RULE

    def as_data(self) -> dict[str, Any]:
        """Return the report as manifests and the audit log store it."""
        data = asdict(self)
        del data["sides"]
        if self.rule == FIRST_RULE:
            del data["rule"]
        if self.sides.rounds:
            data["sides_from"] = list(self.sides.rounds)
            data["came_to_train"], data["came_held_out"] = sorted(self.sides.train), sorted(self.sides.held_out)
        return data

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Read a stored report."""
        own = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        return cls(**own, sides=Sides.from_data(data))


@dataclass(frozen=True)
class SplitPlan:
    """The part of each verified example."""

    seed: str
    by_worker: bool
    held_out_workers: frozenset[str]
    border: int
    duplicates: Duplicates

    def part(self, example: str, author: str) -> Split | None:
        """Return the part of a verified example; None if it is not used."""
        if example in self.duplicates.unused:
            return None
        own = self.own_part(example, author)
        group = self.duplicates.near.get(example)
        if group is None or group == example:
            return own
        first = self.own_part(group, self.duplicates.authors[group])
        return first if first is own or not self.by_worker else None

    def own_part(self, example: str, author: str) -> Split:
        """Return the part that the example would have without duplicates."""
        held_out = author in self.held_out_workers if self.by_worker else _place(self.seed, example) < self.border
        return Split.HELD_OUT if held_out else Split.TRAIN


def plan_splits(
    texts: Texts, policy: RoundPolicy, seed: str, sides: Sides | None = None, *, rule: int = SEARCH_RULE
) -> tuple[SplitPlan, SplitReport]:
    """Return the plan for the verified examples of a round without stored decisions, and its report."""
    tally = _Tally[WrittenBatch](texts.batches, seed, keep_places=not policy.split_by_worker)
    return _plan(tally, find_duplicates(tally), policy, seed, sides, rule)


def plan_decided(
    texts: DecidedTexts, policy: RoundPolicy, seed: str, sides: Sides | None = None
) -> tuple[SplitPlan, SplitReport]:
    """Return the plan for a round's verified examples, which are used if they are new, and its report."""
    tally = _Tally[DecidedBatch](texts.batches, seed, keep_places=not policy.split_by_worker)
    found = Duplicates()
    for batch in tally.batches():
        for one, author, how in zip(batch.ids, batch.authors, batch.duplicates, strict=True):
            if how is not None:
                found.decided[one], found.authors[one] = Duplicate(how), author
    return _plan(tally, found, policy, seed, sides, RULE)


def _plan(
    tally: "_Tally[Any]", duplicates: Duplicates, policy: RoundPolicy, seed: str, sides: Sides | None, rule: int
) -> tuple[SplitPlan, SplitReport]:
    written = tally.written - Counter(duplicates.authors[one] for one in duplicates.unused)
    following = [] if rule == FIRST_RULE else _following(duplicates, by_worker=policy.split_by_worker)
    counted = written - Counter(duplicates.authors[one] for one in following)
    known = (sides or Sides()).of(written) if policy.split_by_worker else Sides()
    if policy.split_by_worker:
        drawn = _held_out_workers(counted, policy.held_out_share, seed, known.of(counted))
        plan = SplitPlan(seed, True, drawn | known.held_out, 0, duplicates)
        held_out = sum(written[worker] for worker in plan.held_out_workers)
        note = _note(policy, counted, sum(counted[worker] for worker in drawn), known.of(counted))
        note += NOT_COUNTED if note and len(counted) < len(written) else ""
    else:
        border = _border(tally.places_but([*duplicates.unused, *following]), policy.held_out_share)
        plan = SplitPlan(seed, False, frozenset(), border, duplicates)
        held_out = int((tally.places_but(duplicates.unused) < border).sum())
        alone = counted.total() == 1 and 0 < policy.held_out_share < 1
        note = ONE_TEXT if alone and rule != FIRST_RULE else ""
    return plan, _report(plan, policy, written, held_out, note=note, sides=known, rule=rule)


def _following(duplicates: Duplicates, *, by_worker: bool) -> list[str]:
    """Return the near duplicates that follow another text; by worker, those that follow another worker's text."""
    whose = duplicates.authors if by_worker else {one: one for one in duplicates.near}
    return [one for one, first in duplicates.near.items() if whose[one] != whose[first]]


BatchType = TypeVar("BatchType", WrittenBatch, DecidedBatch)


class _Tally(Generic[BatchType]):
    """Counts texts while they are read for the first time."""

    def __init__(self, read: Callable[[], Iterator[BatchType]], seed: str, *, keep_places: bool) -> None:
        self._read: Callable[[], Iterator[BatchType]] = read
        self._seed = seed
        self._keep_places = keep_places
        self._places: list[NDArray[np.uint64]] = []
        self._counted = False
        self.written: Counter[str] = Counter()

    def batches(self) -> Iterator[BatchType]:
        for batch in self._read():
            if not self._counted:
                self.written.update(batch.authors)
                if self._keep_places:
                    self._places.append(np.array([_place(self._seed, one) for one in batch.ids], np.uint64))
            yield batch
        self._counted = True

    def places_but(self, ids: Iterable[str]) -> NDArray[np.uint64]:
        """Return the places of all but these, in ascending order."""
        found = np.concatenate([np.array([], np.uint64), *self._places])
        without = np.array([_place(self._seed, one) for one in ids], np.uint64)
        return np.sort(found[~np.isin(found, without)])


def _held_out_workers(written: Counter[str], share: float, seed: str, sides: Sides) -> frozenset[str]:
    wanted = share * written.total()
    held = set(sides.held_out)
    sum_held = sum(written[worker] for worker in held)
    new = sorted(written.keys() - sides.train - sides.held_out, key=lambda worker: (_place(seed, worker), worker))
    for worker in new:
        if written[worker] < 2 * (wanted - sum_held) and (len(held) + 1 < len(written) or share == 1):
            held.add(worker)
            sum_held += written[worker]
    # The worker who wrote least wrote at most half; among new workers only, that need not hold.
    spare = [worker for worker in new if 2 * written[worker] <= written.total()]
    if not held and share > 0 and spare:
        held.add(min(spare, key=lambda worker: (written[worker], _place(seed, worker))))
    return frozenset(held)


def _border(places: NDArray[np.uint64], share: float) -> int:
    """Return the border below which examples are held out; of several, at least one is and one is not."""
    wanted = round(share * len(places))
    if 0 < share < 1 and len(places) > 1:
        wanted = min(max(wanted, 1), len(places) - 1)
    return int(places[wanted]) if wanted < len(places) else 2**64


def _report(
    plan: SplitPlan, policy: RoundPolicy, written: Counter[str], held_out: int, *, note: str, sides: Sides, rule: int
) -> SplitReport:
    parts = Counter({Split.HELD_OUT: held_out, Split.TRAIN: written.total() - held_out})
    unused = 0
    for one in plan.duplicates.near:
        author = plan.duplicates.authors[one]
        parts[plan.own_part(one, author)] -= 1
        part = plan.part(one, author)
        if part is None:
            unused += 1
        else:
            parts[part] += 1
    decided = Counter(plan.duplicates.decided.values())
    return SplitReport(
        verified=written.total() + len(plan.duplicates.unused),
        train=parts[Split.TRAIN],
        held_out=parts[Split.HELD_OUT],
        held_out_share=policy.held_out_share,
        by_worker=plan.by_worker,
        workers=len(written),
        exact_duplicates=len(plan.duplicates.exact) + decided[Duplicate.EXACT],
        near_duplicates=len(plan.duplicates.near) - plan.duplicates.near_groups + decided[Duplicate.NEAR],
        near_groups=plan.duplicates.near_groups,
        kept_apart=unused,
        note=note,
        sides=sides,
        rule=rule,
    )


def _note(policy: RoundPolicy, counted: Counter[str], held_out: int, sides: Sides) -> str:
    if not counted:
        return ""
    if held_out == 0 and policy.held_out_share > 0:
        return NOBODY_NEW if sides.train else ONE_WORKER
    return NOBODY_TO_TRAIN if held_out == counted.total() and sides.held_out else ""


def _place(seed: str, name: str) -> int:
    """Return a number from 0 to 2**64 that depends only on the round and the name."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8])
