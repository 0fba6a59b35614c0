"""The model pool: the models that one serving process answers with, swapped without interrupting requests.

A version is fetched, checked against the task's pack, warmed up and probed before it answers.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from common.errors import Hint, one_line
from ml_backend import errors
from ml_backend.artefact import read_manifest
from ml_backend.registry.pin_watcher import PinWatcher
from ml_backend.registry.pins import Pins, PinSet, clean_text
from ml_backend.registry.registry import FollowedPins, PinFailure, Registry
from ml_backend.targets.loading import check_ready, load_target
from ml_backend.targets.target import Target, joint_concurrency
from templates.pack import Pack

Load = Callable[[Path], Target]
SPARE = 2
RELOAD_INTERVAL = 5.0
MAX_ERROR = 1_000

Key = tuple[str, int | None]
VersionKey = tuple[str, str]


@dataclass(frozen=True)
class ModelLoader:
    """Loads versions for the tasks of these packs with one runtime."""

    packs: Mapping[str, Pack]
    runtime: str = "auto"

    def __call__(self, directory: Path) -> Target:
        """Load the version in the folder; raise a ModelError if it was not trained for the pack as it is now."""
        manifest = read_manifest(directory)
        pack = self.packs.get(manifest.task)
        if pack is None:
            raise errors.ModelMismatch(f"{directory} is a model for {manifest.task}, which is not served here")
        spec = pack.spec
        trained_for = (manifest.kind, sorted(manifest.labels), manifest.model_input)
        if trained_for != (spec.kind, sorted(spec.label_names), spec.model_input):
            text = f"version {manifest.version} was trained for other labels or fields than pack {spec.name} has now"
            raise errors.ModelMismatch(f"{text}; train the model again")
        return load_target(directory, runtime=self.runtime)


def prepare(registry: Registry, load: Load, task: str, version: str) -> Target:
    """Fetch, load and warm up a version and check its probes; raise a ModelError if it is not fit to serve."""
    directory = registry.fetch(task, version)
    try:
        target = load(directory)
        check_ready(target)
    except errors.BackendError:
        raise
    except Exception as error:
        # A runtime may raise anything; it must not stop the model that answers now.
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise errors.ModelError(
            f"version {version} of {task} does not load ({reason}); train or export it again"
        ) from error
    if target.version != version:
        raise errors.ModelFileCorrupt(
            f"{directory} identifies itself as {target.version}; restore the folder or train again"
        )
    return target


@dataclass(frozen=True)
class ServedModels:
    """The models that answer one request from start to end; `round` is None if the task's own pins apply."""

    task: str
    round: int | None
    generation: int
    targets: tuple[Target, ...]

    @cached_property
    def concurrency(self) -> int | None:
        """How many calls may run at a time; None if this machine's processors set the limit."""
        return joint_concurrency(self.targets)


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
class ModelPoolState:
    """The state of the pool for operators; `registry_error` is None while the registry can be followed."""

    slots: tuple[SlotState, ...]
    loaded: tuple[str, ...]
    registry_error: str | None
    registry_error_since: datetime | None


class ModelPool:
    """Loads the pinned versions and, after each change of the pins, the new ones while the old ones answer.

    The versions pinned for tasks stay loaded. Besides them, at most `spare` others do, the most recently used: those
    pinned for rounds, which are loaded again on demand, and those that were replaced. With `can_serve`, the pool also
    serves every other task that has pins and for which `can_serve` returns True, as soon as there is one.
    """

    def __init__(
        self,
        registry: Registry,
        load: Load,
        tasks: Sequence[str],
        *,
        spare: int = SPARE,
        can_serve: Callable[[str], bool] | None = None,
    ) -> None:
        if spare < 1:
            raise ValueError("a model pool needs room for at least one spare version")
        self._slots = _Slots(registry, load, spare)
        self._watcher = PinWatcher(registry, tasks, self._slots.follow, can_serve)

    def start(self) -> None:
        """Load the pinned versions, then watch the pins in threads; an unreachable registry is retried there."""
        self._watcher.start()

    def stop(self) -> None:
        """Stop watching and remove the heartbeat; call it after the last request."""
        self._watcher.stop()

    def models_for(self, task: str, round: int | None = None) -> ServedModels:
        """Return the models that answer new requests for the task or round; raise NotServed if there are none."""
        now = time.monotonic()
        if now > self._watcher.trusted_until:
            self._watcher.catch_up()
        table = self._slots.table
        slot = table.get((task, round)) or table.get((task, None))
        if slot is None or slot.models is None:
            return self._load(task, round)
        slot.used = now
        return slot.models

    def state(self) -> ModelPoolState:
        """Return what is served, since when, and what is wrong."""
        keys = sorted({*self._slots.table, *self._slots.faults}, key=lambda key: (key[0], key[1] or 0))
        loaded = tuple(sorted(version for _, version in self._slots.loaded))
        error, since = self._watcher.problem or (None, None)
        return ModelPoolState(tuple(self._state(key) for key in keys), loaded, error, since)

    def _load(self, task: str, round: int | None) -> ServedModels:
        if not self._watcher.follows(task):
            raise errors.TaskNotServed(f"task {task} is not served here; check the address")
        return self._slots.load_again(task, round)

    def _state(self, key: Key) -> SlotState:
        slot, fault = self._slots.table.get(key), self._slots.faults.get(key)
        error = fault.error if fault else None
        if slot is None:
            return SlotState(*key, 0, (), False, None, error)
        return SlotState(*key, slot.pins.generation, slot.pins.versions, slot.models is not None, slot.since, error)


@dataclass(eq=False)
class _Slot:
    """Pins and the models that answer for them; None while the versions are not loaded."""

    pins: Pins
    models: ServedModels | None
    used: float = field(default_factory=time.monotonic)
    since: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True)
class _Fault:
    """Why pins could not be loaded, and when that was last attempted."""

    error: str
    at: float

    @classmethod
    def of(cls, error: errors.BackendError) -> "_Fault":
        return cls(clean_text(str(error), MAX_ERROR), time.monotonic())


class _Slots:
    """The slots of a process; one thread at a time changes them, and readers of `table` never wait."""

    def __init__(self, registry: Registry, load: Load, spare: int) -> None:
        self._registry = registry
        self._load = load
        self._spare = spare
        self._changing = threading.Lock()
        self._used: dict[VersionKey, float] = {}
        self._followed: set[str] = set()
        # Replaced as a whole and never changed in place.
        self.table: Mapping[Key, _Slot] = {}
        self.faults: Mapping[Key, _Fault] = {}
        self.loaded: Mapping[VersionKey, Target] = {}

    def follow(self, pin_set: PinSet) -> FollowedPins:
        """Apply a pin set as far as its versions load; a slot whose versions do not load keeps its old models."""
        with self._changing:
            first = pin_set.task not in self._followed
            table = {key: slot for key, slot in self.table.items() if key[0] != pin_set.task}
            faults = {key: fault for key, fault in self.faults.items() if key[0] != pin_set.task}
            failures = []
            for place, pins in enumerate(pin_set.all()):
                key = (pins.task, pins.round)
                old = self.table.get(key)
                slot: _Slot | None
                try:
                    slot = self._slot(old, pins, eager=not first or place <= self._spare)
                except errors.BackendError as error:
                    # A round that was pinned before this process started must not be answered by other versions.
                    slot = old or (_Slot(pins, None) if first else None)
                    faults[key] = _Fault.of(error)
                    failures.append(PinFailure(round=pins.round, error=faults[key].error, retry=error.retry))
                if slot:
                    table[key] = slot
            self._followed.add(pin_set.task)
            self.faults = faults
            self._publish(table)
        return FollowedPins(book=pin_set.id, generation=pin_set.generation, failures=tuple(failures))

    def load_again(self, task: str, round: int | None) -> ServedModels:
        """Load the versions of a slot that made room for others, while the caller waits."""
        with self._changing:
            key = (task, round) if (task, round) in self.table else (task, None)
            slot, fault = self.table.get(key), self.faults.get(key)
            if slot and slot.models:
                return slot.models
            if fault and (slot is None or time.monotonic() - fault.at < RELOAD_INTERVAL):
                raise errors.NotServed(fault.error)
            if slot is None:
                raise errors.NoModelPinned(f"no model is pinned for {task}", hint=Hint("rotate_model", task=task))
            others = {one: fault for one, fault in self.faults.items() if one != key}
            try:
                models = self._models(slot.pins)
            except errors.BackendError as error:
                self.faults = {**others, key: _Fault.of(error)}
                raise errors.NotServed(str(error)) from error
            self.faults = others
            self._publish({**self.table, key: _Slot(slot.pins, models)})
        return models

    def _slot(self, old: _Slot | None, pins: Pins, *, eager: bool) -> _Slot:
        if old and old.pins == pins and (pins.task, pins.round) not in self.faults:
            return old
        return _Slot(pins, self._models(pins) if eager else None)

    def _models(self, pins: Pins) -> ServedModels:
        for version in pins.versions:
            key = (pins.task, version)
            if key not in self.loaded:
                self.loaded = {**self.loaded, key: prepare(self._registry, self._load, *key)}
            self._used[key] = time.monotonic()
        targets = tuple(self.loaded[pins.task, version] for version in pins.versions)
        return ServedModels(pins.task, pins.round, pins.generation, targets)

    def _publish(self, table: Mapping[Key, _Slot]) -> None:
        """Make this the table that answers, then free versions that are neither current nor recently used."""
        before, self.table = self.table, table
        for slot in (*before.values(), *table.values()):
            for version in slot.pins.versions if slot.models else ():
                key = (slot.pins.task, version)
                self._used[key] = max(slot.used, self._used.get(key, 0.0))
        current = {(key[0], version) for key, slot in table.items() if key[1] is None for version in slot.pins.versions}
        spare = sorted(self.loaded.keys() - current, key=lambda version: self._used[version], reverse=True)
        kept = current.union(spare[: self._spare])
        self.loaded = {version: target for version, target in self.loaded.items() if version in kept}
        self._used = {version: used for version, used in self._used.items() if version in kept}
        self.table = {key: _without_freed(slot, kept) for key, slot in table.items()}


def _without_freed(slot: _Slot, kept: Set[VersionKey]) -> _Slot:
    complete = all((slot.pins.task, version) in kept for version in slot.pins.versions)
    return slot if complete else replace(slot, models=None)
