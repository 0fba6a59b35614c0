"""`outfox model retrain` and related commands on the command line, with tiny real models."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from common.clock import SystemClock
from ml_backend.artefact import read_manifest
from ml_backend.manifest import trained_only
from plugin.jobs.local import LocalJobRunner
from round_manager.database.store import open_store
from round_manager.jobs import JobOwner, JobRequest
from round_manager.learning.training_data import closed_rounds
from round_manager.learning.training_jobs import JobProgress, list_jobs, record_heartbeat, running_job, start_job
from round_manager.learning.versions import find_versions
from round_manager.models import TrainingState
from round_manager.services.context import ServiceContext
from round_manager.services.training_supervisor import record_job_end
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task
from tests.campaign.training import (
    ACTOR,
    JOB_OWNER,
    TASK,
    TrainingCampaign,
    find_training,
    first_round_rows,
    small_pack,
)
from tests.conftest import Outfox, replace_in
from tests.fakes.registry import eventually, load_fixed
from tests.fakes.trainer import FakeTrainer
from tests.integration.round_manager.learning.trained_home import Home, home_of_its_own, home_trained_once  # noqa: F401 - fixtures
from tests.unit.ml_backend.conftest import tiny_base  # noqa: F401 - pytest finds fixtures by their names here

ROOT = Path(__file__).resolve().parents[4]


def local_runner(home: Path) -> LocalJobRunner:
    environment = {**os.environ, "OUTFOX_HOME": str(home), "PYTHONPATH": str(ROOT)}
    return LocalJobRunner(environment, lambda request: home / "training.log")


def kill_a_training(outfox: Outfox, home: Home) -> None:
    """A training in a separate process, killed after its start; the serving versions and the rounds are unchanged."""
    runner, request = local_runner(home.folder), JobRequest("training", TASK, "head")
    with open_store(home.database) as store:

        def begun() -> bool:
            assert not runner.status(request).has_ended, runner.log(request)
            with store.read() as session:
                return running_job(session, find_task(session, TASK)) is not None

        runner.start(request)
        eventually(begun, "the training has begun", 60)
        assert outfox("model", "retrain", TASK, "--mode", "head", "--json").failure == (2, "training_busy")
        os.kill(runner.status(request).pid, signal.SIGKILL)
        eventually(lambda: runner.status(request).has_ended, "it is dead")
        record_job_end(ServiceContext(store, SystemClock()), ACTOR, request, runner.status(request))
        with store.read() as session:
            task = find_task(session, TASK)
            (job,) = list_jobs(session, task)
            assert (job.state, live_round(session, task.id)) == (TrainingState.FAILED, None)
            assert "SIGKILL" in str(job.reason)
            assert find_versions(session, task, [home.base])
    assert home.pinned(outfox) == [home.base]


def test_after_a_killed_training_the_next_one_is_traced_and_rolled_back(outfox: Outfox, home: Home) -> None:
    kill_a_training(outfox, home)
    ran = outfox("model", "retrain", TASK, "--mode", "head", "--json")
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert result["rotated"], result
    assert [(one["round"], one["rows"]) for one in result["sources"]] == [(None, 12), (1, 8)]
    figures = [(one["dataset"], one["rows"]) for one in result["figures"]]
    assert figures == [("seed", 6), ("round 1", 4), ("all held-out rows", 10)]
    version = result["version"]
    assert home.pinned(outfox) == [version]

    manifest = trained_only(read_manifest(home.folder / "models" / TASK / version))
    assert [(source.round, source.rows) for source in manifest.sources] == [(None, 12), (1, 8)]
    assert "of these from round 1" in (home.folder / "models" / TASK / version / "README.md").read_text()

    job = json.loads(outfox("model", "jobs", TASK, "--json").out)[0]
    assert (job["state"], job["version"], job["mode"]) == ("rotated", version, "head")
    traced = json.loads(outfox("model", "lineage", TASK, "--check", "--json").out)
    assert traced["differs"] == []
    ((line,),) = traced["lines"]
    assert [(one["source"], one["against"]) for one in line["learned"]] == [("seed", []), ("round 1", [home.base])]
    assert all(one["memory_bytes"] > 10_000_000 and one["rows_per_second"] > 0 for one in line["figures"])
    assert "round 1" in outfox("model", "lineage", TASK, version).out

    assert json.loads(outfox("model", "rollback", TASK, "--json").out)["versions"] == [home.base]
    assert home.pinned(outfox) == [home.base]


def a_job_of(training: TrainingCampaign, pid: int, host: str = "", *, silent: timedelta) -> None:
    """Record a training as running, whose process sent its last heartbeat this long ago."""
    now = SystemClock().now() - silent
    with training.store.write() as session:
        trainer = JobOwner("ada", host or socket.gethostname(), pid)
        round = closed_rounds(session, training.task_in(session))[-1]
        round.frozen_at, round.archive_sha256, round.archive_uri = SystemClock().now(), "0" * 64, "archives"
        start_job(session, training.task_in(session), round, "head", trainer, now=now)


def test_an_interrupted_training_is_shown_as_interrupted(outfox: Outfox, quick: TrainingCampaign) -> None:
    with subprocess.Popen(["sleep", "60"]) as killed:
        killed.kill()
        # It is dead, but its parent has not collected it yet.
        a_job_of(quick, killed.pid, silent=timedelta(seconds=20))
        expected = "was interrupted"
        eventually(lambda: expected in outfox("status").out, "the status shows it")
        assert "interrupted, its process is gone" in outfox("model", "jobs", TASK).out
    assert expected in outfox("status").out
    assert outfox("model", "cancel", TASK).code == 0


def test_a_reused_pid_is_not_mistaken_for_a_dead_job(outfox: Outfox, quick: TrainingCampaign) -> None:
    with subprocess.Popen(["sleep", "60"]) as later:
        a_job_of(quick, later.pid, silent=timedelta(seconds=20))
        assert "was interrupted" in outfox("status").out
        later.kill()


@pytest.mark.parametrize(
    ("host", "silent", "text"),
    [
        ("", timedelta(seconds=20), "the next model is being trained"),
        ("", timedelta(0), "the next model is being trained"),
        ("elsewhere", timedelta(seconds=20), "the next model is being trained"),
        ("elsewhere", timedelta(seconds=70), "no heartbeat for 1 minute"),
    ],
)
def test_a_training_that_may_be_alive_is_not_shown_as_gone(
    outfox: Outfox, quick: TrainingCampaign, host: str, silent: timedelta, text: str
) -> None:
    # Process 1 is older than any job; this process may be younger.
    a_job_of(quick, 2**22 if host or not silent else 1, host, silent=silent)
    assert text in outfox("status").out


def problems(err: str) -> list[str]:
    assert "Traceback" not in err
    return [line for line in err.splitlines() if line.startswith("outfox: ")]


@pytest.fixture
def quick(
    outfox: Outfox, home_tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TrainingCampaign]:
    """A task whose models take no time; `positive` answers, and it is right in 40 of 44 held-out rows."""
    pack, folder = small_pack(tmp_path / "packs", {"positive": 40}), tmp_path / "home"
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    monkeypatch.setattr("ml_backend.targets.footprint.version_peak_bytes", lambda directory: None)
    monkeypatch.setattr("round_manager.learning.training_data.LocalTrainer", lambda models, *_: FakeTrainer(models))
    assert outfox("task", "create", pack.folder).code == 0
    with open_store(home_tables) as store:
        training = find_training(store, pack, folder / "models")
        training.pin("positive")
        training.add_closed_round(first_round_rows())
        yield training


def test_a_guard_failure_is_one_line_with_figures_and_exit_code_2(outfox: Outfox, quick: TrainingCampaign) -> None:
    pinned = quick.pinned()
    ran = outfox("model", "retrain", TASK, "--json")
    assert (ran.code, json.loads(ran.out)["rotated"]) == (2, False), ran.err
    (line,) = problems(ran.err)
    assert "90.9 to 4.5 points on 44 rows" in line
    assert "rounds.guard_points" in line
    assert quick.pinned() == pinned
    shown = outfox("model", "jobs", TASK).out
    assert "refused" in shown
    assert "90.9" in shown


def test_a_terminated_process_records_its_stop_and_changes_nothing(
    outfox: Outfox, quick: TrainingCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminate(step: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    ending = FakeTrainer(quick.models, before_step=terminate)
    monkeypatch.setattr("round_manager.learning.training_data.LocalTrainer", lambda models, *_: ending)
    pinned, before = quick.pinned(), signal.getsignal(signal.SIGTERM)
    assert outfox("model", "retrain", TASK).code == 130
    assert signal.getsignal(signal.SIGTERM) == before
    (job,) = json.loads(outfox("model", "jobs", TASK, "--json").out)
    assert (job["state"], job["reason"]) == ("stopped", "stopped; nothing changed")
    assert quick.pinned() == pinned


def test_a_process_that_fails_before_it_trains_is_recorded_with_its_error(
    outfox: Outfox, quick: TrainingCampaign
) -> None:
    (quick.pack.folder / "seed.jsonl").write_text("no JSON")
    runner, request = local_runner(quick.models.parent), JobRequest("training", TASK, "head")
    runner.start(request)
    eventually(lambda: runner.status(request).has_ended, "it has ended", 60)
    for _ in range(2):
        record_job_end(quick.services, ACTOR, request, runner.status(request))
    (job,) = json.loads(outfox("model", "jobs", TASK, "--json").out)
    assert job["state"] == "failed"
    assert job["reason"].startswith("seed.jsonl:1: is not JSON")


def test_a_training_without_a_heartbeat_is_shown_and_can_be_cancelled(outfox: Outfox, quick: TrainingCampaign) -> None:
    with quick.store.write() as session:
        then = SystemClock().now() - timedelta(minutes=10)
        job = start_job(session, quick.task_in(session), quick.find_round(1), "head", JOB_OWNER, now=then)
        record_heartbeat(session, job.id, JobProgress("epoch 2 of 5", 30, 120, "loss 0.4"), now=then)
    shown = " ".join(outfox("model", "jobs", TASK).out.split())
    assert "epoch 2 of 5 25% loss 0.4; no heartbeat for 10 minutes" in shown
    assert outfox("model", "cancel", TASK).code == 0
    assert json.loads(outfox("model", "jobs", TASK, "--json").out)[0]["state"] == "cancelled"


def test_changed_rows_are_found_in_a_lineage(outfox: Outfox, quick: TrainingCampaign) -> None:
    version = json.loads(outfox("model", "retrain", TASK, "--json").out)["version"]
    ran = outfox("model", "lineage", TASK, version, "--check", "--json")
    assert (ran.code, json.loads(ran.out)["differs"]) == (0, []), ran.err
    assert "round 1" in ran.out
    replace_in(quick.pack.folder / "seed.jsonl", "A lovely seed, number 0.", "A lovely seed, number 00.")
    ran = outfox("model", "lineage", TASK, version, "--check", "--json")
    assert (ran.code, json.loads(ran.out)["differs"]) == (2, ["seed"]), ran.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("retrain", "nosuch"), "task_not_found"),
        (("retrain", TASK), "round_not_closed"),
        (("cancel", TASK), "no_training"),
        (("lineage", TASK), "model_version_not_found"),
        (("lineage", TASK, "m000000000000"), "model_version_not_found"),
        (("jobs", "nosuch"), "task_not_found"),
    ],
)
@pytest.mark.usefixtures("home_tables")
def test_a_mistake_is_one_line(outfox: Outfox, tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    assert outfox("task", "create", small_pack(tmp_path / "packs").folder).code == 0
    ran = outfox("model", *arguments)
    assert (ran.code, len(problems(ran.err))) == (2, 1), ran.err
    assert outfox("model", *arguments, "--json").failure == (2, code)


def test_a_pack_without_rows_of_a_label_starts_no_training(outfox: Outfox, home: Home) -> None:
    seed = home.pack / "seed.jsonl"
    kept = [line for line in seed.read_text().splitlines() if '"neutral"' not in line or '"held_out"' in line]
    seed.write_text("\n".join(kept))
    ran = outfox("model", "retrain", TASK, "--mode", "head")
    assert (ran.code, len(problems(ran.err))) == (2, 1), ran.err
    assert "neutral" in ran.err
    assert json.loads(outfox("model", "jobs", TASK, "--json").out) == []
