"""The watch: two threads of a serving process that follow the pins and tell the others how far."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import inf

from ml_backend.registry.beats import Process
from ml_backend.registry.errors import NotServed, RegistryError
from ml_backend.registry.registry import Beat, Book, Registry, Served

SECONDS_UNTIL_RETRY = 2.0
SECONDS_UNTIL_LOOK = 60.0
SECONDS_TO_CATCH_UP = 5.0
SECONDS_TO_STOP = 5.0
# The part of a lease that this process believes in itself; the others wait for all of it.
TRUST = 0.75
SECONDS_BETWEEN_MEETINGS = 2.0

log = logging.getLogger(__name__)


class Watch:
    """Follows the pins of some tasks by asking `follow` to apply each new book.

    With `knows`, also of every other task that has pins and that it knows, as soon as there is one.

    A rotation waits for every process whose beat is younger than its lease. So as long as this process renews its
    beat, whatever it answers with is right: a rotation that it does not know of has not ended. After a pause that was
    longer (a suspended machine, a stopped process) a rotation may have ended without it: then `trusted_until` has
    passed, and it must look at the pins before it answers again. A registry that does not answer is another thing: the
    process goes on with what it has, and says so.
    """

    def __init__(
        self,
        registry: Registry,
        tasks: Sequence[str],
        follow: Callable[[Book], Served],
        knows: Callable[[str], bool] | None = None,
    ) -> None:
        self._registry = registry
        self._follow = follow
        self._knows = knows
        self._next_meeting = 0.0
        self._not_met = ""
        self._process = Process.this()
        self._id = uuid.uuid4().hex
        self._served = {task: Served(generation=0) for task in tasks}
        self._stamps: dict[str, str] = {}
        self._look_again: dict[str, float] = {}
        self._beating = threading.Lock()
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._caught_up = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._troubles: dict[str, tuple[str, datetime]] = {}
        self.trusted_until = inf

    @property
    def trouble(self) -> tuple[str, datetime] | None:
        """Why the registry cannot be followed, and since when; None while all is well."""
        return next(iter(self._troubles.values()), None)

    def serves(self, task: str) -> bool:
        """Whether the task's pins are followed."""
        return task in self._served

    def start(self) -> None:
        """Follows the pins as they are now, then goes on in threads."""
        self._process = Process.this()
        self._meet()
        # The beat goes on while the first models load, which can take longer than a lease.
        self._begin("registry-beat", self._pulse)
        try:
            self._join(first=True)
        except RegistryError:
            self.stop()
            raise
        self._begin("registry-watch", self._watch)

    def stop(self) -> None:
        """Ends the threads and takes this process off the list; what is just being loaded is not waited for."""
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(SECONDS_TO_STOP)
        self._leave()

    def catch_up(self) -> None:
        """Waits until the pins were looked at after the pause; NotServed where that takes too long."""
        self._wake.set()
        with self._caught_up:
            if self._caught_up.wait_for(lambda: time.monotonic() <= self.trusted_until, SECONDS_TO_CATCH_UP):
                return
        raise NotServed("this process was stopped for a while and still loads the right model; try again", retry=True)

    def _begin(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _join(self, *, first: bool = False) -> None:
        """First the beat, then the look at the pins: whoever pins in between waits for this process."""
        began = time.monotonic()
        for step in (self._beat, self._look):
            try:
                step()
            except RegistryError as error:
                if first and not error.retry:
                    raise
        self._trust(began)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._registry.pace.poll)
            self._wake.clear()
            began = time.monotonic()
            try:
                if self._meet():
                    self._beat()
                if began > self.trusted_until or self._troubles:
                    self._join()
                else:
                    self._look()
            except RegistryError:
                self._trust(began)  # it is noted, and the old pins go on
            except Exception:  # the edge of a thread: a process that follows no more would be worse
                log.exception("following the pins failed")

    def _pulse(self) -> None:
        while not self._stopping.wait(self._registry.pace.beat):
            began = time.monotonic()
            if began > self.trusted_until:
                # The pins come first now; the other thread looks at them.
                self._wake.set()
                continue
            try:
                self._beat()
            except RegistryError:
                pass  # it is noted, and the old pins go on
            except Exception:  # the edge of a thread, as above
                log.exception("telling the registry failed")
            self._trust(began)

    def _trust(self, began: float) -> None:
        """What is served may be served for a part of a lease that began then."""
        until = began + self._registry.pace.lease * TRUST
        with self._caught_up:
            self.trusted_until = until if self.trusted_until == inf else max(until, self.trusted_until)
            self._caught_up.notify_all()

    def _meet(self) -> bool:
        """Whether there are tasks that were not followed before; from now on they are."""
        if self._knows is None or time.monotonic() < self._next_meeting:
            return False
        self._next_meeting = time.monotonic() + SECONDS_BETWEEN_MEETINGS
        try:
            # Without pins there is nothing to answer with, and nobody waits for it.
            strangers = [task for task in self._registry.tasks() if task not in self._served]
            pinned = [task for task in strangers if self._registry.stamp(task)]
        except RegistryError as error:
            # What is followed is followed all the same: who may read pins may not be allowed to list them.
            if str(error) != self._not_met:
                log.warning("new tasks cannot be looked for", extra={"data": {"error": str(error)}})
            self._not_met = str(error)
            return False
        self._not_met = ""
        met = {task: Served(generation=0) for task in pinned if self._knows(task)}
        self._served = {**self._served, **met}
        for task in met:
            log.info("a task is served from now on", extra={"data": {"task": task}})
        return bool(met)

    def _look(self) -> None:
        """Follow every task whose pins have changed, or could not be loaded a while ago."""
        with self._noted("pins"):
            for task in self._served:
                stamp = self._registry.stamp(task)
                if stamp == self._stamps.get(task) and time.monotonic() < self._look_again.get(task, inf):
                    continue
                if self._stamps.get(task) and not stamp:
                    raise RegistryError(f"the pins of {task} are gone; restore them, or rotate again")
                served = self._follow(self._registry.book(task))
                self._stamps[task] = stamp
                self._look_again[task] = time.monotonic() + _patience(served)
                if served != self._served[task]:
                    log.info("pins followed", extra={"data": {"task": task, "generation": served.generation}})
                    for failure in served.failures:
                        log.error("pins do not load", extra={"data": {"task": task, **failure.model_dump()}})
                    self._served[task] = served
                    self._beat()

    def _beat(self) -> None:
        # What is told must not be older than what was told before.
        with self._noted("beat"), self._beating:
            if self._stopping.is_set():
                return
            self._registry.beat(
                Beat(
                    id=self._id,
                    host=self._process.host,
                    pid=self._process.pid,
                    started=self._process.started,
                    lease=self._registry.pace.lease,
                    tasks=dict(self._served),
                )
            )

    def _leave(self) -> None:
        try:
            with self._beating:
                self._registry.leave(self._id)
        except RegistryError as error:
            log.warning("the registry still lists this process", extra={"data": {"error": str(error)}})

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        """Keeps in mind since when something does not work."""
        try:
            yield
        except RegistryError as error:
            if what not in self._troubles:
                log.warning("the registry cannot be followed", extra={"data": {"error": str(error)}})
            since = self._troubles.get(what, ("", datetime.now(UTC)))[1]
            self._troubles = {**self._troubles, what: (str(error), since)}
            raise
        if what in self._troubles:
            log.info("the registry can be followed again")
            self._troubles = {name: trouble for name, trouble in self._troubles.items() if name != what}


def _patience(served: Served) -> float:
    """How long until pins that did not load are tried again."""
    if not served.failures:
        return inf
    return SECONDS_UNTIL_RETRY if any(failure.retry for failure in served.failures) else SECONDS_UNTIL_LOOK
