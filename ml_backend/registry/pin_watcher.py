"""The pin watcher: two threads of a serving process that follow the pins and send heartbeats."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import inf

from ml_backend.errors import NotServed, RegistryCorrupt, RegistryError
from ml_backend.registry.heartbeats import ProcessIdentity
from ml_backend.registry.registry import FollowedPins, Heartbeat, PinSet, Registry

RETRY_SECONDS = 2.0
RECHECK_SECONDS = 60.0
CATCH_UP_SECONDS = 5.0
STOP_SECONDS = 5.0
# The share of a lease that this process relies on; the others wait for all of it.
TRUSTED_SHARE = 0.75
DISCOVERY_INTERVAL = 2.0

log = logging.getLogger(__name__)


class PinWatcher:
    """Follows the pins of some tasks by calling `follow` with each changed pin set.

    With `can_serve`, it also follows every other task that has pins and for which `can_serve` returns True.

    A rotation waits for every process whose heartbeat is younger than its lease. While this process renews its
    heartbeat, its models are therefore current: a rotation that it does not know of cannot have ended. After a longer
    pause (a suspended machine, a stopped process), a rotation may have ended without it: `trusted_until` has passed,
    and the process must read the pins before it answers again. If the registry does not answer, the process continues
    with its models and reports the problem.
    """

    def __init__(
        self,
        registry: Registry,
        tasks: Sequence[str],
        follow: Callable[[PinSet], FollowedPins],
        can_serve: Callable[[str], bool] | None = None,
    ) -> None:
        self._registry = registry
        self._follow = follow
        self._can_serve = can_serve
        self._next_discovery = 0.0
        self._discovery_error = ""
        self._process = ProcessIdentity.this()
        self._id = uuid.uuid4().hex
        self._followed = {task: FollowedPins(generation=0) for task in tasks}
        self._stamps: dict[str, str] = {}
        self._recheck_at: dict[str, float] = {}
        self._heartbeat_lock = threading.Lock()
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._caught_up = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._problems: dict[str, tuple[str, datetime]] = {}
        self.trusted_until = inf

    @property
    def problem(self) -> tuple[str, datetime] | None:
        """Why the registry cannot be followed, and since when; None if it can."""
        return next(iter(self._problems.values()), None)

    def follows(self, task: str) -> bool:
        """Return whether the task's pins are followed."""
        return task in self._followed

    def start(self) -> None:
        """Apply the current pins, then watch them in threads."""
        self._process = ProcessIdentity.this()
        self._discover_tasks()
        # Heartbeats continue while the first models load, which can take longer than a lease.
        self._start_thread("registry-heartbeat", self._send_heartbeats)
        try:
            self._join(first=True)
        except RegistryError:
            self.stop()
            raise
        self._start_thread("registry-watch", self._watch)

    def stop(self) -> None:
        """End the threads and remove the heartbeat, without waiting for a model that is being loaded."""
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)
        self._remove_heartbeat()

    def catch_up(self) -> None:
        """Wait until the pins have been read after a pause; raise NotServed if that takes too long."""
        self._wake.set()
        with self._caught_up:
            if self._caught_up.wait_for(lambda: time.monotonic() <= self.trusted_until, CATCH_UP_SECONDS):
                return
        raise NotServed("this process was suspended and is still loading the current model; try again")

    def _start_thread(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _join(self, *, first: bool = False) -> None:
        """Send a heartbeat, then read the pins: a rotation that starts in between waits for this process."""
        began = time.monotonic()
        for step in (self._send_heartbeat, self._check_pins):
            try:
                step()
            except RegistryError as error:
                if first and not error.retry:
                    raise
        self._trust(began)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._registry.timing.poll)
            self._wake.clear()
            began = time.monotonic()
            try:
                if self._discover_tasks():
                    self._send_heartbeat()
                if began > self.trusted_until or self._problems:
                    self._join()
                else:
                    self._check_pins()
            except RegistryError:
                self._trust(began)  # recorded by _recorded; the old models keep answering
            except Exception:  # a thread's edge: a process that stops following would be worse
                log.exception("following the pins failed")

    def _send_heartbeats(self) -> None:
        while not self._stopping.wait(self._registry.timing.heartbeat):
            began = time.monotonic()
            if began > self.trusted_until:
                # The pins must be read first; the other thread does that.
                self._wake.set()
                continue
            try:
                self._send_heartbeat()
            except RegistryError:
                pass  # recorded by _recorded; the old models keep answering
            except Exception:  # a thread's edge, as above
                log.exception("sending a heartbeat failed")
            self._trust(began)

    def _trust(self, began: float) -> None:
        """Allow the current models for a share of the lease that began at that time."""
        until = began + self._registry.timing.lease * TRUSTED_SHARE
        with self._caught_up:
            self.trusted_until = until if self.trusted_until == inf else max(until, self.trusted_until)
            self._caught_up.notify_all()

    def _discover_tasks(self) -> bool:
        """Start following new tasks; return whether there are any."""
        if self._can_serve is None or time.monotonic() < self._next_discovery:
            return False
        self._next_discovery = time.monotonic() + DISCOVERY_INTERVAL
        try:
            # A task without pins has nothing to answer with.
            unknown = [task for task in self._registry.tasks() if task not in self._followed]
            pinned = [task for task in unknown if self._registry.stamp(task)]
        except RegistryError as error:
            # Known tasks are still followed: a process may be allowed to read pins but not to list them.
            if str(error) != self._discovery_error:
                log.warning("cannot look for new tasks", extra={"data": {"error": str(error)}})
            self._discovery_error = str(error)
            return False
        self._discovery_error = ""
        found = {task: FollowedPins(generation=0) for task in pinned if self._can_serve(task)}
        self._followed = {**self._followed, **found}
        for task in found:
            log.info("serving a new task", extra={"data": {"task": task}})
        return bool(found)

    def _check_pins(self) -> None:
        """Follow every task whose pins changed, or failed to load a while ago."""
        with self._recorded("pins"):
            for task in self._followed:
                stamp = self._registry.stamp(task)
                if stamp == self._stamps.get(task) and time.monotonic() < self._recheck_at.get(task, inf):
                    continue
                if self._stamps.get(task) and not stamp:
                    raise RegistryCorrupt(f"the pins of {task} are missing; restore them, or rotate again")
                followed = self._follow(self._registry.pin_set(task))
                self._stamps[task] = stamp
                self._recheck_at[task] = time.monotonic() + _recheck_delay(followed)
                if followed != self._followed[task]:
                    log.info("pins followed", extra={"data": {"task": task, "generation": followed.generation}})
                    for failure in followed.failures:
                        log.error("pins could not be loaded", extra={"data": {"task": task, **failure.model_dump()}})
                    self._followed[task] = followed
                    self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        # A report must not be older than the one before it.
        with self._recorded("heartbeat"), self._heartbeat_lock:
            if self._stopping.is_set():
                return
            self._registry.send_heartbeat(
                Heartbeat(
                    id=self._id,
                    host=self._process.host,
                    pid=self._process.pid,
                    started=self._process.started,
                    lease=self._registry.timing.lease,
                    tasks=dict(self._followed),
                )
            )

    def _remove_heartbeat(self) -> None:
        try:
            with self._heartbeat_lock:
                self._registry.remove_heartbeat(self._id)
        except RegistryError as error:
            log.warning("could not remove this process's heartbeat", extra={"data": {"error": str(error)}})

    @contextmanager
    def _recorded(self, what: str) -> Iterator[None]:
        """Record since when a step has been failing."""
        try:
            yield
        except RegistryError as error:
            if what not in self._problems:
                log.warning("the registry cannot be followed", extra={"data": {"error": str(error)}})
            since = self._problems.get(what, ("", datetime.now(UTC)))[1]
            self._problems = {**self._problems, what: (str(error), since)}
            raise
        if what in self._problems:
            log.info("the registry can be followed again")
            self._problems = {name: problem for name, problem in self._problems.items() if name != what}


def _recheck_delay(followed: FollowedPins) -> float:
    """Return after how many seconds pins that failed to load are tried again."""
    if not followed.failures:
        return inf
    return RETRY_SECONDS if any(failure.retry for failure in followed.failures) else RECHECK_SECONDS
