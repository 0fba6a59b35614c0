"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime, timedelta

NOON = datetime(2027, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


class SettableClock:
    """A Clock whose time is whatever the test says."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now = now.astimezone(UTC)

    def now(self) -> datetime:
        """The time that was set."""
        return self._now

    def set(self, now: datetime) -> None:
        """Make it that time."""
        if now.tzinfo is None:
            raise ValueError("give an aware time: the clock speaks UTC")
        self._now = now.astimezone(UTC)

    def advance(self, step: timedelta) -> datetime:
        """Let time pass; the new time."""
        self._now += step
        return self._now
