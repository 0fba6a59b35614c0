"""Kills the processes of a demo with SIGKILL, one after the other, at moments that follow from a seed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.e2e.running_demo import EVERYBODY, TRAINING, RunningDemo

LONGEST_PEACE = 8.0
SECONDS_BETWEEN_LOOKS = 0.1

Allowed = Callable[[], bool]


@dataclass
class Killer:
    """Has killed these, each with the second at which it did; between two kills it waits `peace` seconds at most."""

    demo: RunningDemo
    dice: Random
    peace: float = LONGEST_PEACE
    killed: list[tuple[str, float]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    _began: float = field(default_factory=time.monotonic)

    def kill_each_once(self, allowed: Allowed) -> None:
        """Everybody in an order of chance, but a training, which runs seldom, as soon as one is met.

        Who does not run now, or only while it is not allowed, comes later.
        """
        waiting = sorted(self.dice.sample(EVERYBODY, len(EVERYBODY)), key=lambda name: name != TRAINING)
        while waiting and not self.over.wait(self.dice.uniform(0, self.peace)):
            victim = ""
            while not victim and not self.over.wait(SECONDS_BETWEEN_LOOKS):
                victim = next((name for name in waiting if allowed() and self._strike(name)), "")
            waiting = [name for name in waiting if name != victim]

    def kill_any(self, kills: int) -> None:
        """So many in all, each time whoever chance names of those who run; a demo that is alone yet is left alone."""
        while len(self.killed) < kills and not self.over.wait(self.dice.uniform(0, self.peace)):
            running = [name for name in EVERYBODY if self.demo.pid(name)]
            if len(running) > 1:
                self._strike(self.dice.choice(running))

    def _strike(self, name: str) -> bool:
        """Whether it was there to be killed."""
        gone = self.demo.kill(name)
        if gone:
            self.killed.append((name, round(time.monotonic() - self._began, 1)))
        return gone


@contextmanager
def at_large(killer: Killer, work: Callable[[], None]) -> Iterator[Killer]:
    """The killer at work beside the block, and gone at its end."""
    thread = threading.Thread(target=work, name="killer", daemon=True)
    thread.start()
    try:
        yield killer
    finally:
        killer.over.set()
        thread.join()
