"""Splits: which verified examples may be trained on, and which are held out, so that anybody can recompute it.

By worker (`split_by_worker`): workers are taken in the order of a hash of the round and their pseudonym, and one is
held out where that brings the held-out part nearer to its share. Of two or more workers at least one is held out, if
need be the one who wrote least, and at least one is not. Where one worker wrote everything, nothing is held out.
By example: those with the lowest hashes of the round and their id are held out.

Of exact duplicates the first is used. Near duplicates go where their first goes; where a worker's rule forbids it, they
are not used. What is not used has no split.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from round_manager.archive.duplicates import Duplicates, Texts, Written, find_duplicates
from round_manager.models import Split
from templates.policy import RoundPolicy

ONE_WORKER = (
    "one worker wrote everything, so nothing is held out; with rounds.split_by_worker: false their examples are split"
)


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

    def told(self) -> dict[str, Any]:
        """As manifests and the audit log write it."""
        return asdict(self)


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


def plan_splits(texts: Texts, policy: RoundPolicy, seed: str) -> tuple[SplitPlan, SplitReport]:
    """The plan for a round's verified examples, and what there is to tell about it."""
    tally = _Tally(texts, seed, keep_places=not policy.split_by_worker)
    duplicates = find_duplicates(tally)
    written = tally.written - Counter(duplicates.authors[one] for one in duplicates.exact)
    places = tally.places_but(duplicates.exact)
    held = _held_out_workers(written, policy.held_out_share, seed) if policy.split_by_worker else frozenset[str]()
    border = 0 if policy.split_by_worker else _border(places, policy.held_out_share)
    plan = SplitPlan(seed, policy.split_by_worker, held, border, duplicates)
    held_out = sum(written[worker] for worker in held) + int((places < border).sum())
    return plan, _report(plan, policy, written, held_out)


class _Tally:
    """Texts that are counted while they are read for the first time."""

    def __init__(self, texts: Texts, seed: str, *, keep_places: bool) -> None:
        self._texts = texts
        self._seed = seed
        self._keep_places = keep_places
        self._places: list[NDArray[np.uint64]] = []
        self._counted = False
        self.written: Counter[str] = Counter()

    def batches(self) -> Iterator[Written]:
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


def _held_out_workers(written: Counter[str], share: float, seed: str) -> frozenset[str]:
    wanted = share * written.total()
    held: set[str] = set()
    sum_held = 0
    workers = sorted(written, key=lambda worker: (_place(seed, worker), worker))
    for worker in workers:
        if written[worker] < 2 * (wanted - sum_held) and (len(held) + 1 < len(workers) or share == 1):
            held.add(worker)
            sum_held += written[worker]
    if not held and share > 0 and len(workers) > 1:
        held.add(min(workers, key=lambda worker: (written[worker], _place(seed, worker))))
    return frozenset(held)


def _border(places: NDArray[np.uint64], share: float) -> int:
    """Those below it are held out: the share of them all, of two or more at least one, and never all but by wish."""
    wanted = round(share * len(places))
    if 0 < share < 1 and len(places) > 1:
        wanted = min(max(wanted, 1), len(places) - 1)
    return int(places[wanted]) if wanted < len(places) else 2**64


def _report(plan: SplitPlan, policy: RoundPolicy, written: Counter[str], held_out: int) -> SplitReport:
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
    alone = plan.by_worker and len(written) == 1 and policy.held_out_share > 0
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
        note=ONE_WORKER if alone else "",
    )


def _place(seed: str, name: str) -> int:
    """A number from 0 to 2**64 that follows from the round and the name alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8])
