"""The simulation on a running demo: the crowd works, the manager does everything else, and the end is told."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from common.text import count
from ml_backend.targets.loading import load_target
from plugin.demo.demo import TASK, Demo
from plugin.demo.servers import Watch
from plugin.errors import PluginError
from plugin.manager.trainings import MOST_FAILURES
from plugin.simulation.crowd import SimulatedCrowd
from plugin.simulation.notebook import Notebook
from plugin.simulation.people import make_people
from plugin.simulation.report import write_report
from plugin.simulation.results import Results, find_results
from round_manager.database.store import Store
from round_manager.learning.jobs import awaited, running_job
from round_manager.loop.manager_record import troubles
from round_manager.loop.overview import task_overview
from round_manager.models import RoundStatus
from round_manager.progress import Progress
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task

NOTEBOOK = "simulation.jsonl"
SECONDS_BETWEEN_LOOKS = 0.5
# So long nothing at all changes only where something is broken: a training takes a minute.
SECONDS_OF_STANDSTILL = 300.0


@dataclass(frozen=True)
class Wanted:
    """How many rounds to play, with how many simulated workers, from which seed."""

    rounds: int
    workers: int
    seed: str


@dataclass(frozen=True)
class Reported:
    """What is reported, and where it was written."""

    files: list[Path]
    results: Results


@dataclass(frozen=True)
class _Stand:
    """Where the task is: rounds that are over and learned from, and a line that changes when anything does."""

    over: int
    line: str
    given_up: str = ""


class Simulation:
    """Plays rounds on a demo until they are over, and reports."""

    def __init__(self, demo: Demo, wanted: Wanted, stop: threading.Event) -> None:
        self._demo = demo
        self._wanted = wanted
        self._stop = stop

    def play(self, watch: Watch, progress: Progress) -> Reported | None:
        """The report once the rounds are over; None where it was told to stop before."""
        demo = self._demo
        notebook = Notebook(demo.settings.home_path / NOTEBOOK, demo.pack)
        with demo.app.open_store() as store:
            self._run(store, notebook, watch, progress)
            if self._stop.is_set():
                return None
            progress.start(0, "The report is written")
            results = find_results(store, demo.app.registry(), load_target, demo.pack, notebook.seconds)
            files = write_report(results, demo.settings.home_path / "report")
            progress.finish()
        return Reported(files, results)

    def _run(self, store: Store, notebook: Notebook, watch: Watch, progress: Progress) -> None:
        wanted, leave = self._wanted, threading.Event()
        people = make_people(wanted.workers, wanted.seed)
        crowd = SimulatedCrowd(people, self._demo.pack.spec, self._demo.settings.crowd_url, notebook, leave)
        crowd.come(self._demo.market.invite)
        working = threading.Thread(target=crowd.work, name="simulated-crowd", daemon=True)
        working.start()
        # How long a round takes is anybody's guess, so nobody is told how long it still takes.
        progress.start(0, f"The simulated crowd plays {count(wanted.rounds, 'round')}")
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
        while not self._stop.wait(SECONDS_BETWEEN_LOOKS):
            watch.look()
            stand = self._stand(store)
            told = f"{stand.line}; {crowd.tally}"
            if told != seen:
                seen, since = told, time.monotonic()
            progress.advance(0, told)
            if stand.over >= self._wanted.rounds:
                return
            if stand.given_up or not working.is_alive() or time.monotonic() - since > SECONDS_OF_STANDSTILL:
                raise PluginError(f"the simulation stands still: {stand.given_up or self._reasons(store)}")

    def _stand(self, store: Store) -> _Stand:
        with store.read() as session:
            task = find_task(session, TASK)
            rounds = [one for one in list_rounds(session, task) if one.status is not RoundStatus.DRAFT]
            over = sum(one.frozen_at is not None for one in rounds)
            waits, job = awaited(session, task), running_job(session, task)
            if job is not None:
                line = f"training after round {over}: {job.stage or 'it begins'}, {job.steps} of {job.total}"
            elif waits is not None:
                failed = f" after {waits.failures} that failed" if waits.failures else ""
                line = f"round {over} is frozen, and a training starts{failed}"
            else:
                seen = task_overview(session, task, now=self._demo.app.clock.now())
                verified = f"{seen.verified_fooling:,} of {seen.target_fooling:,} verified"
                line = f"round {seen.round} is {seen.status}, {verified}"
        hopeless = waits is not None and waits.failures >= MOST_FAILURES
        learned = over - (1 if waits is not None or job is not None else 0)
        return _Stand(learned, line, f"the training fails: {waits.reason}" if waits and hopeless else "")

    def _reasons(self, store: Store) -> str:
        with store.read() as session:
            found = [one.error or one.waits or "" for one in troubles(session, TASK)]
        home = self._demo.settings.home_path
        return f"{'; '.join(found) or 'nobody knows why'}; the logs in {home} tell more"
