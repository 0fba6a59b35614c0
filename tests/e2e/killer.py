"""Kills the processes of a demo with SIGKILL, one after the other, at random times from a seed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.e2e.running_demo import EVERYBODY, RunningDemo

LONGEST_PEACE = 8.0


@dataclass
class Killer:
    """Kills processes and records each with its time in seconds; between two kills it waits at most `peace` seconds."""

    demo: RunningDemo
    dice: Random
    peace: float = LONGEST_PEACE
    killed: list[tuple[str, float]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    _began: float = field(default_factory=time.monotonic)

    def kill_any(self, kills: int) -> None:
        """Kill this many running processes, chosen at random; wait while the demo's own process is the only one."""
        while len(self.killed) < kills and not self.over.wait(self.dice.uniform(0, self.peace)):
            running = [name for name in EVERYBODY if self.demo.pid(name)]
            if len(running) > 1:
                self._strike(self.dice.choice(running))

    def _strike(self, name: str) -> bool:
        """Kill a process; return whether it was running."""
        gone = self.demo.kill(name)
        if gone:
            self.killed.append((name, round(time.monotonic() - self._began, 1)))
        return gone


@contextmanager
def at_large(killer: Killer, work: Callable[[], None]) -> Iterator[Killer]:
    """Run the killer in a thread until the end of the block."""
    thread = threading.Thread(target=work, name="killer", daemon=True)
    thread.start()
    try:
        yield killer
    finally:
        killer.over.set()
        thread.join()
