"""The one clock: UTC, timezone-aware, and replaceable in tests."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time; everything that is stored gets its time from one of these."""

    def now(self) -> datetime:
        """This moment, aware, in UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """This moment, aware, in UTC."""
        return datetime.now(UTC)
