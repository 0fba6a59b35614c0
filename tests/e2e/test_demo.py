import fcntl
import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import requests

from plugin.serving import free_port
from tests.conftest import Outfox

SECONDS_TO_START = 400
SECONDS_TO_END = 60


@pytest.mark.xdist_group("labelstudio")
def test_the_demo_can_be_used_and_ends_with_everything_that_it_started(tmp_path: Path) -> None:
    port, home = free_port(), tmp_path / "home"
    command = [str(Path(sys.executable).parent / "outfox"), "--home", str(home), "demo", "--port", str(port), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        # A demo that never gets ready must end, or reading its output would wait for ever.
        watchdog = threading.Timer(SECONDS_TO_START, running.terminate)
        watchdog.start()
        ready = _first_document(running)
        watchdog.cancel()
        assert ready, "the demo ended before it was ready"

        assert ready["accuracy"] > 70
        assert (home / "models" / "sentiment" / ready["version"] / "model.json").is_file()
        token = (home / "label-studio-token").read_text()
        session = requests.Session()
        session.headers["Authorization"] = f"Token {token}"
        project = session.get(f"http://127.0.0.1:{port}/api/projects/{ready['project']}", timeout=30).json()
        assert project["title"] == "sentiment: write"
        assert project["task_number"] == ready["tasks"] == 72

        assert _said_to_a_writer(session, port, ready["project"]).startswith(("You fooled the model!", "Not fooled"))

        running.send_signal(signal.SIGINT)
        assert running.wait(SECONDS_TO_END) == 0
    for address in (f"http://127.0.0.1:{port}", ready["backend"]):
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{address}/health", timeout=5)


def test_a_demo_that_cannot_start_has_changed_nothing(outfox: Outfox, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ran = outfox("demo", "--port", other.getsockname()[1], "--until-ready")
    assert (ran.code, "is taken" in ran.err) == (2, True)
    assert not (home / "outfox.db").exists()
    assert not (home / "models").exists()


def test_a_second_demo_in_the_same_home_is_refused(outfox: Outfox, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with (tmp_path / "home" / "demo.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        ran = outfox("demo", "--port", free_port(), "--until-ready")
    assert (ran.code, "a demo runs in" in ran.err) == (2, True)
    assert not (tmp_path / "home" / "models").exists()


def _said_to_a_writer(session: requests.Session, port: int, project: int) -> str:
    """What Label Studio gets from its ML backend for somebody who has just written."""
    api = f"http://127.0.0.1:{port}/api"
    (backend,) = session.get(f"{api}/ml/?project={project}", timeout=30).json()
    task = session.get(f"{api}/tasks/?project={project}&page_size=1", timeout=30).json()["tasks"][0]["id"]
    written = {"from_name": "text", "to_name": "prompt", "type": "textarea", "value": {"text": ["I have had worse."]}}
    asked = {"task": task, "context": {"result": [written]}}
    said = session.post(f"{api}/ml/{backend['id']}/interactive-annotating", json=asked, timeout=60).json()
    text: str = said["data"]["result"][0]["value"]["text"][0]
    return text


def _first_document(running: "subprocess.Popen[str]") -> dict[str, Any]:
    lines: list[str] = []
    assert running.stdout is not None
    for line in running.stdout:
        lines.append(line)
        if line == "}\n":
            break
    found: dict[str, Any] = json.loads("".join(lines)) if lines else {}
    return found
