"""The shelf: the models that one serving process answers with, exchanged without a moment of doubt."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ml_backend.registry.candidate import Load
from ml_backend.registry.errors import NotServed
from ml_backend.registry.registry import Registry
from ml_backend.registry.slots import Key, Serving, Slots
from ml_backend.registry.watch import Watch

__all__ = ["Serving", "Shelf", "ShelfState", "SlotState"]

SPARE = 2


@dataclass(frozen=True)
class SlotState:
    """What this process answers with for a task or a round; `error` says why newer pins could not be loaded."""

    task: str
    round: int | None
    generation: int
    versions: tuple[str, ...]
    loaded: bool
    since: datetime | None
    error: str | None


@dataclass(frozen=True)
class ShelfState:
    """All that an operator may want to know; `registry_error` is None while the registry can be followed."""

    slots: tuple[SlotState, ...]
    loaded: tuple[str, ...]
    registry_error: str | None
    registry_error_since: datetime | None


class Shelf:
    """Loads what is pinned, and after each change of the pins the new versions, while the old ones answer.

    Current versions stay loaded. Besides them at most `spare` others do, those that were asked last: the ones that
    rounds pin, which are loaded again when they are asked, and the ones that were replaced. With `knows`, every task of
    the registry that has pins and that it knows is served too, as soon as there is one.
    """

    def __init__(
        self,
        registry: Registry,
        load: Load,
        tasks: Sequence[str],
        *,
        spare: int = SPARE,
        knows: Callable[[str], bool] | None = None,
    ) -> None:
        if spare < 1:
            raise ValueError("a shelf needs room for one version besides the current ones")
        self._slots = Slots(registry, load, spare)
        self._watch = Watch(registry, tasks, self._slots.follow, knows)

    def start(self) -> None:
        """Loads what is pinned, then watches the pins in threads; a registry that does not answer may still come."""
        self._watch.start()

    def stop(self) -> None:
        """Ends the watching and tells the others; call it when the last request is answered."""
        self._watch.stop()

    def serving(self, task: str, round: int | None = None) -> Serving:
        """What answers new work for the task or round; NotServed where there is nothing."""
        now = time.monotonic()
        if now > self._watch.trusted_until:
            self._watch.catch_up()
        table = self._slots.table
        slot = table.get((task, round)) or table.get((task, None))
        if slot is None or slot.serving is None:
            return self._load(task, round)
        slot.used = now
        return slot.serving

    def state(self) -> ShelfState:
        """What is served, since when, and what is wrong."""
        keys = sorted({*self._slots.table, *self._slots.faults}, key=lambda key: (key[0], key[1] or 0))
        loaded = tuple(sorted(version for _, version in self._slots.loaded))
        error, since = self._watch.trouble or (None, None)
        return ShelfState(tuple(self._state(key) for key in keys), loaded, error, since)

    def _load(self, task: str, round: int | None) -> Serving:
        if not self._watch.serves(task):
            raise NotServed(f"task {task} is not served here; check the address", retry=False)
        return self._slots.load_again(task, round)

    def _state(self, key: Key) -> SlotState:
        slot, fault = self._slots.table.get(key), self._slots.faults.get(key)
        error = fault.error if fault else None
        if slot is None:
            return SlotState(*key, 0, (), False, None, error)
        return SlotState(*key, slot.pins.generation, slot.pins.versions, slot.serving is not None, slot.since, error)
