"""What can go wrong with registries and rotations.

RegistryError               the registry holds something wrong, or cannot take what it was given
├── RegistryUnreachable     it does not answer; trying again helps
├── PinsMoved               somebody else pinned meanwhile; look before you try again
├── RotationRefused         a serving process could not load the version; the old pins are back
├── RotationNotConfirmed    a serving process did not answer in time; the old pins are back
└── NotServed               this process has no model for that task, or not yet
"""

from ml_backend.errors import BackendError


class RegistryError(BackendError):
    """A registry, or something in it, that cannot be used."""

    code = "registry_error"


class RegistryUnreachable(RegistryError):
    """A registry that does not answer now."""

    code = "registry_unreachable"
    retry = True


class PinsMoved(RegistryError):
    """Pins that are not those any more that the caller had seen."""

    code = "pins_moved"


class RotationRefused(RegistryError):
    """A rotation that a serving process could not follow."""

    code = "rotation_refused"


class RotationNotConfirmed(RegistryError):
    """A rotation that not every serving process has followed."""

    code = "rotation_not_confirmed"
    retry = True


class NotServed(RegistryError):
    """A task that this process has no model for; `retry` says whether one may still come."""

    code = "not_served"

    def __init__(self, message: str, *, retry: bool) -> None:
        super().__init__(message)
        self.retry = retry
