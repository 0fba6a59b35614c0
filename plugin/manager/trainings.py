"""The trainings that a manager looks after: child processes, started where a round waits to be learned from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from common.clock import Clock
from plugin.cancellation import end_cancelled
from plugin.training_process import SOMEBODY_ELSE
from round_manager.database.store import Store
from round_manager.learning.jobs import Awaited, awaited, is_heard_of, job_of, passed_over, running_job
from round_manager.models import TrainingState
from round_manager.tasks.tasks import find_task

# So often a training fails for good before it waits for a person; what may pass by itself is tried on.
MOST_FAILURES = 5


class Training(Protocol):
    """One training in a process of its own."""

    @property
    def token(self) -> str:
        """What its job is found by."""
        ...

    def start(self) -> None:
        """Begins it."""
        ...

    def stop(self) -> None:
        """Asks it to end, and sees to it that it does."""
        ...

    def tell_end(self, store: Store, clock: Clock) -> int | None:
        """Its exit code, None while it runs."""
        ...


@dataclass(frozen=True)
class Ended:
    """A training of ours that is over; `failed` where no version was made, or none could be measured or rotated in.

    It `in_progress` where somebody else was at the task before us.
    """

    text: str = ""
    failed: bool = False
    in_progress: bool = False


class Trainings:
    """Starts trainings that are wanted, one for each task, and tells how they ended; `make` makes one, not started."""

    def __init__(self, store: Store, clock: Clock, make: Callable[[str], Training]) -> None:
        self._store = store
        self._clock = clock
        self._make = make
        self._children: dict[str, Training] = {}

    @property
    def running(self) -> list[str]:
        """The tasks whose trainings were started from here and whose end was not told yet."""
        return list(self._children)

    @property
    def over(self) -> bool:
        """Whether one of them has ended."""
        return any(child.tell_end(self._store, self._clock) is not None for child in self._children.values())

    def wanted(self, task: str) -> Awaited | None:
        """The round that waits to be learned from, unless somebody is at it now."""
        with self._store.read() as session:
            found = find_task(session, task)
            job = running_job(session, found)
            wanted = awaited(session, found)
        # One that is not heard of may be dead; whoever begins the next one finds out.
        is_alive = job is not None and is_heard_of(job, now=self._clock.now())
        return None if is_alive or task in self._children else wanted

    def end_cancelled(self, task: str) -> str:
        """Tells that a training which somebody cancelled is over where its process is gone; the words for it."""
        job = end_cancelled(self._store, task, clock=self._clock)
        return f"the training was cancelled: {job.reason}" if job else ""

    def begin(self, task: str) -> None:
        """Starts one."""
        child = self._make(task)
        child.start()
        self._children[task] = child

    def ended(self, task: str) -> Ended | None:
        """How the task's training from here ended, told once; None while it runs, or where there is none."""
        child = self._children.get(task)
        code = child.tell_end(self._store, self._clock) if child else None
        if child is None or code is None:
            return None
        del self._children[task]
        if code == SOMEBODY_ELSE:
            return Ended(in_progress=True)
        with self._store.read() as session:
            found = find_task(session, task)
            job, left = job_of(session, found, child.token), passed_over(session, found)
        if job is None and left:
            return Ended(f"the next round needs no new model: {left}")
        if job is None or job.state in (TrainingState.FAILED, TrainingState.STOPPED, TrainingState.RUNNING):
            reason = f": {job.reason}" if job and job.reason else ""
            return Ended(f"the training ended with exit code {code}{reason}", failed=True)
        if job.state is TrainingState.ROTATED:
            return Ended(f"the new model answers: {job.reason}")
        told = "the new model is kept out" if job.state is TrainingState.REFUSED else "the training was cancelled"
        return Ended(f"{told}: {job.reason}")

    def stop(self) -> None:
        """Ends those that run; what they have trained and measured is found again by the next ones."""
        for child in self._children.values():
            child.stop()
            child.tell_end(self._store, self._clock)
        self._children.clear()
