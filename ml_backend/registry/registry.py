"""The registry: where model versions are kept, which of them are pinned, and who serves them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ml_backend.registry.beats import Beat, Failure, Served
from ml_backend.registry.pins import Book, Pins

__all__ = ["Beat", "Book", "Failure", "Pace", "Pins", "Registry", "Served", "open_registry"]

S3 = "s3://"


@dataclass(frozen=True)
class Pace:
    """How often, in seconds, a registry of this kind is looked at and written to."""

    poll: float
    wait: float
    beat: float
    lease: float


class Registry(Protocol):
    """Immutable model versions and the pins that say which of them answer; safe to use from many processes."""

    @property
    def pace(self) -> Pace:
        """How often to ask it."""
        ...

    def publish(self, directory: Path) -> str:
        """Make a finished version visible, whole or not at all; its name. One that is there stays as it is."""
        ...

    def fetch(self, task: str, version: str) -> Path:
        """A local folder that holds the version, every hash checked."""
        ...

    def tasks(self) -> list[str]:
        """The tasks that have versions or pins, by name."""
        ...

    def versions(self, task: str) -> list[str]:
        """The task's versions, newest first."""
        ...

    def pins(self, task: str, round: int | None = None) -> Pins | None:
        """What answers for the round: its own pins, or else the task's current ones; None before the first."""
        ...

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
        """Pin these versions, at once for everybody; PinsMoved unless `pins` has the generation `after` (0: none).

        No versions: nothing is pinned any more. `repeats` tells which generation this brings back.
        """
        ...

    def book(self, task: str) -> Book:
        """All pins of the task with their history; an empty book before the first."""
        ...

    def stamp(self, task: str) -> str:
        """A text that is another one after each change of the task's pins; cheap, and empty before the first."""
        ...

    def beat(self, beat: Beat) -> None:
        """Tell the others what this process serves; it holds for the beat's lease."""
        ...

    def beats(self, task: str) -> list[Beat]:
        """The processes that serve the task, or are about to."""
        ...

    def leave(self, beat_id: str) -> None:
        """This process serves no more."""
        ...


def open_registry(where: str, cache: Path) -> Registry:
    """The registry at a folder or at s3://bucket/prefix; what is downloaded is kept in `cache`."""
    if where.startswith(S3):
        # boto3 takes a second to import.
        from ml_backend.registry.s3 import S3Registry

        return S3Registry.open(where, cache)
    from ml_backend.registry.local import LocalRegistry

    return LocalRegistry(Path(where).expanduser())
