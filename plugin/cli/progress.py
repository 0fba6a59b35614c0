"""Commands that run for long: their progress on standard error, and how a signal stops them.

Progress is a bar with the time left in a terminal, or else a line every few seconds.
"""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from plugin.cli.output import console

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set."""
    stop = threading.Event()
    before = {one: signal.signal(one, lambda *_: stop.set()) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that the end of the job is recorded."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class ProgressBar:
    """The progress of one job, which restarts for each stage."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._total = 0
        self._done = 0
        self._what = ""
        self._started = 0.0
        self._said = 0.0
        self._stage: TaskID | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console(stderr=True),
        )

    def __enter__(self) -> Self:
        if self._terminal:
            self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._terminal:
            self._bar.stop()

    def start(self, total_steps: int, what: str) -> None:
        """Begin a stage; 0 means that the number of steps is unknown."""
        self._total, self._done, self._what = total_steps, 0, what
        self._started = self._said = time.monotonic()
        if self._terminal:
            self._stage = self._bar.add_task(what, total=total_steps or None, note="")
        else:
            print(f"{what} …", file=sys.stderr, flush=True)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Record that more steps of the stage are done."""
        self._done += steps
        if self._terminal and self._stage is not None:
            self._bar.update(self._stage, advance=steps, note=note)
            return
        now = time.monotonic()
        if now - self._said >= SECONDS_BETWEEN_LINES:
            self._said = now
            about = f"; {note}" if note else ""
            print(f"{self._what}: {self._summary(now)}{about}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """End the stage."""
        if self._terminal and self._stage is not None:
            self._bar.update(self._stage, total=self._total or 1, completed=self._total or 1)
        else:
            seconds = time.monotonic() - self._started
            print(f"{self._what}: done in {seconds:.0f} s", file=sys.stderr, flush=True)

    def _summary(self, now: float) -> str:
        seconds = now - self._started
        if not self._total or not self._done:
            return f"{seconds:.0f} s so far"
        left = seconds / self._done * (self._total - self._done)
        return f"{self._done / self._total:.0%}, about {left:.0f} s left"
