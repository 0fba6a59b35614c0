"""The clock: UTC, timezone-aware, and replaceable in tests."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The source of every stored time."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        return datetime.now(UTC)
