"""A clock that stands still until a test moves it, and one that jumps while other processes read it."""

import mmap
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

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


class JumpingClock:
    """The system clock plus an offset that is stored in a file, so that it can jump in processes that are running."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(struct.pack("d", 0.0))
        with file.open("r+b") as opened:
            self._offset = mmap.mmap(opened.fileno(), struct.calcsize("d"))

    def now(self) -> datetime:
        """The time with the offset."""
        return datetime.now(UTC) + timedelta(seconds=struct.unpack("d", self._offset[:])[0])

    def jump(self, seconds: float) -> None:
        """Be this many seconds ahead of the system clock from now on, or behind it."""
        self._offset[:] = struct.pack("d", seconds)
