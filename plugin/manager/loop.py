"""The loop: passes over all steps and tasks, in which an error of one never stops the others.

Each step of a task is done by one manager at a time; what another one is at is left to it. A step that failed, and that
may succeed when it is tried again, rests first for a while that grows; what trying cannot mend is tried in every pass,
and told when it changes. Killed between any two lines and started again, a manager goes on where the other one was.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from plugin.manager.bench import Bench
from plugin.manager.step import NOTHING, Came, Step
from round_manager.database.turns import turn
from round_manager.errors import RoundManagerError
from round_manager.loop.manager_record import note_failure, note_pass, note_well, steps_on_record
from round_manager.models import ManagerStep
from round_manager.tasks.tasks import list_tasks

_log = logging.getLogger(__name__)
EVERYTHING = "all"
Record = dict[tuple[str, str], ManagerStep]


@dataclass(frozen=True)
class Outcome:
    """What one step came to for one task, or for all; `rests_until` where it was not tried after an earlier failure."""

    step: str
    task: str
    came: Came = NOTHING
    error: str = ""
    retry: bool = False
    rests_until: datetime | None = None

    @property
    def where(self) -> str:
        """The step, and the task where it has one."""
        return f"{self.step} {self.task}".rstrip()


class _Taken(Exception):
    """Another manager is at it."""


class Manager:
    """Does the steps, for all tasks or for one; `stop` ends it between two steps."""

    def __init__(
        self,
        bench: Bench,
        steps: Sequence[Step],
        *,
        task: str | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self._bench = bench
        self._steps = steps
        self._task = task
        self._stop = stop or threading.Event()

    def once(self, *, patient: bool = False) -> list[Outcome]:
        """One pass; a patient one leaves out what rests after a failure."""
        record = self._record()
        outcomes: list[Outcome] = []
        for step, task in self._work():
            if self._stop.is_set():
                return outcomes
            known = record.get((step.name, task))
            if patient and known is not None and known.next_try_at and known.next_try_at > self._now():
                error = known.error or ""
                outcomes.append(Outcome(step.name, task, error=error, retry=True, rests_until=known.next_try_at))
                continue
            outcome = self._outcome(step, task)
            if outcome is not None:
                self._note(outcome, known)
                outcomes.append(outcome)
        with self._bench.store.write() as session:
            note_pass(session, who=self._bench.who, now=self._now())
        return outcomes

    def run(self, pause: Callable[[], None]) -> None:
        """Pass after pass, with pauses between them, until it is told to stop."""
        while not self._stop.is_set():
            try:
                self.once(patient=True)
            except RoundManagerError as error:
                # Without a database nothing can be done, nor noted.
                _log.error("the pass ended early", extra={"data": {"error": str(error)}})
            if not self._stop.is_set():
                pause()

    def would(self) -> Iterator[Outcome]:
        """What a pass would do, step by step, as things stand; nothing is changed anywhere."""
        for step, task in self._work():
            try:
                text = step.would(self._bench, task)
            except Exception as error:  # noqa: BLE001 - the edge of a step: the others are told all the same
                yield Outcome(step.name, task, error=text_of(error), retry=bool(getattr(error, "retry", False)))
            else:
                yield Outcome(step.name, task, Came(text))

    def _work(self) -> Iterator[tuple[Step, str]]:
        with self._bench.store.read() as session:
            names = [task.name for task in list_tasks(session) if task.archived_at is None]
        if self._task is not None:
            names = [self._task]
        for step in self._steps:
            yield from ((step, name) for name in (names if step.each_task else [""]))

    def _outcome(self, step: Step, task: str) -> Outcome | None:
        """What the step came to; None where another manager is at the same task."""
        try:
            with turn(self._bench.store, f"manage-{task or EVERYTHING}", _leave):
                return Outcome(step.name, task, step.run(self._bench, task))
        except _Taken:
            return None
        except Exception as error:  # noqa: BLE001 - the edge of a step: the others must go on
            # What nobody foresaw may pass: it is tried again, and not in every pass.
            is_ours = hasattr(error, "retry")
            if not is_ours:
                _log.error("a step broke", extra={"data": {"step": step.name, "task": task, "at": _place(error)}})
            return Outcome(step.name, task, error=text_of(error), retry=bool(getattr(error, "retry", True)))

    def _note(self, outcome: Outcome, known: ManagerStep | None) -> None:
        """Logs what was done and what changed, and writes down what others should see."""
        data: dict[str, Any] = {"step": outcome.step, **({"task": outcome.task} if outcome.task else {})}
        before = (known.error or "", known.waits or "") if known else ("", "")
        if outcome.came.done:
            _log.info(outcome.came.done, extra={"data": data})
        if outcome.error:
            with self._bench.store.write() as session:
                row = note_failure(
                    session,
                    outcome.step,
                    outcome.task,
                    outcome.error,
                    retry=outcome.retry,
                    who=self._bench.who,
                    now=self._now(),
                )
            if outcome.retry or outcome.error != before[0]:
                again = {"next_try": row.next_try_at} if row.next_try_at else {}
                _log.warning(outcome.error, extra={"data": {**data, "failures": row.failures, **again}})
        elif not outcome.came.goes_on and before != ("", outcome.came.waits):
            with self._bench.store.write() as session:
                note_well(session, outcome.step, outcome.task, outcome.came.waits, who=self._bench.who, now=self._now())
            if before[0]:
                _log.info("works again", extra={"data": data})
            if outcome.came.waits and outcome.came.waits != before[1]:
                _log.info(f"waits: {outcome.came.waits}", extra={"data": data})

    def _record(self) -> Record:
        with self._bench.store.read() as session:
            return steps_on_record(session)

    def _now(self) -> datetime:
        return self._bench.clock.now()


def chosen(steps: Sequence[Step], skip: Collection[str]) -> list[Step]:
    """The steps without those that are left out."""
    return [step for step in steps if step.name not in skip]


def text_of(error: Exception) -> str:
    """What can be told of an error; another library's words can hold what people typed, ours never do."""
    return (str(error) if hasattr(error, "retry") else "") or type(error).__name__


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""


def _leave() -> None:
    raise _Taken
