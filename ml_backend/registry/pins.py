"""Pins: which model versions answer for a task and for its rounds, with the history of changes."""

import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from common.errors import Hint
from ml_backend.errors import InvalidPins, PinsChanged, RegistryCorrupt, VersionNotFound
from templates.sections import Name

FILE = "pins.json"
MAX_BYTES = 1_000_000
MAX_CHANGES = 100
MAX_VERSIONS = 8
MAX_TEXT = 500

Round = Annotated[int, Field(ge=1)]
# A letter for the kind of target, and the start of its content hash.
VersionId = Annotated[str, Field(pattern=r"^[a-z][0-9a-f]{12}$")]
Versions = Annotated[tuple[VersionId, ...], Field(max_length=MAX_VERSIONS)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]

_TASK = re.compile(r"[a-z][a-z0-9_]{0,39}")
_VERSION = re.compile(r"[a-z][0-9a-f]{12}")


@dataclass(frozen=True)
class Pins:
    """The versions that answer together for a round; `round` is None for the task's own pins."""

    task: str
    round: int | None
    generation: int
    versions: tuple[str, ...]


@dataclass(frozen=True)
class ChangeReason:
    """Who changes pins, why and when (ISO 8601, UTC); the token identifies the change."""

    who: str
    why: str
    at: str
    token: str


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PinEntry(_Part):
    """The versions pinned for a round, or for the task."""

    round: Round | None
    generation: Round
    versions: Annotated[Versions, Field(min_length=1)]


class PinChange(_Part):
    """One change of the pins; `repeats` is the generation that it restored."""

    generation: Round
    round: Round | None
    versions: Versions
    repeats: Round | None
    who: Text
    why: Text
    at: Text
    token: Text


class PinSet(_Part):
    """All pins of one task with their history; every change makes a new generation, and a new set gets a new id."""

    format: Literal[1] = 1
    task: Name
    id: Text = ""
    generation: int = Field(default=0, ge=0)
    slots: tuple[PinEntry, ...] = ()
    history: tuple[PinChange, ...] = ()

    @classmethod
    def read(cls, content: bytes, task: str, where: str) -> Self:
        """Parse a file of pins; raise RegistryCorrupt, naming the file, if it is invalid."""
        try:
            if len(content) > MAX_BYTES:
                raise RegistryCorrupt(f"{where} is too large for a file of pins; restore it")
            pin_set = cls.model_validate(json.loads(content))
        except (ValueError, RecursionError, ValidationError) as error:
            raise RegistryCorrupt(f"{where} is not a file of pins; restore it, or remove it and rotate") from error
        if pin_set.task != task:
            raise RegistryCorrupt(f"{where} belongs to task {pin_set.task}; restore the file")
        return pin_set

    def written(self) -> bytes:
        """Return the content of the file of pins."""
        return (self.model_dump_json(indent=1) + "\n").encode()

    def own(self, round: int | None) -> Pins | None:
        """Return the pins of exactly that round, or of the task."""
        for slot in self.slots:
            if slot.round == round:
                return Pins(self.task, slot.round, slot.generation, slot.versions)
        return None

    def pins(self, round: int | None = None) -> Pins | None:
        """Return the pins that apply to a round: its own, or else the task's."""
        return self.own(round) or self.own(None)

    def all(self) -> list[Pins]:
        """Return all pins: the task's first, then the rounds', newest first."""
        ordered = sorted(self.slots, key=lambda slot: (slot.round is not None, -slot.generation))
        return [Pins(self.task, slot.round, slot.generation, slot.versions) for slot in ordered]

    def before(self, round: int | None) -> PinChange | None:
        """Return the change that made the previous pins; restored pins count from where they were first set."""
        changes = [change for change in self.history if change.round == round]
        if not changes:
            return None
        current = changes[-1].repeats or changes[-1].generation
        earlier = [change for change in changes if change.generation < current and change.versions]
        return next((change for change in reversed(earlier) if change.versions != changes[-1].versions), None)

    def origin(self, generation: int) -> int:
        """Return the generation that first pinned what this one did."""
        return next((one.repeats for one in self.history if one.generation == generation and one.repeats), generation)

    def changed(
        self, versions: Sequence[str], round: int | None, after: int | None, repeats: int | None, reason: ChangeReason
    ) -> Self:
        """Return the set after a change; raise PinsChanged if `after` is not the current generation.

        With no versions, the pins of the round are removed.
        """
        now = self.pins(round)
        if after is not None and after != (now.generation if now else 0):
            held = f"{', '.join(now.versions)} (generation {now.generation})" if now else "nothing"
            raise PinsChanged(
                f"the pins of {name_of(self.task, round)} changed in the meantime: now {held}",
                hint=Hint("show_pins", task=self.task),
            )
        generation = self.generation + 1
        change = PinChange(
            generation=generation,
            round=round,
            versions=tuple(versions),
            repeats=repeats,
            who=clean_text(reason.who, MAX_TEXT),
            why=clean_text(reason.why, MAX_TEXT),
            at=reason.at,
            token=reason.token,
        )
        slots = [slot for slot in self.slots if slot.round != round]
        if versions:
            slots.append(PinEntry(round=round, generation=generation, versions=change.versions))
        history = (*self.history, change)[-MAX_CHANGES:]
        update = {"id": self.id or reason.token, "generation": generation, "slots": tuple(slots), "history": history}
        return self.model_copy(update=update)

    def change_with(self, token: str) -> Pins | None:
        """Return what the change with that token pinned, if the set has it."""
        for change in reversed(self.history):
            if change.token == token:
                return Pins(self.task, change.round, change.generation, change.versions)
        return None


class PinStore(ABC):
    """The part of every registry that changes pins; subclasses say where pins and versions are stored."""

    @abstractmethod
    def pin_set(self, task: str) -> PinSet:
        """Return all pins of the task with their history; an empty set before the first."""

    @abstractmethod
    def has_version(self, task: str, version: str) -> bool:
        """Return whether the version was published."""

    @abstractmethod
    def change_pins(self, task: str, change: Callable[[PinSet], PinSet], token: str) -> int:
        """Apply a change to the task's pins, as if no other process changed them; return its generation."""

    def pins(self, task: str, round: int | None = None) -> Pins | None:
        return self.pin_set(task).pins(round)

    def set_pins(
        self,
        task: str,
        versions: Sequence[str],
        *,
        round: int | None = None,
        after: int | None = None,
        repeats: int | None = None,
        who: str = "",
        why: str = "",
    ) -> Pins:
        chosen = check_pins(versions, round)
        for version in chosen:
            if not self.has_version(check_task(task), version):
                raise VersionNotFound(task, version)
        reason = ChangeReason(who, why, datetime.now(UTC).isoformat(), uuid.uuid4().hex)
        generation = self.change_pins(
            task, lambda pin_set: pin_set.changed(chosen, round, after, repeats, reason), reason.token
        )
        return Pins(task, round, generation, chosen)


def name_of(task: str, round: int | None) -> str:
    """Return a task, or a round of it, as messages name it."""
    return task if round is None else f"round {round} of {task}"


def clean_text(text: str, max_length: int) -> str:
    """Return the text cut to a length, with invalid Unicode replaced."""
    return text.encode("utf-8", "replace").decode()[:max_length]


def check_task(task: str) -> str:
    """Return the task name if it is valid, and so safe in a path."""
    if not _TASK.fullmatch(task):
        raise InvalidPins(f"{task!r} is not a valid task name; use lower-case letters, digits and _")
    return task


def check_version(version: str) -> str:
    """Return the version name if it is valid, and so safe in a path."""
    if not _VERSION.fullmatch(version):
        raise InvalidPins(f"{version!r} is not a valid model version", hint=Hint("list_all_models"))
    return version


def check_pins(versions: Sequence[str], round: int | None) -> tuple[str, ...]:
    """Return the versions if they can be pinned together."""
    if round is not None and round < 1:
        raise InvalidPins(f"{round} is not a round number; rounds are counted from 1")
    if len(versions) > MAX_VERSIONS or len(set(versions)) != len(versions):
        raise InvalidPins(f"pin 1 to {MAX_VERSIONS} different versions")
    return tuple(check_version(version) for version in versions)
