"""What every use case needs: who acts, the database and the clock."""

import enum
from dataclasses import dataclass
from datetime import datetime

from common.clock import Clock
from round_manager.database.store import Store


class Role(enum.StrEnum):
    """What an actor may do."""

    OWNER = "owner"
    REVIEWER = "reviewer"
    VENDOR = "vendor"
    VIEWER = "viewer"
    SYSTEM = "system"


@dataclass(frozen=True)
class Actor:
    """The person or process that acts, as the audit log names them."""

    name: str
    role: Role = Role.OWNER


@dataclass(frozen=True)
class ServiceContext:
    """The database and the clock of a use case."""

    store: Store
    clock: Clock

    def now(self) -> datetime:
        """Return the current time."""
        return self.clock.now()
