"""Kills the processes of a demo with SIGKILL, one after the other, at random times from a seed."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.e2e.running_demo import EVERYBODY, TRAINING, RunningDemo

LONGEST_PEACE = 8.0
SECONDS_BETWEEN_LOOKS = 0.1

Allowed = Callable[[], bool]


@dataclass
class Killer:
    """Kills processes and records each with its time in seconds; between two kills it waits at most `peace` seconds."""

    demo: RunningDemo
    dice: Random
    peace: float = LONGEST_PEACE
    killed: list[tuple[str, float]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    _began: float = field(default_factory=time.monotonic)

    def kill_each_once(self, names: Sequence[str], allowed: Allowed) -> None:
        """Kill each of these processes once in random order, but a training, which is rare, as soon as one runs.

        A process that does not run, or may not be killed yet, is killed later.
        """
        waiting = sorted(self.dice.sample(names, len(names)), key=lambda name: name != TRAINING)
        while waiting and not self.over.wait(self.dice.uniform(0, self.peace)):
            victim = ""
            while not victim and not self.over.wait(SECONDS_BETWEEN_LOOKS):
                victim = next((name for name in waiting if allowed() and self._strike(name)), "")
            waiting = [name for name in waiting if name != victim]

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
