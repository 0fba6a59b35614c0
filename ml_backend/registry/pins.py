"""Pins: which model versions answer for a task and for its rounds, and who changed that when and why."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ml_backend.manifest import Version
from ml_backend.registry.errors import PinsMoved, RegistryError
from templates.part import Name

FILE = "pins.json"
MAX_BYTES = 1_000_000
MOST_CHANGES = 100
MOST_VERSIONS = 8
MOST_SAID = 500

Round = Annotated[int, Field(ge=1)]
Versions = Annotated[tuple[Version, ...], Field(max_length=MOST_VERSIONS)]
Said = Annotated[str, Field(max_length=MOST_SAID)]

_TASK = re.compile(r"[a-z][a-z0-9_]{0,39}")
_VERSION = re.compile(r"m[0-9a-f]{12}")


@dataclass(frozen=True)
class Pins:
    """The versions that answer together; `round` is None for the task's current ones."""

    task: str
    round: int | None
    generation: int
    versions: tuple[str, ...]


@dataclass(frozen=True)
class Reason:
    """Why pins change: who, when (ISO 8601, UTC) and what for; the token tells this change from any other."""

    who: str
    why: str
    at: str
    token: str


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Slot(_Part):
    """What is pinned for a round, or for the task."""

    round: Round | None
    generation: Round
    versions: Annotated[Versions, Field(min_length=1)]


class Change(_Part):
    """One change of the pins; `repeats` names the generation that it brought back."""

    generation: Round
    round: Round | None
    versions: Versions
    repeats: Round | None
    who: Said
    why: Said
    at: Said
    token: Said


class Book(_Part):
    """All pins of one task with their history; every change makes a new generation, and a new book has a new id."""

    format: Literal[1] = 1
    task: Name
    id: Said = ""
    generation: int = Field(default=0, ge=0)
    slots: tuple[Slot, ...] = ()
    history: tuple[Change, ...] = ()

    @classmethod
    def read(cls, content: bytes, task: str, where: str) -> Self:
        """The book in a file, or a RegistryError that names the file."""
        try:
            if len(content) > MAX_BYTES:
                raise RegistryError(f"{where} is too large to be right; restore the file")
            book = cls.model_validate(json.loads(content))
        except (ValueError, RecursionError, ValidationError) as error:
            raise RegistryError(f"{where} is not a file of pins; restore it, or remove it and rotate again") from error
        if book.task != task:
            raise RegistryError(f"{where} is of task {book.task}; restore the file")
        return book

    def written(self) -> bytes:
        """The book as a file's content."""
        return (self.model_dump_json(indent=1) + "\n").encode()

    def own(self, round: int | None) -> Pins | None:
        """What is pinned for exactly that round, or for the task."""
        for slot in self.slots:
            if slot.round == round:
                return Pins(self.task, slot.round, slot.generation, slot.versions)
        return None

    def pins(self, round: int | None = None) -> Pins | None:
        """What answers for a round: its own pins, or else the task's current ones."""
        return self.own(round) or self.own(None)

    def all(self) -> list[Pins]:
        """Everything that is pinned, the task's current ones first, then the newest."""
        ordered = sorted(self.slots, key=lambda slot: (slot.round is not None, -slot.generation))
        return [Pins(self.task, slot.round, slot.generation, slot.versions) for slot in ordered]

    def before(self, round: int | None) -> Change | None:
        """The change that made the pins before the present ones; what was brought back counts where it first stood."""
        mine = [change for change in self.history if change.round == round]
        if not mine:
            return None
        at = mine[-1].repeats or mine[-1].generation
        earlier = [change for change in mine if change.generation < at and change.versions]
        return next((change for change in reversed(earlier) if change.versions != mine[-1].versions), None)

    def origin(self, generation: int) -> int:
        """The generation that first pinned what this one did."""
        return next((one.repeats for one in self.history if one.generation == generation and one.repeats), generation)

    def changed(
        self, versions: Sequence[str], round: int | None, after: int | None, repeats: int | None, reason: Reason
    ) -> Self:
        """The book after a change, or PinsMoved where `after` is not what is pinned now; no versions unpin."""
        now = self.pins(round)
        if after is not None and after != (now.generation if now else 0):
            held = f"{', '.join(now.versions)} (generation {now.generation})" if now else "nothing"
            raise PinsMoved(f"somebody else pinned {held} for {name_of(self.task, round)}; look at it, then try again")
        generation = self.generation + 1
        change = Change(
            generation=generation,
            round=round,
            versions=tuple(versions),
            repeats=repeats,
            who=plain(reason.who, MOST_SAID),
            why=plain(reason.why, MOST_SAID),
            at=reason.at,
            token=reason.token,
        )
        slots = [slot for slot in self.slots if slot.round != round]
        if versions:
            slots.append(Slot(round=round, generation=generation, versions=change.versions))
        history = (*self.history, change)[-MOST_CHANGES:]
        book = {"id": self.id or reason.token, "generation": generation, "slots": tuple(slots), "history": history}
        return self.model_copy(update=book)

    def written_by(self, token: str) -> Pins | None:
        """What the change with that token pinned, if it is in the book."""
        for change in reversed(self.history):
            if change.token == token:
                return Pins(self.task, change.round, change.generation, change.versions)
        return None


def name_of(task: str, round: int | None) -> str:
    """A task, or a round of it, in words."""
    return task if round is None else f"round {round} of {task}"


def plain(text: str, most: int) -> str:
    """The text as it can be written down: not too long, and whatever is not Unicode replaced."""
    return text.encode("utf-8", "replace").decode()[:most]


def check_task(task: str) -> str:
    """The task's name, which is safe in a path."""
    if not _TASK.fullmatch(task):
        raise RegistryError(f"{task!r} is no task's name; write small letters, digits and _")
    return task


def check_version(version: str) -> str:
    """The version's name, which is safe in a path."""
    if not _VERSION.fullmatch(version):
        raise RegistryError(f"{version!r} is no model version; `outfox model list` shows them")
    return version


def check_pins(versions: Sequence[str], round: int | None) -> tuple[str, ...]:
    """Versions that can be pinned together."""
    if round is not None and round < 1:
        raise RegistryError(f"there is no round {round}; rounds count from 1")
    if len(versions) > MOST_VERSIONS or len(set(versions)) != len(versions):
        raise RegistryError(f"pin 1 to {MOST_VERSIONS} different versions")
    return tuple(check_version(version) for version in versions)
