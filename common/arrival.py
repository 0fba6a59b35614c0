"""When the request that is answered now arrived: it may have waited for a thread since then."""

import time
from contextvars import ContextVar

_arrived_at: ContextVar[float | None] = ContextVar("arrived_at", default=None)


def note_arrival() -> None:
    """Note that the request of this context arrives now."""
    _arrived_at.set(time.monotonic())


def arrived_at() -> float:
    """Return when the request of this context arrived, by the monotonic clock; now, outside a request."""
    moment = _arrived_at.get()
    return time.monotonic() if moment is None else moment
