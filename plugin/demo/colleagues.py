"""The demo's simulated colleagues: programs that write, validate and get paid beside the person who tries the demo.

They use what workers use, at a pace that can be followed, and appear as "Simulated colleague 1", "2", …
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Self

from plugin.demo.progress import ExampleState, RoundState
from plugin.simulation.browser import Browser, SimulationPageError, SimulationStopped
from plugin.simulation.pages import Offer
from plugin.simulation.sentences import SimulationRecord
from plugin.simulation.worker import CHECK, QUIZ, SimulatedProfile, SimulatedWorker, make_profiles
from templates import TaskSpec

# An example can get the votes of five people who did not write it.
COLLEAGUES = 6
TITLE = "Simulated colleague"
SEED = "colleagues"
# They rarely slip, so that what a person wrote is rarely disputed, and think of hard sentences, so that rounds end.
SKILL, ERROR_RATE = 0.5, 0.02
# What people need a minute for takes colleagues this long in a round of one minute; it grows with the round.
PAUSE_SHARE = 1 / 40
# In a round of one minute; a person can accept what is offered before they do.
SECONDS_TO_LEAVE_CHECKS = 3.0
SECONDS_BETWEEN_VISITS = 2.0
SECONDS_IN_IDLE_DEMO = 15.0
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_STOP = 3.0
# Colleagues look in turn: a HIT that none of them has seen for this long is gone.
SECONDS_WITHOUT_CHECKS = 3 * SECONDS_BETWEEN_VISITS
_log = logging.getLogger(__name__)


class RoundPace:
    """When colleagues write: evenly, so that a round takes about `minutes`, counting what others write.

    In the first round they write from the start, and in later rounds once a person has written something: a demo that
    is left alone does not go on for ever.
    """

    def __init__(self, minutes: float, now: Callable[[], float] = time.monotonic) -> None:
        self._minutes = minutes
        self._now = now
        self._lock = threading.Lock()
        self._writing: set[int] = set()
        self._round: RoundState | None = None
        self._began = 0.0
        self._first = 0
        self._checks_since = 0.0
        self._checks_seen: float | None = None

    def update(self, state: RoundState) -> None:
        """Take note of the round's state."""
        with self._lock:
            known = self._round
            if known is None or known.number != state.number or known.takes_colleagues != state.takes_colleagues:
                self._began, self._first = self._now(), state.expected
            self._round = state

    def may_write(self, colleague: int) -> bool:
        """Return whether it is time to write; if so, the colleague counts as writing until `left`."""
        with self._lock:
            state = self._round
            if state is None or not state.takes_colleagues:
                return False
            share = min(1.0, (self._now() - self._began) / (60.0 * self._minutes))
            wanted = self._first + ceil((state.target - self._first) * share)
            if state.expected + len(self._writing) >= wanted:
                return False
            self._writing.add(colleague)
            return True

    def may_check(self) -> bool:
        """Return whether validation HITs have been offered long enough for a person to accept one."""
        with self._lock:
            now = self._now()
            # None was offered for a while: this one is new.
            if self._checks_seen is None or now - self._checks_seen > SECONDS_WITHOUT_CHECKS:
                self._checks_since = now
            self._checks_seen = now
            return now - self._checks_since >= SECONDS_TO_LEAVE_CHECKS * self._minutes

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until a person writes something."""
        with self._lock:
            state = self._round
            return state is not None and state.number > 1 and not state.examples

    def left(self, colleague: int) -> None:
        """Take note that the colleague's visit is over."""
        with self._lock:
            self._writing.discard(colleague)


@dataclass(frozen=True)
class Place:
    """Where colleagues work: the marketplace's address, and what returns the link with which a name signs in."""

    market_url: str
    invite: Callable[[str], str]


class Colleagues:
    """The colleagues, who work in a `with` block, each in a thread; what they accepted waits for the next start."""

    def __init__(
        self, spec: TaskSpec, place: Place, record: SimulationRecord, look: Callable[[], RoundState], minutes: float
    ) -> None:
        self._place = place
        self._look = look
        self._minutes = minutes
        self._stop = threading.Event()
        self._pace = RoundPace(minutes)
        self._browsers = [Browser(self._stop) for _ in range(COLLEAGUES)]
        self._workers = [
            SimulatedWorker(
                profile,
                spec,
                browser,
                place.market_url,
                record,
                wants=self._wants(profile.number),
                pause=self._pause,
            )
            for profile, browser in zip(colleague_profiles(), self._browsers, strict=True)
        ]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        works = [self._follow, *map(self._working, self._workers)]
        self._threads = [threading.Thread(target=work, name="colleague", daemon=True) for work in works]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        # A thread may wait for a server that is about to stop.
        deadline = time.monotonic() + SECONDS_TO_STOP
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for browser in self._browsers:
            browser.close()

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                self._pace.update(self._look())
            except Exception as error:  # noqa: BLE001 - the edge of a thread: it looks again
                _log.warning("cannot read the state of the round", extra={"data": {"error": type(error).__name__}})
            self._stop.wait(SECONDS_BETWEEN_LOOKS)

    def _working(self, worker: SimulatedWorker) -> Callable[[], None]:
        def sign_in() -> None:
            worker.sign_in(self._place.invite(worker.profile.name))

        def work() -> None:
            rng, signed_in = worker.profile.rng("visits"), False
            while not self._stop.is_set():
                if signed_in:
                    self._visit(worker)
                else:
                    signed_in = self._try(worker, sign_in)
                seconds = SECONDS_IN_IDLE_DEMO if self._pace.is_idle else SECONDS_BETWEEN_VISITS
                self._stop.wait(seconds * min(1.0, self._minutes) * rng.uniform(0.5, 1.5))

        return work

    def _visit(self, worker: SimulatedWorker) -> None:
        try:
            self._try(worker, worker.work)
        finally:
            self._pace.left(worker.profile.number)

    def _try(self, worker: SimulatedWorker, act: Callable[[], object]) -> bool:
        """Return whether the action succeeded."""
        try:
            act()
        except SimulationStopped:
            return False
        except Exception as error:  # noqa: BLE001 - the edge of a thread: the next visit tries again
            text = str(error) if isinstance(error, SimulationPageError) else type(error).__name__
            data = {"worker": worker.profile.name, "error": text}
            _log.warning("a simulated colleague retries later", extra={"data": data})
            return False
        return True

    def _wants(self, colleague: int) -> Callable[[Offer], bool]:
        def wants(offer: Offer) -> bool:
            if offer.title.startswith(CHECK):
                return self._pace.may_check()
            return offer.title.startswith(QUIZ) or self._pace.may_write(colleague)

        return wants

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds * PAUSE_SHARE * self._minutes):
            raise SimulationStopped("the demo is stopping")


def colleague_profiles() -> list[SimulatedProfile]:
    """Return the colleagues, always the same ones."""
    return [
        replace(one, skill=SKILL, error_rate=ERROR_RATE, honest=True, likes_checking=True, title=TITLE)
        for one in make_profiles(COLLEAGUES, SEED)
    ]


def meaning_in(examples: Sequence[ExampleState], text: str) -> str:
    """Return the label that a person was asked for with this text: a program cannot understand it."""
    return next((one.label for one in examples if one.text == text and not one.simulated), "")
