"""Splits: which verified examples may be trained on, and which are held out, so that anybody can recompute it.

By worker (`split_by_worker`): a worker stays on the side that another round of the task gave them (`Sides`). The others
are taken in the order of a hash of the round and their pseudonym, and one is held out where that brings the held-out
part nearer to its share. Of two or more workers at least one is held out, if need be the one who wrote least, and at
least one is not, as far as sides allow it. Where one worker wrote everything, nothing is held out.
By example: those with the lowest hashes of the round and their id are held out.

Of exact duplicates the first is used. Near duplicates go where their first goes; where a worker's rule forbids it, they
are not used. What is not used has no split.

What goes where another's text goes does not count when parts are drawn: whoever wrote nothing else would fill no part.
By the first rule, which drew what has no `rule` in its manifest, it did.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from round_manager.archive.duplicates import Duplicates, Texts, WrittenBatch, find_duplicates
from round_manager.models import Split
from templates.sections import RoundPolicy

FIRST_RULE, RULE = 1, 2

ONE_WORKER = (
    "one worker wrote everything, so nothing is held out; with rounds.split_by_worker: false their examples are split"
)
NOBODY_NEW = "all who could be held out were trained on in another round, so nothing is held out"
NOBODY_TO_TRAIN = "all who wrote were held out in another round, so there is nothing to train on"
NOT_COUNTED = "; workers who wrote nothing but near duplicates of others' texts are not counted"
ONE_TEXT = "there is one text only, duplicates aside, so one part is empty"


@dataclass(frozen=True)
class Sides:
    """The sides that workers have since other rounds of the task: those rounds, and who is on which side.

    Whoever was trained on anywhere is on that side, so that no held-out part has a worker whom a model knows.
    """

    rounds: tuple[int, ...] = ()
    train: frozenset[str] = frozenset()
    held_out: frozenset[str] = frozenset()

    def of(self, workers: Collection[str]) -> "Sides":
        """The same for some workers only."""
        return Sides(self.rounds, self.train.intersection(workers), self.held_out.intersection(workers))

    @classmethod
    def told_in(cls, splits: Mapping[str, Any]) -> Self:
        """The sides that a manifest tells."""
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

    def told(self) -> dict[str, Any]:
        """As manifests and the audit log write it: sides only where other rounds were split before, no first rule."""
        told = asdict(self)
        del told["sides"]
        if self.rule == FIRST_RULE:
            del told["rule"]
        if self.sides.rounds:
            told["sides_from"] = list(self.sides.rounds)
            told["came_to_train"], told["came_held_out"] = sorted(self.sides.train), sorted(self.sides.held_out)
        return told

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Self:
        """The report that was told so."""
        own = {name: value for name, value in told.items() if name in cls.__dataclass_fields__}
        return cls(**own, sides=Sides.told_in(told))


@dataclass(frozen=True)
class SplitPlan:
    """Where each verified example goes."""

    seed: str
    by_worker: bool
    held_out_workers: frozenset[str]
    border: int
    duplicates: Duplicates

    def part(self, example: str, author: str) -> Split | None:
        """The part of a verified example, or None where it is not used."""
        if example in self.duplicates.exact:
            return None
        own = self.own_part(example, author)
        group = self.duplicates.near.get(example)
        if group is None or group == example:
            return own
        first = self.own_part(group, self.duplicates.authors[group])
        return first if first is own or not self.by_worker else None

    def own_part(self, example: str, author: str) -> Split:
        """Where it would go if nothing were like it."""
        held_out = author in self.held_out_workers if self.by_worker else _place(self.seed, example) < self.border
        return Split.HELD_OUT if held_out else Split.TRAIN


def plan_splits(
    texts: Texts, policy: RoundPolicy, seed: str, sides: Sides | None = None, *, rule: int = RULE
) -> tuple[SplitPlan, SplitReport]:
    """The plan for a round's verified examples, and what there is to tell about it."""
    tally = _Tally(texts, seed, keep_places=not policy.split_by_worker)
    duplicates = find_duplicates(tally)
    written = tally.written - Counter(duplicates.authors[one] for one in duplicates.exact)
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
        border = _border(tally.places_but([*duplicates.exact, *following]), policy.held_out_share)
        plan = SplitPlan(seed, False, frozenset(), border, duplicates)
        held_out = int((tally.places_but(duplicates.exact) < border).sum())
        alone = counted.total() == 1 and 0 < policy.held_out_share < 1
        note = ONE_TEXT if alone and rule != FIRST_RULE else ""
    return plan, _report(plan, policy, written, held_out, note=note, sides=known, rule=rule)


def _following(duplicates: Duplicates, *, by_worker: bool) -> list[str]:
    """The near duplicates that go where another's text goes: by worker, those of somebody else's first."""
    whose = duplicates.authors if by_worker else {one: one for one in duplicates.near}
    return [one for one, first in duplicates.near.items() if whose[one] != whose[first]]


class _Tally:
    """Texts that are counted while they are read for the first time."""

    def __init__(self, texts: Texts, seed: str, *, keep_places: bool) -> None:
        self._texts = texts
        self._seed = seed
        self._keep_places = keep_places
        self._places: list[NDArray[np.uint64]] = []
        self._counted = False
        self.written: Counter[str] = Counter()

    def batches(self) -> Iterator[WrittenBatch]:
        for batch in self._texts.batches():
            if not self._counted:
                self.written.update(batch.authors)
                if self._keep_places:
                    self._places.append(np.array([_place(self._seed, one) for one in batch.ids], np.uint64))
            yield batch
        self._counted = True

    def places_but(self, ids: Iterable[str]) -> NDArray[np.uint64]:
        """The places of all but these, the lowest first."""
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
    # Of several the one who wrote least never wrote more than half; of those who are new, it may be.
    spare = [worker for worker in new if 2 * written[worker] <= written.total()]
    if not held and share > 0 and spare:
        held.add(min(spare, key=lambda worker: (written[worker], _place(seed, worker))))
    return frozenset(held)


def _border(places: NDArray[np.uint64], share: float) -> int:
    """Those below it are held out: the share of them all, of two or more at least one, and never all but by wish."""
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
    exact = len(plan.duplicates.exact)
    return SplitReport(
        verified=written.total() + exact,
        train=parts[Split.TRAIN],
        held_out=parts[Split.HELD_OUT],
        held_out_share=policy.held_out_share,
        by_worker=plan.by_worker,
        workers=len(written),
        exact_duplicates=exact,
        near_duplicates=len(plan.duplicates.near) - plan.duplicates.near_groups,
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
    """A number from 0 to 2**64 that follows from the round and the name alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8])
