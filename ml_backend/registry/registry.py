"""The registry port: stores model versions, records which are pinned, and lists the processes that serve them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ml_backend.registry.heartbeats import FollowedPins, Heartbeat, PinFailure, Timing
from ml_backend.registry.pins import Pins, PinSet

__all__ = ["FollowedPins", "Heartbeat", "PinFailure", "PinSet", "Pins", "Registry", "Timing", "open_registry"]

S3 = "s3://"


class Registry(Protocol):
    """Immutable model versions, and the pins that select which of them answer; safe to use from many processes."""

    @property
    def timing(self) -> Timing:
        """How often to poll and write."""

    def publish(self, directory: Path) -> str:
        """Make a finished version visible, completely or not at all; return its name. Existing versions are kept."""

    def fetch(self, task: str, version: str) -> Path:
        """Return a local folder that holds the version, with every hash verified."""

    def tasks(self) -> list[str]:
        """Return the names of the tasks that have versions or pins, sorted."""

    def versions(self, task: str) -> list[str]:
        """Return the task's versions, newest first."""

    def pins(self, task: str, round: int | None = None) -> Pins | None:
        """Return the pins that apply to the round: its own, or else the task's; None if there are none."""

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
        """Pin the versions for every process at once; with no versions, remove the pins.

        Raise PinsChanged unless the pins that apply have the generation `after` (0: no pins). `repeats` is the
        generation that this change restores.
        """

    def pin_set(self, task: str) -> PinSet:
        """Return all pins of the task with their history; an empty set before the first."""

    def stamp(self, task: str) -> str:
        """Return a string that differs after each change of the task's pins; cheap, and empty before the first."""

    def send_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Report what this process serves; the report is valid for the heartbeat's lease."""

    def heartbeats(self, task: str) -> list[Heartbeat]:
        """Return the processes that serve the task or are about to."""

    def remove_heartbeat(self, heartbeat_id: str) -> None:
        """Report that this process has stopped serving."""


def open_registry(where: str, cache: Path) -> Registry:
    """Open the registry in a folder or at s3://bucket/prefix; downloads are kept in `cache`."""
    if where.startswith(S3):
        # boto3 takes a second to import.
        from ml_backend.registry.s3 import S3Registry

        return S3Registry.open(where, cache)
    from ml_backend.registry.local import LocalRegistry

    return LocalRegistry(Path(where).expanduser())
