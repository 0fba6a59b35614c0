"""The manager's loop: passes over all steps and tasks, in which an error in one never stops the others.

One manager at a time runs a step for a task; another manager skips it. A failed step whose error can pass is retried
with a growing backoff. A step whose error is permanent runs in every pass, and is logged when the error
changes. A manager can be killed between any two lines: the next one continues.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from common.errors import CodedError, Hint
from crowd.errors import CrowdError
from crowd.port import EventQueue
from plugin.hints import advice_for
from plugin.manager.crowd_steps import Expire, Plan, Post, Reconcile, SendPayments, TopUp
from plugin.manager.intake_steps import Approve, Collect, Follow, Push, Qualify, Read, Sweep
from plugin.manager.round_steps import Decide, Freeze, Move, Open, Train
from plugin.manager.step import NOTHING, ManagerContext, Step, StepResult
from plugin.manager.submission_steps import EvaluateSubmissions
from round_manager.database.store import process_lock
from round_manager.errors import RoundManagerError
from round_manager.models import ManagerStep
from round_manager.services import manager_runs
from round_manager.services.tasks import live_tasks

_log = logging.getLogger(__name__)
ALL_TASKS = "all"
# Short, so that a manager that is asked to stop does not wait for an event.
SECONDS_TO_LISTEN = 5

# In the order of a pass: new work is read first, so that everything after it sees it; money that is owed is paid before
# new money is reserved; a round that has ended is frozen, learned from, and followed by the next one.
STEPS: tuple[Step, ...] = (
    Collect(),
    Sweep(),
    Qualify(),
    Read(),
    Decide(),
    Approve(),
    Reconcile(),
    SendPayments(),
    TopUp(),
    Move(),
    Expire(),
    Plan(),
    Post(),
    Freeze(),
    Train(),
    Open(),
    Follow(),
    Push(),
    EvaluateSubmissions(),
)
STEP_NAMES = tuple(step.name for step in STEPS)


@dataclass(frozen=True)
class StepOutcome:
    """The result of one step, or its error as text and as data; after a failure it may wait until `backoff_until`."""

    step: str
    task: str
    result: StepResult = NOTHING
    error: str = ""
    retry: bool = False
    backoff_until: datetime | None = None
    code: str = ""
    hint: Hint | None = None


class _Locked(Exception):
    """Another manager is running a step of the same task."""


class Manager:
    """Runs the steps for all tasks or for one; `stop` ends it between two steps."""

    def __init__(
        self,
        context: ManagerContext,
        steps: Sequence[Step],
        *,
        task: str | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self._context = context
        self._steps = steps
        self._task = task
        self._stop = stop or threading.Event()

    def once(self, *, respect_backoff: bool = False) -> list[StepOutcome]:
        """Run one pass; with `respect_backoff`, skip the steps that wait after a failure."""
        record = manager_runs.recorded_steps(self._context.services)
        outcomes: list[StepOutcome] = []
        for step, task in self._work():
            if self._stop.is_set():
                return outcomes
            known = record.get((step.name, task))
            if respect_backoff and known is not None and manager_runs.is_backing_off(known, now=self._now()):
                error = known.error or ""
                outcomes.append(StepOutcome(step.name, task, error=error, retry=True, backoff_until=known.next_try_at))
                continue
            outcome = self._outcome(step, task)
            if outcome is not None:
                self._note(outcome, known)
                outcomes.append(outcome)
        manager_runs.record_pass(self._context.services, self._context.actor)
        return outcomes

    def run(self, pause: Callable[[], None]) -> None:
        """Run pass after pass, with pauses between them, until `stop` is set."""
        while not self._stop.is_set():
            try:
                self.once(respect_backoff=True)
            except RoundManagerError as error:
                # Without a database no step can run, and nothing can be recorded.
                _log.error("the pass ended early", extra={"data": {"error": str(error)}})
            if not self._stop.is_set():
                pause()

    def preview(self) -> Iterator[StepOutcome]:
        """Describe what a pass would do now, step by step; change nothing."""
        for step, task in self._work():
            try:
                text = step.preview(self._context, task)
            except Exception as error:  # noqa: BLE001 - the edge of a step: the others are described regardless
                yield _failure(step, task, error)
            else:
                yield StepOutcome(step.name, task, StepResult(text))

    def _work(self) -> Iterator[tuple[Step, str]]:
        names = live_tasks(self._context.services) if self._task is None else [self._task]
        for step in self._steps:
            yield from ((step, name) for name in (names if step.each_task else [""]))

    def _outcome(self, step: Step, task: str) -> StepOutcome | None:
        """Run the step and return its outcome; None if another manager holds the task's lock."""
        try:
            with process_lock(self._context.services.store, f"manage-{task or ALL_TASKS}", _skip):
                return StepOutcome(step.name, task, step.run(self._context, task))
        except _Locked:
            return None
        except Exception as error:  # noqa: BLE001 - the edge of a step: the others must run
            if not isinstance(error, CodedError):
                _log.error(
                    "unexpected error in a step", extra={"data": {"step": step.name, "task": task, "at": _place(error)}}
                )
            return _failure(step, task, error)

    def _note(self, outcome: StepOutcome, known: ManagerStep | None) -> None:
        """Log what was done and what changed, and record errors and waits for `status`."""
        data: dict[str, Any] = {"step": outcome.step, **({"task": outcome.task} if outcome.task else {})}
        before = (known.error or "", known.waits or "") if known else ("", "")
        context, result = self._context, outcome.result
        if result.done:
            _log.info(result.done, extra={"data": data})
        if outcome.error:
            row = manager_runs.record_failure(
                context.services, context.actor, outcome.step, outcome.task, outcome.error, retry=outcome.retry
            )
            if outcome.retry or outcome.error != before[0]:
                again = {"next_try": row.next_try_at} if row.next_try_at else {}
                _log.warning(outcome.error, extra={"data": {**data, "failures": row.failures, **again}})
        elif not result.in_progress and before != ("", result.waits):
            manager_runs.record_success(context.services, context.actor, outcome.step, outcome.task, waits=result.waits)
            if before[0]:
                _log.info("step works again", extra={"data": data})
            if result.waits and result.waits != before[1]:
                _log.info(f"waiting: {result.waits}", extra={"data": data})

    def _now(self) -> datetime:
        return self._context.services.clock.now()


class PassTimer:
    """Waits between two passes; an event of the marketplace, or `stop`, ends the wait early."""

    def __init__(self, stop: threading.Event, every: float, events: EventQueue | None = None) -> None:
        self._stop = stop
        self._every = every
        self._events = events

    def wait(self) -> None:
        """Wait until the next pass is due."""
        end = time.monotonic() + self._every
        while not self._stop.is_set() and (left := end - time.monotonic()) > 0:
            if self._events is None or left < 1:
                self._stop.wait(left)
            elif self._received(self._events, left):
                return

    def _received(self, events: EventQueue, left: float) -> bool:
        try:
            hints = events.take(min(SECONDS_TO_LISTEN, int(left)))
            # A lost hint is harmless: every pass reads everything that is unfinished.
            events.done(hints)
        except CrowdError as error:
            _log.warning("cannot read events", extra={"data": {"error": str(error)}})
            self._stop.wait(left)
            return False
        return bool(hints.hit_ids)


def _failure(step: Step, task: str, error: Exception) -> StepOutcome:
    if isinstance(error, CodedError):
        text = advice_for(error) or type(error).__name__
        return StepOutcome(step.name, task, error=text, retry=error.retry, code=error.code, hint=error.hint)
    # An unexpected error may pass, so it is retried. Its message can contain what people typed, so it is left out.
    return StepOutcome(step.name, task, error=type(error).__name__, retry=True)


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""


def _skip() -> None:
    raise _Locked
