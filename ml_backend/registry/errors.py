"""Errors of the registry and of rotations.

RegistryError               the registry's content or a request to it is invalid
├── RegistryUnreachable     the registry does not answer; retrying can help
├── RegistryMisconfigured   the address, the credentials or the permissions are wrong
├── RegistryNotWritable     a file or folder cannot be written
├── RegistryCorrupt         a file in the registry is missing, corrupt or belongs elsewhere
├── RegistryBusy            another process holds the lock on the pins
├── InvalidPins             the name, version or round to pin is invalid
├── NoEarlierPins           there is nothing to roll back to
├── PinsChanged             another process changed the pins in the meantime
├── RotationRefused         a serving process could not load the version; the old pins are restored
├── RotationNotConfirmed    a serving process did not confirm in time; the old pins are restored
└── NotServed               this process has no model for the task, or not yet
    ├── TaskNotServed       the task is not served by this process
    └── NoModelPinned       no model is pinned for the task
ModelError
├── VersionNotFound         the registry has no such version
└── VersionCorrupt          a version's files belong elsewhere or are not readable
"""

from common.errors import Hint
from ml_backend.errors import BackendError, ModelError


class RegistryError(BackendError):
    """The registry, or something in it, cannot be used."""


class RegistryUnreachable(RegistryError):
    """The registry does not answer at the moment."""

    retry = True


class RegistryMisconfigured(RegistryError):
    """The registry's address, credentials or permissions are wrong."""


class RegistryNotWritable(RegistryError):
    """A file or folder of the registry cannot be written."""


class RegistryCorrupt(RegistryError):
    """A file in the registry is missing, corrupt, or belongs to another task or version."""


class RegistryBusy(RegistryError):
    """Another process holds the lock on a task's pins."""


class InvalidPins(RegistryError):
    """A task name, version or round number that cannot be pinned."""


class NoEarlierPins(RegistryError):
    """There are no earlier pins to roll back to."""


class PinsChanged(RegistryError):
    """Another process changed the pins after the caller read them."""


class RotationRefused(RegistryError):
    """A serving process could not load the new versions."""


class RotationNotConfirmed(RegistryError):
    """Not every serving process confirmed the rotation in time."""

    retry = True


class NotServed(RegistryError):
    """This process cannot answer for the task at the moment."""

    retry = True


class TaskNotServed(NotServed):
    """This process does not serve the task."""

    retry = False


class NoModelPinned(NotServed):
    """No model version is pinned for the task yet."""


class VersionNotFound(ModelError):
    """The registry has no such model version."""

    def __init__(self, task: str, version: str) -> None:
        super().__init__(f"task {task} has no model version {version}", hint=Hint("list_models", task=task))


class VersionCorrupt(ModelError):
    """The files of a version are corrupt or belong to another version."""
