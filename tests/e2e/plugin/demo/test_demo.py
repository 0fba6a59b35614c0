import fcntl
import json
import socket
from pathlib import Path

import pytest
import requests

import outfox as researcher
from plugin.server_process import free_port
from round_manager.models import RoundStatus
from tests.conftest import Outfox
from tests.e2e.end_state import broken_promises
from tests.e2e.plugin.demo.conftest import EXAMPLES, SharedDemo
from tests.e2e.running_demo import RunningDemo, about, is_up, running_demo, until

SECONDS_TO_PLAY = 900
WORKERS = 7


@pytest.mark.ends_demo
def test_after_ctrl_c_a_simulated_crowd_goes_on_and_finishes_the_round(shared_demo: SharedDemo) -> None:
    """`make bench-loop` does the same while every process is killed, the demo itself included."""
    home, rounds = shared_demo.home, _end(shared_demo)
    size = ("--rounds", rounds, "--examples", EXAMPLES, "--workers", WORKERS, "--mode", "head")
    with running_demo(home, shared_demo.port, "--simulate", *size, "--until-ready") as demo:
        until(lambda: demo.is_playing)
        _look_around(demo, shared_demo.port)
        until(lambda: demo.ended() is not None, SECONDS_TO_PLAY)
        assert demo.ended() == 0, demo.said
    assert broken_promises(home, rounds=rounds) == []
    _check_report(demo, rounds)
    for name in ("label_studio_url", "ml_backend_url", "web_url", "crowd_url"):
        assert not is_up(demo.addresses[name])


def test_a_demo_that_cannot_start_has_changed_nothing(outfox: Outfox, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ran = outfox("demo", "--port", other.getsockname()[1], "--until-ready", "--json")
    assert (ran.code, error_code(ran.err)) == (2, "label_studio_start_failed")
    assert " demo --port " in ran.error["hint"]["command"]
    assert not (home / "outfox.db").exists()
    assert not (home / "models").exists()
    assert not (home / "marketplace.db").exists()


def test_a_second_demo_in_the_same_home_is_refused(outfox: Outfox, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with (tmp_path / "home" / "demo.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        ran = outfox("demo", "--port", free_port(), "--until-ready", "--json")
    assert (ran.code, error_code(ran.err)) == (2, "demo_running")
    assert not (tmp_path / "home" / "models").exists()


def error_code(output: str) -> str:
    """Return the code of the error that a command with --json printed last."""
    return str(json.loads(output.splitlines()[-1])["code"])


def _end(shared_demo: SharedDemo) -> int:
    """Press Ctrl-C once a round is open in which nobody writes yet, and return its number.

    In the first one, colleagues may have accepted HITs, which the next crowd would have to wait for.
    """
    state = shared_demo.wait(lambda state: state.number > 1 and state.status is RoundStatus.OPEN and not state.examples)
    shared_demo.running.stop()
    assert shared_demo.running.ended() == 0
    assert "stopping" in shared_demo.running.said
    return state.number


def _look_around(demo: RunningDemo, port: int) -> None:
    """Label Studio has the task, and writers get verdicts."""
    session = requests.Session()
    session.headers["Authorization"] = f"Token {demo.addresses['label_studio_token']}"
    projects = session.get(f"http://127.0.0.1:{port}/api/projects/", timeout=30).json()["results"]
    (project,) = [one for one in projects if one["title"] == "sentiment: write"]
    assert project["task_number"] >= 72
    forged = requests.post(f"{demo.addresses['ml_backend_url']}/tasks/sentiment/predict", json={}, timeout=30)
    assert forged.status_code == 401
    # A backend without a free thread for ten seconds says so instead.
    until(lambda: _said_to_a_writer(session, port, project["id"]).startswith(("You fooled the model!", "Not fooled")))


def _check_report(demo: RunningDemo, rounds: int) -> None:
    """What was printed is what was saved, and what a researcher finds in the archives."""
    told = demo.printed()
    report = told["report"]
    assert report["crowd"] == "simulated crowd"
    assert [one["round"] for one in report["rounds"]] == list(range(1, rounds + 1))
    for one in report["rounds"]:
        assert one["verified_fooling"] >= EXAMPLES
        assert one["vmer"]["low"] <= one["vmer"]["share"] <= one["mer"]["share"]
        assert one["cost_cents"] > one["workers_cents"] > 0
        assert one["assumed_hourly_cents"] > 0
    assert {one["dataset"] for one in report["accuracy"]} >= {"seed", "round 1", f"round {rounds}"}
    assert (demo.home / "report" / "report.png").read_bytes().startswith(b"\x89PNG")
    frame = researcher.load("sentiment", path=told["archives"], verify=True)
    assert frame["id"].is_unique
    assert len(frame) == sum(one["collected"] for one in report["rounds"])
    (task,) = about(demo.config, "status")["tasks"]
    assert task["task_money"]["sent_cents"] == sum(one["cost_cents"] for one in report["rounds"])


def _said_to_a_writer(session: requests.Session, port: int, project: int) -> str:
    """Return the ML backend's answer to Label Studio for a new text."""
    api = f"http://127.0.0.1:{port}/api"
    (backend,) = session.get(f"{api}/ml/?project={project}", timeout=30).json()
    task = session.get(f"{api}/tasks/?project={project}&page_size=1", timeout=30).json()["tasks"][0]["id"]
    written = {"from_name": "text", "to_name": "prompt", "type": "textarea", "value": {"text": ["I have had worse."]}}
    asked = {"task": task, "context": {"result": [written]}}
    said = session.post(f"{api}/ml/{backend['id']}/interactive-annotating", json=asked, timeout=60).json()
    text: str = said["data"]["result"][0]["value"]["text"][0]
    return text
