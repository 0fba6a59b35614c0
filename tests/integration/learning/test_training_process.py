"""A training in a process of its own: what its end is told as, whoever ended it."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from plugin.training_process import SOMEBODY_ELSE, TrainingProcess
from round_manager.learning.jobs import Awaited, Trainer, awaited, begin, list_jobs
from round_manager.models import TrainingState
from tests.fakes.clock import NOON
from tests.fakes.registry import eventually
from tests.integration.learning.school import TASK, School

ENDLESS = "import time; print('here', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {ENDLESS}"


@dataclass
class Program(TrainingProcess):
    """A process that runs another program than a training's."""

    program: str = ""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program]


@dataclass(frozen=True)
class Stage:
    """A task whose round waits to be learned from, and processes for it that share a log."""

    school: School
    log: Path

    def started(self, program: str) -> Program:
        process = Program(TASK, os.environ, self.log, mode="head", program=program)
        process.start()
        return process

    def tell_end(self, process: TrainingProcess) -> int | None:
        return process.tell_end(self.school.store, self.school.clock)

    def ended(self, program: str) -> int | None:
        """How a process that ends by itself ended; told twice, as whoever looks often does."""
        process = self.started(program)
        eventually(lambda: not process.lives, "it has ended", 30)
        assert self.tell_end(process) == self.tell_end(process)
        return self.tell_end(process)

    def begin_job(self, process: TrainingProcess) -> None:
        with self.school.store.write() as session:
            trainer = Trainer("outfox", "here", process.pid or 0, process.token)
            begin(session, self.school.task(session), self.school.round(1), "head", trainer, now=NOON)

    def jobs(self) -> list[tuple[TrainingState, str]]:
        with self.school.store.read() as session:
            return [(job.state, str(job.reason)) for job in list_jobs(session, self.school.task(session))]

    def awaited(self) -> Awaited | None:
        with self.school.store.read() as session:
            return awaited(session, self.school.task(session))

    def has_begun(self) -> None:
        eventually(lambda: "here" in self.log.read_text(), "it runs", 30)


@pytest.fixture
def stage(taught: School, tmp_path: Path) -> Stage:
    return Stage(taught, tmp_path / "training.log")


def test_one_that_we_stop_before_its_job_began_has_not_failed(stage: Stage) -> None:
    for _ in range(6):
        process = stage.started(ENDLESS)
        process.stop()
        assert stage.tell_end(process) == -signal.SIGTERM
    assert (stage.jobs(), stage.awaited()) == ([], Awaited(1, 0, None))


@pytest.mark.parametrize("program", [ENDLESS, STUBBORN], ids=["willing", "stubborn"])
def test_one_that_we_stop_while_it_trains_is_stopped_even_where_it_must_be_killed(stage: Stage, program: str) -> None:
    process = stage.started(program)
    stage.has_begun()
    stage.begin_job(process)
    process.stop(seconds=0.2)
    stage.tell_end(process)
    ((state, _),) = stage.jobs()
    assert (state, stage.awaited()) == (TrainingState.STOPPED, Awaited(1, 0, None))


def test_one_that_somebody_else_tells_to_end_has_not_failed_either(stage: Stage) -> None:
    process = stage.started(ENDLESS)
    stage.has_begun()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    eventually(lambda: not process.lives, "it has ended")
    assert stage.tell_end(process) == -signal.SIGTERM
    assert stage.jobs() == []


def test_one_that_was_killed_has_failed(stage: Stage) -> None:
    assert stage.ended("import os, signal; os.kill(os.getpid(), signal.SIGKILL)") == -signal.SIGKILL
    ((state, reason),) = stage.jobs()
    assert (state, "SIGKILL" in reason, stage.awaited() and True) == (TrainingState.FAILED, True, True)


def test_what_may_pass_is_told_as_a_failure_but_not_counted(stage: Stage) -> None:
    for _ in range(6):
        assert stage.ended("print('outfox: the registry does not answer'); raise SystemExit(3)") == 3
    assert set(stage.jobs()) == {(TrainingState.FAILED, "the registry does not answer")}
    assert stage.awaited() == Awaited(1, 0, None)
    assert stage.ended("print('outfox: the pack is gone'); raise SystemExit(2)") == 2
    assert stage.awaited() == Awaited(1, 1, "the pack is gone")


def test_one_that_somebody_else_was_faster_than_has_no_job(stage: Stage) -> None:
    assert stage.ended(f"raise SystemExit({SOMEBODY_ELSE})") == SOMEBODY_ELSE
    assert stage.jobs() == []


def test_only_what_it_said_itself_is_told_as_its_last_words(stage: Stage) -> None:
    stage.log.write_text("outfox: m0123 is not rotated in: seed: from 90 to 10 points\n")
    stage.ended("raise ImportError('libfoo.so.1: cannot open')")
    assert stage.jobs() == [(TrainingState.FAILED, "it ended with exit code 1")]
    stage.ended("print('outfox: the pack is gone'); raise SystemExit(2)")
    assert stage.jobs()[0] == (TrainingState.FAILED, "the pack is gone")


def test_what_lies_in_the_folder_where_it_is_started_is_not_imported(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugin.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    process = TrainingProcess("nosuch", {**os.environ, "OUTFOX_HOME": str(tmp_path)}, stage.log)
    process.start()
    eventually(lambda: not process.lives, "it has ended", 60)
    assert "outfox: there is no database at" in stage.log.read_text()
