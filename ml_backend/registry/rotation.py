"""Rotation: other versions answer, and nobody answers with the old ones when it is done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ml_backend.errors import BackendError
from ml_backend.registry.candidate import Load, prepare
from ml_backend.registry.confirmation import wait_for_all, wait_for_return
from ml_backend.registry.errors import (
    PinsMoved,
    RegistryError,
    RegistryUnreachable,
    RotationNotConfirmed,
    RotationRefused,
)
from ml_backend.registry.pins import Book, Pins, check_pins, check_task, name_of
from ml_backend.registry.registry import Beat, Registry

SECONDS_TO_CONFIRM = 60.0
SECONDS_TO_UNDO = 10.0


class Progress(Protocol):
    """Somebody who is told how far a rotation is."""

    def start(self, total_steps: int, what: str) -> None:
        """A stage of so many steps begins."""
        ...

    def advance(self, steps: int, note: str) -> None:
        """So many more steps are done."""
        ...

    def finish(self) -> None:
        """The stage is over."""
        ...


def _say_nothing() -> None:
    """Where nobody has a last word."""


def rotate(
    registry: Registry,
    task: str,
    versions: Sequence[str],
    *,
    load: Load,
    round: int | None = None,
    timeout: float = SECONDS_TO_CONFIRM,
    progress: Progress | None = None,
    who: str = "",
    why: str = "",
    last_word: Callable[[], None] = _say_nothing,
) -> Pins:
    """Pin versions that load and answer here, and return when every serving process answers with them.

    Where one cannot, or does not say so in time, the pins are what they were, and an error says why. `last_word` is
    called when all are loaded, right before they are pinned; where it raises, nothing has changed.
    """
    rotation = _Rotation(registry, check_task(task), round, load, timeout, progress, who, why, last_word)
    return rotation.to(versions, None)


def rollback(
    registry: Registry,
    task: str,
    *,
    load: Load,
    round: int | None = None,
    timeout: float = SECONDS_TO_CONFIRM,
    progress: Progress | None = None,
    who: str = "",
    why: str = "",
) -> Pins:
    """Rotate to the pins before the present ones; another rollback goes one further back."""
    before = registry.book(check_task(task)).before(round)
    if before is None:
        raise RegistryError(f"{name_of(task, round)} had no pins before these; `outfox model pins {task}` shows them")
    rotation = _Rotation(registry, task, round, load, timeout, progress, who, why or "rollback")
    return rotation.to(before.versions, before.repeats or before.generation)


@dataclass(frozen=True)
class _Rotation:
    registry: Registry
    task: str
    round: int | None
    load: Load
    timeout: float
    progress: Progress | None
    who: str
    why: str
    last_word: Callable[[], None] = _say_nothing

    def to(self, versions: Sequence[str], repeats: int | None) -> Pins:
        chosen = check_pins(versions, self.round)
        if not chosen:
            raise RegistryError("name the versions to rotate to; `outfox model list` shows them")
        book = self.registry.book(self.task)
        before, seen = book.own(self.round), book.pins(self.round)
        self._check(chosen)
        self.last_word()
        if before and before.versions == chosen:
            # Pinned already: a new generation makes every process try again and say so.
            repeats = book.origin(before.generation)
        pins = self._pin(chosen, after=seen.generation if seen else 0, repeats=repeats, why=self.why)
        try:
            self._wait(pins)
        except (RotationRefused, RotationNotConfirmed) as error:
            raise type(error)(f"{error}; {self._undo(pins, book)}") from error
        except BaseException:
            self._undo(pins, book)
            raise
        return pins

    def _check(self, versions: Sequence[str]) -> None:
        """Every version loads and answers in this process, where it does no harm."""
        self._stage(len(versions), "The candidate is loaded" if len(versions) == 1 else "The candidates are loaded")
        for version in versions:
            prepare(self.registry, self.load, self.task, version)
            self._step(1, version)
        self._done()

    def _pin(self, versions: Sequence[str], *, after: int, repeats: int | None, why: str) -> Pins:
        try:
            return self.registry.set_pins(
                self.task, versions, round=self.round, after=after, repeats=repeats, who=self.who, why=why
            )
        except RegistryUnreachable as error:
            cure = f"`outfox model pins {self.task}` shows whether it was pinned all the same"
            raise RegistryUnreachable(f"{error}; {cure}") from error

    def _wait(self, pins: Pins) -> None:
        told = False

        def tell(awaited: Sequence[Beat]) -> None:
            # Where nobody serves the task, nobody switches.
            nonlocal told
            if not told:
                self._stage(0, "Every serving process loads it and switches")
            told = True
            self._step(0, ", ".join(beat.name for beat in awaited))

        wait_for_all(self.registry, pins, self.timeout, tell)
        if told:
            self._done()

    def _undo(self, pins: Pins, book: Book) -> str:
        """The pins are again what they were in the book; the words for it."""
        before = book.own(self.round)
        try:
            back = self._pin(
                before.versions if before else (),
                after=pins.generation,
                repeats=book.origin(before.generation) if before else None,
                why=f"generation {pins.generation} was not confirmed",
            )
        except PinsMoved:
            return "somebody else has rotated meanwhile"
        except BackendError as error:
            return f"it could not be undone, roll it back yourself: {error}"
        late = wait_for_return(self.registry, pins, back, SECONDS_TO_UNDO)
        old = ", ".join(before.versions) if before else "nothing"
        return f"{old} is pinned again" + (f", but {late[0].name} has not followed that yet" if late else "")

    def _stage(self, steps: int, what: str) -> None:
        if self.progress:
            self.progress.start(steps, what)

    def _step(self, steps: int, note: str) -> None:
        if self.progress:
            self.progress.advance(steps, note)

    def _done(self) -> None:
        if self.progress:
            self.progress.finish()
