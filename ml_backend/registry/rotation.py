"""Rotation: pin other versions and wait until no serving process answers with the old ones."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.errors import Hint
from common.progress import NoProgress, Progress
from ml_backend import errors
from ml_backend.registry.model_pool import Load, prepare
from ml_backend.registry.pins import Pins, PinSet, check_pins, check_task, name_of
from ml_backend.registry.registry import Heartbeat, Registry

CONFIRM_SECONDS = 60.0
UNDO_SECONDS = 10.0


def _no_check() -> None:
    """Accept every rotation."""


def rotate(
    registry: Registry,
    task: str,
    versions: Sequence[str],
    *,
    load: Load,
    round: int | None = None,
    timeout: float = CONFIRM_SECONDS,
    progress: Progress | None = None,
    who: str = "",
    why: str = "",
    before_pinning: Callable[[], None] = _no_check,
) -> Pins:
    """Load the versions here, pin them, and return when every serving process answers with them.

    If a process cannot load them or does not confirm in time, the old pins are restored and an error says why.
    `before_pinning` is called when all versions are loaded, just before they are pinned; if it raises, nothing changes.
    """
    rotation = _Rotation(
        registry, check_task(task), round, load, timeout, progress or NoProgress(), who, why, before_pinning
    )
    return rotation.to(versions, None)


def rollback(
    registry: Registry,
    task: str,
    *,
    load: Load,
    round: int | None = None,
    timeout: float = CONFIRM_SECONDS,
    progress: Progress | None = None,
    who: str = "",
    why: str = "",
) -> Pins:
    """Rotate to the previous pins; another rollback goes one step further back."""
    before = registry.pin_set(check_task(task)).before(round)
    if before is None:
        raise errors.NoEarlierPins(f"{name_of(task, round)} has no earlier pins", hint=Hint("show_pins", task=task))
    rotation = _Rotation(registry, task, round, load, timeout, progress or NoProgress(), who, why or "rollback")
    return rotation.to(before.versions, before.repeats or before.generation)


def wait_for_servers(registry: Registry, task: str, timeout: float, *, is_running: bool = False) -> list[Heartbeat]:
    """Return the processes that answer for a task.

    If processes serve only other tasks, wait up to `timeout` seconds for one of them to start serving it. One without
    any task has no heartbeat; `is_running` says that the caller knows of a process.
    """
    deadline = time.monotonic() + timeout
    while True:
        ready = [heartbeat for heartbeat in registry.heartbeats(task) if heartbeat.tasks[task].generation]
        if ready or time.monotonic() > deadline:
            return ready
        if not is_running and not any(map(registry.heartbeats, registry.tasks())):
            return ready
        time.sleep(registry.timing.wait)


@dataclass(frozen=True)
class _Rotation:
    registry: Registry
    task: str
    round: int | None
    load: Load
    timeout: float
    progress: Progress
    who: str
    why: str
    before_pinning: Callable[[], None] = _no_check

    def to(self, versions: Sequence[str], repeats: int | None) -> Pins:
        chosen = check_pins(versions, self.round)
        if not chosen:
            raise errors.InvalidPins("no version to rotate to was given", hint=Hint("list_models", task=self.task))
        pin_set = self.registry.pin_set(self.task)
        before, seen = pin_set.own(self.round), pin_set.pins(self.round)
        self._check(chosen)
        self.before_pinning()
        if before and before.versions == chosen:
            # Already pinned: a new generation makes every process load and confirm again.
            repeats = pin_set.origin(before.generation)
        pins = self._pin(chosen, after=seen.generation if seen else 0, repeats=repeats, why=self.why)
        try:
            self._wait(pins)
        except (errors.RotationRefused, errors.RotationNotConfirmed) as error:
            raise type(error)(f"{error}; {self._undo(pins, pin_set)}") from error
        except BaseException:
            self._undo(pins, pin_set)
            raise
        return pins

    def _check(self, versions: Sequence[str]) -> None:
        """Load every version in this process first, where a failure affects no server."""
        self.progress.start(len(versions), "Loading the candidate" if len(versions) == 1 else "Loading the candidates")
        for version in versions:
            prepare(self.registry, self.load, self.task, version)
            self.progress.advance(1, version)
        self.progress.finish()

    def _pin(self, versions: Sequence[str], *, after: int, repeats: int | None, why: str) -> Pins:
        try:
            return self.registry.set_pins(
                self.task, versions, round=self.round, after=after, repeats=repeats, who=self.who, why=why
            )
        except errors.RegistryUnreachable as error:
            text = f"{error}; the pins may have changed nevertheless"
            raise errors.RegistryUnreachable(text, hint=Hint("show_pins", task=self.task)) from error

    def _wait(self, pins: Pins) -> None:
        started = False

        def report(awaited: Sequence[Heartbeat]) -> None:
            # Without a serving process there is no stage to show.
            nonlocal started
            if not started:
                self.progress.start(0, "Waiting for every serving process to switch")
            started = True
            self.progress.advance(0, ", ".join(heartbeat.name for heartbeat in awaited))

        _wait_for_all(self.registry, pins, self.timeout, report)
        if started:
            self.progress.finish()

    def _undo(self, pins: Pins, pin_set: PinSet) -> str:
        """Restore the pins of the pin set; return a description of the result."""
        before = pin_set.own(self.round)
        try:
            restored = self._pin(
                before.versions if before else (),
                after=pins.generation,
                repeats=pin_set.origin(before.generation) if before else None,
                why=f"generation {pins.generation} was not confirmed",
            )
        except errors.PinsChanged:
            return "the pins were changed by another process in the meantime"
        except errors.BackendError as error:
            return f"the old pins could not be restored, roll back by hand: {error}"
        late = _wait_for_undo(self.registry, pins, restored, UNDO_SECONDS)
        old = ", ".join(before.versions) if before else "nothing"
        return f"{old} is pinned again" + (f", but {late[0].name} has not confirmed that yet" if late else "")


def _wait_for_all(
    registry: Registry, pins: Pins, timeout: float, report: Callable[[Sequence[Heartbeat]], None]
) -> None:
    """Return when no process answers with older pins; `report` receives the processes still awaited."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            awaited = _unconfirmed(registry, pins)
            names = ", ".join(heartbeat.name for heartbeat in awaited)
            reason = f"{names} did not confirm within {timeout:g} s; check its log"
        except errors.RegistryUnreachable as error:
            awaited, reason = None, f"the processes that serve {pins.task} cannot be listed: {error}"
        if awaited is not None:
            if not awaited:
                return
            report(awaited)
        if time.monotonic() > deadline:
            raise errors.RotationNotConfirmed(reason)
        time.sleep(registry.timing.wait)


def _unconfirmed(registry: Registry, pins: Pins) -> list[Heartbeat]:
    """Return the processes that do not answer with these pins yet.

    Raise RotationRefused if one cannot load them, PinsChanged if the pins have changed meanwhile.
    """
    heartbeats = registry.heartbeats(pins.task)
    pin_set = registry.pin_set(pins.task)
    now = pin_set.own(pins.round)
    if now is None or now.generation != pins.generation:
        text = f"another process rotated {name_of(pins.task, pins.round)} in the meantime"
        raise errors.PinsChanged(text, hint=Hint("show_pins", task=pins.task))
    awaited = []
    for heartbeat in heartbeats:
        followed = heartbeat.tasks[pins.task]
        failure = followed.failure(pins.round)
        follows = followed.book == pin_set.id and followed.generation >= pins.generation
        if follows and failure and not failure.retry:
            raise errors.RotationRefused(f"{heartbeat.name} cannot load {', '.join(pins.versions)}: {failure.error}")
        if failure or not follows:
            awaited.append(heartbeat)
    return awaited


def _wait_for_undo(registry: Registry, undone: Pins, restored: Pins, timeout: float) -> list[Heartbeat]:
    """Return the processes that followed the undone pins and have not followed the restored ones in time."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            followed = [(one, one.tasks[undone.task].generation) for one in registry.heartbeats(undone.task)]
        except errors.RegistryUnreachable:
            return []
        awaited = [one for one, generation in followed if undone.generation <= generation < restored.generation]
        if not awaited or time.monotonic() > deadline:
            return awaited
        time.sleep(registry.timing.wait)
