"""Confirmation: every serving process has followed a change of the pins."""

import time
from collections.abc import Callable, Sequence

from ml_backend.registry.errors import PinsMoved, RegistryUnreachable, RotationNotConfirmed, RotationRefused
from ml_backend.registry.pins import Pins, name_of
from ml_backend.registry.registry import Beat, Registry


def wait_for_all(registry: Registry, pins: Pins, timeout: float, tell: Callable[[Sequence[Beat]], None]) -> None:
    """Returns when no process answers with anything older; `tell` hears who is still awaited."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            awaited = stragglers(registry, pins)
            why = f"{', '.join(beat.name for beat in awaited)} did not confirm within {timeout:g} s; look at its log"
        except RegistryUnreachable as error:
            awaited, why = None, f"who serves {pins.task} cannot be seen: {error}"
        if awaited is not None:
            if not awaited:
                return
            tell(awaited)
        if time.monotonic() > deadline:
            raise RotationNotConfirmed(why)
        time.sleep(registry.pace.wait)


def stragglers(registry: Registry, pins: Pins) -> list[Beat]:
    """The processes that do not answer with these pins yet; an error where one cannot, or the pins are others now."""
    beats = registry.beats(pins.task)
    book = registry.book(pins.task)
    now = book.own(pins.round)
    if now is None or now.generation != pins.generation:
        raise PinsMoved(f"somebody else rotated {name_of(pins.task, pins.round)} meanwhile; look before you try again")
    awaited = []
    for beat in beats:
        served = beat.tasks[pins.task]
        failure = served.failure(pins.round)
        follows = served.book == book.id and served.generation >= pins.generation
        if follows and failure and not failure.retry:
            raise RotationRefused(f"{beat.name} cannot load {', '.join(pins.versions)}: {failure.error}")
        if failure or not follows:
            awaited.append(beat)
    return awaited


def wait_for_servers(registry: Registry, task: str, timeout: float) -> list[Beat]:
    """The processes that answer for a task; where only other tasks are served, one may take it in for so long."""
    deadline = time.monotonic() + timeout
    while True:
        ready = [beat for beat in registry.beats(task) if beat.tasks[task].generation]
        if ready or time.monotonic() > deadline or not any(map(registry.beats, registry.tasks())):
            return ready
        time.sleep(registry.pace.wait)


def wait_for_return(registry: Registry, gone: Pins, back: Pins, timeout: float) -> list[Beat]:
    """The processes that had followed pins which were taken back, and after so long still have not followed that."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            served = [(beat, beat.tasks[gone.task].generation) for beat in registry.beats(gone.task)]
        except RegistryUnreachable:
            return []
        awaited = [beat for beat, generation in served if gone.generation <= generation < back.generation]
        if not awaited or time.monotonic() > deadline:
            return awaited
        time.sleep(registry.pace.wait)
