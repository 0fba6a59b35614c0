"""`outfox manage` and `outfox status` as people type them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from plugin.cli.status import QUEUES
from plugin.jobs.process import PROGRAM
from round_manager.database.store import open_store
from round_manager.jobs import JobOutcome, JobRequest, JobStatus
from round_manager.labelstudio.projects import save_link
from round_manager.loop.lifecycle import begin_validating
from round_manager.loop.manager_record import last_pass, record_failure, record_success
from round_manager.models import ProjectKind, Round
from round_manager.services.context import Actor
from round_manager.services.rounds import open_round
from round_manager.services.training_supervisor import TrainingSupervisor
from tests.conftest import Outfox
from tests.fakes.clock import SettableClock
from tests.fakes.registry import eventually
from tests.integration.plugin.manager.managed_campaign import ManagedCampaign, start_managed

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def campaign(home_tables: str, tmp_path: Path) -> Iterator[ManagedCampaign]:
    """A campaign in the home that the commands work on."""
    with open_store(home_tables) as store:
        campaign = start_managed(store, tmp_path)
        campaign.qualify_workers()
        yield campaign


@pytest.mark.usefixtures("home_tables")
def test_status_without_tasks_shows_how_to_create_one(outfox: Outfox) -> None:
    ran = outfox("status")
    assert (ran.code, "outfox task create PACK" in ran.out) == (0, True)
    assert json.loads(outfox("status", "--json").out)["tasks"] == []
    assert outfox("manage", "--once").code == 0


def test_status_shows_a_round_at_a_glance(outfox: Outfox, campaign: ManagedCampaign) -> None:
    campaign.settle()
    campaign.write_hits(2)
    campaign.settle()
    campaign.check_hits(1)
    shown = json.loads(outfox("status", "sentiment", "--json").out)
    (task,) = shown["tasks"]
    assert (task["round"], task["status"], task["collected"], task["fooled"]) == (1, "open", 2, 2)
    assert (task["decided"], task["verified_fooling"], task["target_fooling"]) == (0, 0, 3)
    assert task["vmer"] == {"share": 0.0, "low": 0.0, "high": task["vmer"]["high"], "count": 0, "of": 2}
    assert task["task_money"]["sent_cents"] > 0
    assert task["versions"] == [campaign.version]
    queues = task["queues"]
    assert (queues["examples_waiting_for_votes"], queues["hits_to_create"], queues["hits_to_validate"]) == (2, 1, 2)
    assert queues["pages_to_confirm"] == 1
    assert shown["manager"]["by"] == "manager@test"
    text = outfox("status").out
    for part in (
        "sentiment",
        "open",
        "0 of 3",
        "it is open for 3 more validated fooling examples of 3",
        "the manager's last pass",
    ):
        assert part in text


def test_nothing_in_a_closed_round_waits_for_votes_or_its_owner(outfox: Outfox, campaign: ManagedCampaign) -> None:
    campaign.add_example()
    assert json.loads(outfox("status", "--json").out)["tasks"][0]["queues"]["examples_waiting_for_votes"] == 1
    assert outfox("round", "close", "sentiment", "--now").code == 0
    (task,) = json.loads(outfox("status", "--json").out)["tasks"]
    assert (task["status"], task["collected"]) == ("closed", 1)
    assert (task["queues"]["examples_waiting_for_votes"], task["queues"]["examples_waiting_for_owner"]) == (0, 0)


def test_an_open_round_without_access_is_reported_with_a_hint(
    outfox: Outfox, campaign: ManagedCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = "outfox labelstudio connect sentiment"
    for command in (("status",), ("round", "show", "sentiment")):
        assert connect in " ".join(outfox(*command).out.split())
    (task,) = json.loads(outfox("status", "--json").out)["tasks"]
    assert task["hints"][-1]["action"] == "connect_label_studio"
    assert len(task["hints"]) == len(task["waits_for"])
    with monkeypatch.context() as keys:
        keys.setenv("OUTFOX_CROWD_KEY_ID", "an id")
        keys.setenv("OUTFOX_CROWD_KEY_SECRET", "a secret")
        assert "outfox labelstudio connect" not in outfox("status").out
    with campaign.store.write() as session:
        save_link(session, campaign.task.id, ProjectKind.CREATE, "http://studio.test", 1)
    assert "outfox labelstudio connect" not in outfox("status").out


def test_a_round_with_hits_is_reachable_whatever_keys_are_set(outfox: Outfox, campaign: ManagedCampaign) -> None:
    campaign.settle()
    assert "outfox labelstudio connect" not in outfox("status").out


def test_status_counts_what_waits_in_words_that_fit_the_number(outfox: Outfox, campaign: ManagedCampaign) -> None:
    campaign.settle()
    campaign.write_hits(1)
    (shown,) = json.loads(outfox("status", "--json").out)["tasks"]
    assert set(shown["queues"]) <= set(QUEUES)
    text = outfox("status").out
    assert f"{shown['queues']['hits_to_create']} HITs to create, 1 page to confirm" in text


def test_unconfirmed_work_is_counted_separately(outfox: Outfox, campaign: ManagedCampaign) -> None:
    campaign.settle()
    campaign.write_hits(1)
    campaign.settle()
    page = campaign.open_page("FORGED")
    campaign.write_examples(page)
    (task,) = json.loads(outfox("status", "--json").out)["tasks"]
    (listed,) = json.loads(outfox("round", "list", "sentiment", "--json").out)
    shown = json.loads(outfox("round", "show", "sentiment", "--json").out)
    (of_task,) = json.loads(outfox("task", "show", "sentiment", "--json").out)["rounds"]
    assert (task["collected"], task["fooled"]) == (1, 1)
    for one in (listed, shown, of_task):
        assert (one["examples"], one["fooled"]) == (1, 1)
    assert listed["not_counted"] == 1
    assert shown["not_counted"] == of_task["not_counted"] == {"unconfirmed": 1}
    assert "1 (1 pending); not counted: 1 unconfirmed" in outfox("round", "show", "sentiment").out
    assert "1 example, 1 fooled (1 pending); not counted: 1 unconfirmed" in outfox("task", "show", "sentiment").out
    assert "not counted" in outfox("round", "list", "sentiment").out


def test_status_shows_failures_and_waits(outfox: Outfox, campaign: ManagedCampaign) -> None:
    now, who = campaign.now, "manager@test"
    with campaign.store.write() as session:
        record_failure(session, "pay", "", "no connection", retry=True, actor=who, now=now)
        record_success(session, "open", "sentiment", "the next round waits for money", actor=who, now=now)
    shown = json.loads(outfox("status", "--json").out)["manager"]
    assert [(one["step"], one["error"], one["failures"]) for one in shown["failing"]] == [("pay", "no connection", 1)]
    assert [(one["step"], one["task"]) for one in shown["waiting"]] == [("open", "sentiment")]
    text = outfox("status").out
    assert "pay failed once since" in text
    assert "open waits: the next round waits for money" in text


def test_a_round_that_can_receive_no_more_work_waits_for_its_manager(outfox: Outfox, campaign: ManagedCampaign) -> None:
    with campaign.store.write() as session:
        round = session.get_one(Round, campaign.round_id)
        begin_validating(session, round, actor="owner@test", reason="enough", now=campaign.now)
    (task,) = json.loads(outfox("status", "--json").out)["tasks"]
    assert [hint["action"] for hint in task["hints"]] == ["run_manager"]
    assert "round 1" in task["waits_for"][0]


def test_after_an_owner_closed_an_empty_round_only_the_owner_opens_the_next(
    outfox: Outfox, campaign: ManagedCampaign
) -> None:
    command = "outfox round open sentiment"
    assert command in outfox("round", "close", "sentiment", "--why", "not yet").out
    for _ in range(2):
        ran = outfox("manage", "--once", "--json")
        assert ran.code == 0, ran.err
        (opening,) = [one for one in json.loads(ran.out) if one["step"] == "open"]
        assert (opening["did"], command in opening["waits"]) == (None, True)
    assert campaign.statuses() == ["closed"]
    assert command in " ".join(outfox("status").out.split())
    assert "open round" not in outfox("manage", "--once", "--dry-run").out
    # A round that the owner opens continues automatically.
    context = campaign.manager_context()
    open_round(context.services, Actor("owner@test"), "sentiment", models=context.models(), reason="now")
    campaign.clock.advance(timedelta(days=15))
    campaign.settle()
    assert campaign.statuses() == ["closed", "closed", "open"]


@pytest.mark.parametrize(("frozen", "text"), [(False, "waits for its archive"), (True, "round 2 waits to be opened")])
def test_status_shows_what_follows_a_round(outfox: Outfox, campaign: ManagedCampaign, frozen: bool, text: str) -> None:
    campaign.add_example()
    campaign.mark_closed()
    if frozen:
        assert outfox("round", "freeze", "sentiment").code == 0
    assert text in outfox("status").out


def test_status_counts_undelivered_attempts(outfox: Outfox, campaign: ManagedCampaign, tmp_path: Path) -> None:
    outbox = tmp_path / "home" / "tries"
    outbox.mkdir(parents=True)
    for name, lines in (("tries-1.jsonl", 2), ("tries-2.open", 1), ("courier.json", 5)):
        (outbox / name).write_text("{}\n" * lines, encoding="ascii")
    assert json.loads(outfox("status", "--json").out)["tries_in_outbox"] == 3
    assert "3 attempts wait in this machine's outbox" in outfox("status").out


def test_counts_of_one_are_singular(
    outfox: Outfox, campaign: ManagedCampaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign.settle()
    campaign.add_example()
    campaign.mark_closed()
    assert outfox("round", "freeze", "sentiment").out.splitlines()[1].startswith("1 example, 0 votes, ")
    (tmp_path / "home" / "tries").mkdir(parents=True)
    (tmp_path / "home" / "tries" / "tries-1.jsonl").write_text("{}\n", encoding="ascii")
    with campaign.store.read() as session:
        last = last_pass(session)
    assert last is not None
    monkeypatch.setattr("plugin.wiring.SystemClock", lambda: SettableClock(last.ran_at + timedelta(seconds=1)))
    text = outfox("status").out
    assert "1 attempt waits in this machine's outbox" in text
    assert "the manager's last pass ended 1 second ago, by manager@test" in text


def test_status_of_a_missing_task_is_an_error(outfox: Outfox, campaign: ManagedCampaign) -> None:
    ran = outfox("status", "nothing", "--json")
    assert ran.failure == (2, "task_not_found")


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [(["--task", "nothing"], "nothing"), (["--skip", "fly"], "fly"), (["--every", "0"], "--every")],
)
def test_invalid_arguments_are_refused_before_anything_runs(
    outfox: Outfox, campaign: ManagedCampaign, arguments: list[str], fact: str
) -> None:
    ran = outfox("manage", "--once", *arguments)
    assert (ran.code, fact in ran.err) == (2, True), ran.err


def test_once_runs_a_pass_and_reports_it(outfox: Outfox, campaign: ManagedCampaign) -> None:
    campaign.mark_closed()
    ran = outfox("manage", "--once", "--dry-run", "--json")
    assert ran.code == 0
    would = {one["step"]: one["would"] for one in json.loads(ran.out)}
    # Without a marketplace's keys, the steps that need none still run.
    assert (would["freeze"], would["collect"]) == ("freeze round 1", None)
    ran = outfox("manage", "--once", "--json", "--skip", "open")
    assert ran.code == 0, ran.err
    did = {one["step"]: one["did"] for one in json.loads(ran.out)}
    assert did["freeze"].startswith("round 1 is frozen in")
    assert "open" not in did
    again = json.loads(outfox("manage", "--once", "--skip", "open", "--json").out)
    assert not any(one["did"] or one["error"] for one in again)


def test_once_exits_with_1_if_a_step_failed(
    outfox: Outfox, campaign: ManagedCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign.mark_closed()
    monkeypatch.setenv("OUTFOX_ARCHIVES", "/dev/null/archives")
    ran = outfox("manage", "--once", "--json")
    assert ran.code == 1
    failed = {one["step"]: one["error"] for one in json.loads(ran.out) if one["error"]}
    assert list(failed) == ["freeze"]
    assert "freeze sentiment failed once" in outfox("status").out


def test_sigterm_stops_the_manager_gracefully(outfox: Outfox, campaign: ManagedCampaign, tmp_path: Path) -> None:
    environment = {**os.environ, "OUTFOX_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, "manage", "--every", "0.1"]

    def last_pass() -> object:
        return json.loads(outfox("status", "--json").out)["manager"]["last_pass"]

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            eventually(last_pass, "a pass has ended", 60)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out.decode().splitlines()[-1]) == (0, "stopped"), err


def test_trainings_stop_with_their_manager(campaign: ManagedCampaign, tmp_path: Path) -> None:
    class EndlessRunner:
        stopped = False
        durable = False

        def start(self, request: JobRequest) -> None: ...

        def stop(self, request: JobRequest) -> None:
            self.stopped = True

        def status(self, request: JobRequest) -> JobStatus:
            return JobStatus(JobOutcome.STOPPED if self.stopped else JobOutcome.RUNNING)

        def log(self, request: JobRequest) -> str:
            return ""

    runner = EndlessRunner()
    trainings = TrainingSupervisor(campaign.manager_services, Actor("manager"), runner)
    trainings.start("sentiment")
    assert (trainings.running, trainings.has_ended, trainings.ended("sentiment")) == (["sentiment"], False, None)
    trainings.stop()
    assert (runner.stopped, trainings.running) == (True, [])
