"""What every use case needs: the database, the clock, and who acts.

A use case that changes something takes an `Actor`, whether or not it writes an audit entry itself; one that only reads
takes none. Neither do the calls of a worker's page, where the session says who works, nor what a rule decides without
anyone: counting votes, ending overdue work, granting passed quizzes. A `ConnectedCrowd` already has its database and
its clock, so a use case that only calls it takes no `ServiceContext`.
"""

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
