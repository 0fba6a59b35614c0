"""Slots: what answers for each task and round in this process, and the models that are loaded for it."""

import threading
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from ml_backend.errors import BackendError
from ml_backend.predictor import Predictor
from ml_backend.registry.candidate import Load, prepare
from ml_backend.registry.errors import NotServed
from ml_backend.registry.pins import Book, Pins, plain
from ml_backend.registry.registry import Failure, Registry, Served

SECONDS_BETWEEN_TRIES = 5.0
LONGEST_ERROR = 1_000

Key = tuple[str, int | None]
Version = tuple[str, str]


@dataclass(frozen=True)
class Serving:
    """What answers a request, from its first line to its last; `round` is None where the task's current pins do."""

    task: str
    round: int | None
    generation: int
    predictors: tuple[Predictor, ...]


@dataclass(eq=False)
class Slot:
    """Pins and what answers for them; nothing does while the versions are not loaded."""

    pins: Pins
    serving: Serving | None
    used: float = field(default_factory=time.monotonic)
    since: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True)
class Fault:
    """Why pins could not be loaded, and when that was tried."""

    error: str
    retry: bool
    at: float

    @classmethod
    def of(cls, error: BackendError) -> "Fault":
        """The fault that an error tells."""
        return cls(plain(str(error), LONGEST_ERROR), error.retry, time.monotonic())


class Slots:
    """The slots of a process; one thread at a time changes them, and readers of `table` never wait."""

    def __init__(self, registry: Registry, load: Load, spare: int) -> None:
        self._registry = registry
        self._load = load
        self._spare = spare
        self._changing = threading.Lock()
        self._followed: set[str] = set()
        self._used: dict[Version, float] = {}
        # These are replaced as a whole and never changed.
        self.table: Mapping[Key, Slot] = {}
        self.faults: Mapping[Key, Fault] = {}
        self.loaded: Mapping[Version, Predictor] = {}

    def follow(self, book: Book) -> Served:
        """Make the slots those of the book, as far as they load; what does not load leaves the old one in its place."""
        with self._changing:
            first = book.task not in self._followed
            table = {key: slot for key, slot in self.table.items() if key[0] != book.task}
            faults = {key: fault for key, fault in self.faults.items() if key[0] != book.task}
            failures = []
            for place, pins in enumerate(book.all()):
                key = (pins.task, pins.round)
                old = self.table.get(key)
                slot: Slot | None
                try:
                    slot = self._slot(old, pins, eager=not first or place <= self._spare)
                except BackendError as error:
                    # A round that was pinned before this process began must not be answered for by other versions.
                    slot = old or (Slot(pins, None) if first else None)
                    faults[key] = Fault.of(error)
                    failures.append(Failure(round=pins.round, error=faults[key].error, retry=error.retry))
                if slot:
                    table[key] = slot
            self._followed.add(book.task)
            self.faults = faults
            self._show(table)
        return Served(book=book.id, generation=book.generation, failures=tuple(failures))

    def load_again(self, task: str, round: int | None) -> Serving:
        """What answers for pins whose versions had made room for others, loaded while the caller waits."""
        with self._changing:
            key = (task, round) if (task, round) in self.table else (task, None)
            slot, fault = self.table.get(key), self.faults.get(key)
            if slot and slot.serving:
                return slot.serving
            if fault and (slot is None or time.monotonic() - fault.at < SECONDS_BETWEEN_TRIES):
                raise NotServed(fault.error, retry=True)
            if slot is None:
                cure = f"pin one with `outfox model rotate {task} VERSION`"
                raise NotServed(f"no model is pinned for {task}; {cure}", retry=True)
            others = {one: fault for one, fault in self.faults.items() if one != key}
            try:
                serving = self._serving(slot.pins)
            except BackendError as error:
                self.faults = {**others, key: Fault.of(error)}
                raise NotServed(str(error), retry=True) from error
            self.faults = others
            self._show({**self.table, key: Slot(slot.pins, serving)})
        return serving

    def _slot(self, old: Slot | None, pins: Pins, *, eager: bool) -> Slot:
        if old and old.pins == pins and (pins.task, pins.round) not in self.faults:
            return old
        return Slot(pins, self._serving(pins) if eager else None)

    def _serving(self, pins: Pins) -> Serving:
        for version in pins.versions:
            key = (pins.task, version)
            if key not in self.loaded:
                self.loaded = {**self.loaded, key: prepare(self._registry, self._load, *key)}
            self._used[key] = time.monotonic()
        predictors = tuple(self.loaded[pins.task, version] for version in pins.versions)
        return Serving(pins.task, pins.round, pins.generation, predictors)

    def _show(self, table: Mapping[Key, Slot]) -> None:
        """Make the table the one that answers; then free what is neither current nor was asked lately."""
        before, self.table = self.table, table
        for slot in (*before.values(), *table.values()):
            for version in slot.pins.versions if slot.serving else ():
                key = (slot.pins.task, version)
                self._used[key] = max(slot.used, self._used.get(key, 0.0))
        current = {(key[0], version) for key, slot in table.items() if key[1] is None for version in slot.pins.versions}
        spare = sorted(self.loaded.keys() - current, key=lambda version: self._used[version], reverse=True)
        kept = current.union(spare[: self._spare])
        self.loaded = {version: predictor for version, predictor in self.loaded.items() if version in kept}
        self._used = {version: used for version, used in self._used.items() if version in kept}
        self.table = {key: _without(slot, kept) for key, slot in table.items()}


def _without(slot: Slot, kept: Set[Version]) -> Slot:
    whole = all((slot.pins.task, version) in kept for version in slot.pins.versions)
    return slot if whole else replace(slot, serving=None)
