"""Whether the process of a training is still there, as far as this machine can tell."""

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

from round_manager.models import TrainingJob

# Two beats and a little: whoever was heard of since then lives, wherever it runs.
FRESH = timedelta(seconds=5)
# Linux tells to the second when it was started.
CLOCK_ERROR = timedelta(seconds=2)
PROC = Path("/proc")


def is_gone(job: TrainingJob, *, now: datetime) -> bool:
    """Whether a running job is nobody's any more: its process was on this machine, and is there no longer."""
    if job.host != socket.gethostname() or now - job.beat_at < FRESH:
        return False
    try:
        os.kill(job.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # Somebody else's process has that number.
    return _is_another(job.pid, job.started_at)


def _is_another(pid: int, since: datetime) -> bool:
    """Whether the process of that number is dead and only not yet collected, or was started later than the job."""
    try:
        # The name, in brackets, may hold anything.
        state, *numbers = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        (booted,) = (line.split()[1] for line in (PROC / "stat").read_text().splitlines() if line.startswith("btime"))
        began = int(booted) + int(numbers[18]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return False  # No Linux, or it has just ended: the next look tells.
    return state == "Z" or datetime.fromtimestamp(began, UTC) > since + CLOCK_ERROR
