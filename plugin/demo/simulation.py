"""The simulation on a running demo: the simulated crowd works, the manager does everything else."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from common.progress import Progress
from common.text import count
from ml_backend.targets.loading import load_target
from plugin.demo.demo import TASK, Demo
from plugin.demo.gold import gold_file, readings
from plugin.demo.servers import Watch
from plugin.errors import PluginError
from plugin.simulation.browser import Browser, SimulationPageError, SimulationStopped
from plugin.simulation.report import write_report
from plugin.simulation.results import Results, find_results
from plugin.simulation.sentences import SimulationRecord
from plugin.simulation.worker import SimulatedProfile, SimulatedWorker, make_profiles
from round_manager.database.store import Store
from round_manager.learning.training_data import pending_training
from round_manager.learning.training_jobs import running_job
from round_manager.loop.manager_record import problem_steps
from round_manager.loop.overview import task_overview
from round_manager.models import RoundStatus
from round_manager.services.training_supervisor import MAX_FAILURES
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task
from templates import TaskSpec

RECORD = "simulation.jsonl"
POLL_SECONDS = 0.5
# Without any change for this long, something is broken: a training takes a minute.
STALL_SECONDS = 300.0
PARALLEL_WORKERS = 3
SECONDS_BETWEEN_VISITS = 1.0
_log = logging.getLogger(__name__)


class SimulatedCrowd:
    """Works until `stop` is set."""

    def __init__(
        self,
        profiles: Sequence[SimulatedProfile],
        spec: TaskSpec,
        market_url: str,
        record: SimulationRecord,
        stop: threading.Event,
    ) -> None:
        self._browsers = [Browser(stop) for _ in profiles]
        self._workers = [
            SimulatedWorker(profile, spec, browser, market_url, record)
            for profile, browser in zip(profiles, self._browsers, strict=True)
        ]
        self._stop = stop
        self._pool = ThreadPoolExecutor(PARALLEL_WORKERS, "simulated-crowd")
        self.done: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def summary(self) -> str:
        """What was done so far, as a text."""
        quizzes, pages = count(self.done["quiz"], "quiz", "quizzes"), count(self.done["validate"], "page")
        return f"{quizzes}, {self.done['create']:,} written ({self.done['fooled']:,} fooled), {pages} checked"

    def sign_in(self, invite: Callable[[str], str]) -> None:
        """Sign in every worker; `invite` returns the link for a name."""
        for worker in self._workers:
            worker.sign_in(invite(worker.profile.name))

    def work(self) -> None:
        """Let every worker look for work and do it, until `stop` is set."""
        while not self._stop.is_set():
            if not self.once():
                self._stop.wait(SECONDS_BETWEEN_VISITS)

    def once(self) -> bool:
        """Let every worker do one HIT, if there is one for them; return whether any did."""
        return any(list(self._pool.map(self._visit, self._workers)))

    def close(self) -> None:
        """Stop the threads and close the connections."""
        self._pool.shutdown()
        for browser in self._browsers:
            browser.close()

    def _visit(self, worker: SimulatedWorker) -> bool:
        """Return whether the worker did something; a failure is left to the next visit."""
        try:
            done = worker.work()
        except SimulationStopped:
            return False
        except SimulationPageError as error:
            data = {"worker": worker.profile.name, "error": str(error)}
            _log.warning("a simulated worker retries later", extra={"data": data})
            return False
        with self._lock:
            self.done.update({done.kind: 1, "attempts": done.attempts, "fooled": done.fooled})
        return bool(done.kind)


def open_record(demo: Demo, meaning: Callable[[str], str] = lambda _text: "") -> SimulationRecord:
    """Return the record of a demo's sentences, with the meaning of its gold."""
    home = demo.settings.home_path
    record = SimulationRecord(home / RECORD, demo.pack, meaning)
    for text, reading in readings(gold_file(home, demo.pack), demo.pack):
        record.note_text(text, reading)
    return record


@dataclass(frozen=True)
class SimulationOptions:
    """How many rounds to run, with how many simulated workers, from which seed."""

    rounds: int
    workers: int
    seed: str


@dataclass(frozen=True)
class SimulationReport:
    """The results, and the files they were written to."""

    files: list[Path]
    results: Results


@dataclass(frozen=True)
class _TaskState:
    """The rounds that are frozen and learned from, and a line that changes with every progress."""

    over: int
    line: str
    failure: str = ""


class SimulationStalled(PluginError):
    """The simulation makes no progress."""


class Simulation:
    """Runs rounds on a demo until they are over, and reports the results."""

    def __init__(self, demo: Demo, options: SimulationOptions, stop: threading.Event) -> None:
        self._demo = demo
        self._options = options
        self._stop = stop

    def run(self, watch: Watch, progress: Progress) -> SimulationReport | None:
        """Return the report once the rounds are over; None if the simulation was stopped."""
        demo = self._demo
        record = open_record(demo)
        with demo.app.open_store() as store:
            self._run_crowd(store, record, watch, progress)
            if self._stop.is_set():
                return None
            progress.start(0, "Writing the report")
            results = find_results(store, demo.app.registry(), load_target, demo.pack, record.seconds)
            files = write_report(results, demo.settings.home_path / "report")
            progress.finish()
        return SimulationReport(files, results)

    def _run_crowd(self, store: Store, record: SimulationRecord, watch: Watch, progress: Progress) -> None:
        options, leave = self._options, threading.Event()
        profiles = make_profiles(options.workers, options.seed)
        crowd = SimulatedCrowd(profiles, self._demo.pack.spec, self._demo.settings.crowd_url, record, leave)
        crowd.sign_in(self._demo.invite_simulated)
        working = threading.Thread(target=crowd.work, name="simulated-crowd", daemon=True)
        working.start()
        # The length of a round cannot be predicted, so no remaining time is shown.
        progress.start(0, f"The simulated crowd runs {count(options.rounds, 'round')}")
        try:
            self._follow(store, crowd, working, watch, progress)
        finally:
            leave.set()
            working.join()
            crowd.close()
        progress.finish()

    def _follow(
        self, store: Store, crowd: SimulatedCrowd, working: threading.Thread, watch: Watch, progress: Progress
    ) -> None:
        seen, since = "", time.monotonic()
        while not self._stop.wait(POLL_SECONDS):
            watch.check()
            state = self._state(store)
            line = f"{state.line}; {crowd.summary}"
            if line != seen:
                seen, since = line, time.monotonic()
            progress.advance(0, line)
            if state.over >= self._options.rounds:
                return
            if state.failure or not working.is_alive() or time.monotonic() - since > STALL_SECONDS:
                raise SimulationStalled(f"the simulation makes no progress: {state.failure or self._reasons(store)}")

    def _state(self, store: Store) -> _TaskState:
        with store.read() as session:
            task = find_task(session, TASK)
            rounds = [one for one in list_rounds(session, task) if one.status is not RoundStatus.DRAFT]
            over = sum(one.frozen_at is not None for one in rounds)
            waits, job = pending_training(session, task), running_job(session, task)
            if job is not None:
                line = f"training after round {over}: {job.stage or 'starting'}, {job.steps} of {job.total}"
            elif waits is not None:
                failed = f", {waits.failures} failed before" if waits.failures else ""
                line = f"round {over} is frozen; a training is about to start{failed}"
            else:
                seen = task_overview(session, task, now=self._demo.app.clock.now())
                verified = f"{seen.new_verified_fooling:,} of {seen.target_fooling:,} verified"
                line = f"round {seen.round} is {seen.status}, {verified}"
        hopeless = waits is not None and waits.failures >= MAX_FAILURES
        learned = over - (1 if waits is not None or job is not None else 0)
        return _TaskState(learned, line, f"the training fails: {waits.reason}" if waits and hopeless else "")

    def _reasons(self, store: Store) -> str:
        with store.read() as session:
            found = [one.error or one.waits or "" for one in problem_steps(session, TASK)]
        home = self._demo.settings.home_path
        return f"{'; '.join(found) or 'the reason is unknown'}; see the logs in {home}"
