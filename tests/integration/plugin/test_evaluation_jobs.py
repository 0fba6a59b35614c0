"""Evaluations as jobs of a cluster, as the machine that orders them sees them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from plugin.errors import ClusterJobFailed, ClusterUnreachable
from plugin.evaluation_jobs import ClusterEvaluation, perform_piece
from plugin.settings import load_settings
from plugin.wiring import Application
from round_manager.evaluation.data_sets import seed_data_set
from round_manager.evaluation.orders import read_order
from round_manager.evaluation.storage import open_evaluations
from round_manager.evaluation.work import Candidate, Work
from round_manager.jobs import JobOutcome, JobRequest, JobStatus
from templates import find_pack

TASK = "sentiment"
# What a cluster does between two looks at it.
Step = Callable[["Cluster"], None]


@dataclass
class Cluster:
    """A runner whose job does the next step each time that its log is read."""

    steps: list[Step] = field(default_factory=list)
    outcome: JobStatus = field(default_factory=lambda: JobStatus(JobOutcome.UNKNOWN))
    printed: str = ""
    started: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    durable: bool = True

    def start(self, request: JobRequest) -> None:
        self.started.append(request.token)
        self.outcome = JobStatus(JobOutcome.RUNNING)

    def status(self, request: JobRequest) -> JobStatus:
        return self.outcome

    def stop(self, request: JobRequest) -> None:
        self.stopped.append(request.token)

    def log(self, request: JobRequest) -> str:
        if self.steps:
            self.steps.pop(0)(self)
        return self.printed


@dataclass
class Shown:
    """Adds up the progress."""

    steps: int = 0

    def start(self, total_steps: int, what: str) -> None: ...

    def advance(self, steps: int = 1, note: str = "") -> None:
        self.steps += steps

    def finish(self) -> None: ...


@pytest.fixture
def work(tmp_path: Path) -> list[Work]:
    pack = find_pack(TASK)
    predictions = tmp_path / "answers.csv"
    predictions.write_text("id,prediction\n")
    rows = [row for row in pack.seed if row.split == "held_out"]
    sets = [seed_data_set("seed", rows[:4], pack.spec), seed_data_set("seed", rows[4:10], pack.spec)]
    model = Candidate("file-7", "answers", "predictions", predictions=str(predictions))
    return [Work(TASK, model, data, ("performance",), str(tmp_path / "archives"), "") for data in sets]


@pytest.fixture
def app(tmp_path: Path) -> Application:
    settings = {"OUTFOX_HOME": str(tmp_path / "home"), "OUTFOX_ARCHIVES": str(tmp_path / "archives")}
    return Application(load_settings(settings))


def evaluation(app: Application, cluster: Cluster) -> ClusterEvaluation:
    return ClusterEvaluation(app, cluster, TASK, "these models on these data", poll_seconds=0.0)


def prints(kind: str, piece: Work, **more: int) -> Step:
    def step(cluster: Cluster) -> None:
        about = {"model": piece.model.id, "data": piece.data.sha256, **more}
        # As Ray forwards what a task prints.
        cluster.printed += f"\x1b[36m(perform_piece pid=7)\x1b[0m outfox-{kind} {json.dumps(about)}\n"

    return step


def ends(outcome: JobOutcome, reason: str = "", *, retry: bool = False) -> Step:
    def step(cluster: Cluster) -> None:
        cluster.outcome = JobStatus(outcome, reason, retry)

    return step


def test_pieces_are_reported_as_they_end_with_the_rows_of_those_that_have_not(
    app: Application, work: list[Work]
) -> None:
    first, second = work
    steps = [prints("rows", first, rows=3), prints("done", second), prints("done", first), ends(JobOutcome.SUCCEEDED)]
    cluster, shown = Cluster(steps), Shown()
    found = evaluation(app, cluster).run(work, shown)
    assert next(found).data == second.data.sha256
    assert shown.steps == 3
    assert [one.data for one in found] == [first.data.sha256]
    (token,) = cluster.started
    assert len(read_order(open_evaluations(work[0].place, TASK), token)) == 2


def test_an_evaluation_whose_command_was_killed_is_found_again(app: Application, work: list[Work]) -> None:
    first, second = work
    cluster = Cluster([prints("done", first)])
    # Its generator is never closed, as that of a killed process.
    killed = evaluation(app, cluster).run(work, Shown())
    next(killed)
    cluster.steps = [prints("done", second), ends(JobOutcome.SUCCEEDED)]
    found = list(evaluation(app, cluster).run([second], Shown()))
    assert ([one.data for one in found], len(cluster.started)) == ([second.data.sha256], 1)


def test_ctrl_c_stops_the_job(app: Application, work: list[Work]) -> None:
    def interrupt(cluster: Cluster) -> None:
        raise KeyboardInterrupt

    cluster = Cluster([prints("done", work[0]), interrupt])
    with pytest.raises(KeyboardInterrupt):
        list(evaluation(app, cluster).run(work, Shown()))
    assert cluster.stopped == cluster.started


@pytest.mark.parametrize(
    ("step", "retry"),
    [
        (ends(JobOutcome.FAILED, "the file has no answer to a row"), False),
        (ends(JobOutcome.FAILED, "the registry does not respond", retry=True), True),
        (ends(JobOutcome.LOST, "the cluster does not answer", retry=True), True),
        (ends(JobOutcome.UNKNOWN), True),
        (ends(JobOutcome.STOPPED), True),
    ],
    ids=["failed", "failed for now", "lost", "forgotten", "stopped"],
)
def test_an_evaluation_that_does_not_end_is_an_error(
    app: Application, work: list[Work], step: Step, retry: bool
) -> None:
    with pytest.raises(ClusterJobFailed) as error:
        list(evaluation(app, Cluster([step])).run(work, Shown()))
    assert error.value.retry is retry


def test_a_cluster_that_does_not_answer_for_a_moment_is_asked_again(app: Application, work: list[Work]) -> None:
    def no_answer(cluster: Cluster) -> None:
        raise ClusterUnreachable("no answer")

    steps = [no_answer, prints("done", work[0]), prints("done", work[1]), ends(JobOutcome.SUCCEEDED)]
    assert len(list(evaluation(app, Cluster(steps)).run(work, Shown()))) == 2


def test_the_error_of_a_piece_comes_back_as_data(
    app: Application, work: list[Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster([ends(JobOutcome.SUCCEEDED)])
    list(evaluation(app, cluster).run(work, Shown()))
    monkeypatch.setenv("OUTFOX_HOME", str(app.settings.home_path))
    monkeypatch.setenv("OUTFOX_ARCHIVES", app.settings.archives_location)
    piece = read_order(open_evaluations(work[0].place, TASK), cluster.started[0])[0]
    result = json.loads(perform_piece(None, TASK, piece))
    assert (result["code"], result["retry"]) == ("predictions_invalid", False)
