import fcntl
import signal
import socket
import threading
from itertools import count
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Page

import outfox as researcher
from plugin.demo.demo import demo_pack
from plugin.demo.market import DemoMarket
from plugin.demo.place import find_place
from plugin.serving import free_port
from plugin.settings import Settings
from plugin.simulation.crowd import SimulatedCrowd
from plugin.simulation.notebook import Notebook
from plugin.simulation.people import make_people
from tests.conftest import Outfox
from tests.e2e.running_demo import EXAMPLES, RunningDemo, about, is_up, running_demo, until
from tests.e2e.visitor import Visitor

SECONDS_TO_END = 60
SECONDS_TO_PLAY = 900
# In so long the manager has seen what was written, and posted HITs to check it.
SECONDS_FOR_A_PASS = 8
WORKERS = 8
SEED = "tests"
# Each of these dies once while two rounds are played.
MORTAL = ("manage", "serve", "ml-backend", "marketplace")

pytestmark = pytest.mark.xdist_group("labelstudio")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the demo."""
    return tmp_path_factory.mktemp("demo") / "home"


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


def test_people_and_a_simulated_crowd_play_two_rounds_whatever_dies_meanwhile(
    home: Path, port: int, page: Page
) -> None:
    with running_demo(home, port) as demo:
        _look_around(demo, home, port)
        place = find_place(Settings(home=str(home)), port)
        pack = demo_pack(EXAMPLES)
        notebook = Notebook(home / "simulation.jsonl", pack)
        person, *others = make_people(WORKERS + 1, SEED)
        visitor = Visitor(page, demo.ready["invitation"], pack.spec, notebook, person)
        visitor.take_quiz()
        text = visitor.write()

        crowd = SimulatedCrowd(others, pack.spec, place.settings.crowd_url, notebook, threading.Event())
        crowd.come(DemoMarket(place).invite)
        until(lambda: crowd.once() and visitor.check(SECONDS_FOR_A_PASS), SECONDS_TO_PLAY)
        _play(demo, crowd, rounds=2)
        crowd.close()

        frame = researcher.load("sentiment", rounds=[1, 2], path=demo.ready["archives"], verify=True)
        assert (frame["text"] == text).sum() == 1
        for number, examples in frame.groupby("round"):
            assert (examples["fooled"] & (examples["status"] == "verified")).sum() >= EXAMPLES, number
            assert examples["id"].is_unique
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(SECONDS_TO_END) == 0
        _check_money(demo.config)
    for name in ("label_studio_url", "ml_backend_url", "web_url", "crowd_url"):
        assert not is_up(demo.addresses[name])


def test_a_demo_that_cannot_start_has_changed_nothing(outfox: Outfox, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ran = outfox("demo", "--port", other.getsockname()[1], "--until-ready")
    assert (ran.code, "is taken" in ran.err) == (2, True)
    assert not (home / "outfox.db").exists()
    assert not (home / "models").exists()
    assert not (home / "marketplace.db").exists()


def test_a_second_demo_in_the_same_home_is_refused(outfox: Outfox, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with (tmp_path / "home" / "demo.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        ran = outfox("demo", "--port", free_port(), "--until-ready")
    assert (ran.code, "a demo runs in" in ran.err) == (2, True)
    assert not (tmp_path / "home" / "models").exists()


def _look_around(demo: RunningDemo, home: Path, port: int) -> None:
    """What the demo printed is so: for its owner, and for whoever runs commands."""
    ready = demo.ready
    assert ready["accuracy"] > 70
    assert (home / "models" / "sentiment" / ready["version"] / "model.json").is_file()
    session = requests.Session()
    session.headers["Authorization"] = f"Token {(home / 'label-studio-token').read_text()}"
    project = session.get(f"http://127.0.0.1:{port}/api/projects/{ready['project']}", timeout=30).json()
    assert project["title"] == "sentiment: write"
    assert project["task_number"] == ready["tasks"] == 72
    assert _said_to_a_writer(session, port, ready["project"]).startswith(("You fooled the model!", "Not fooled"))
    (task,) = demo.outfox("status")["tasks"]
    assert (task["round"], task["status"]) == (1, "open")
    assert task["queues"]["hits_to_create"] == EXAMPLES


def _play(demo: RunningDemo, crowd: SimulatedCrowd, *, rounds: int) -> None:
    """The crowd works until the rounds are over and learned from; each server is killed on the way, and comes back."""
    mortal = list(MORTAL)
    for number in count(1):
        crowd.once()
        if mortal and number % 2 == 0:
            demo.kill(mortal.pop())
        (task,) = demo.outfox("status")["tasks"]
        if task["round"] > rounds and not mortal:
            return


def _check_money(config: Path, spent: int | None = None) -> None:
    """Every cent is somewhere, on the marketplace and in our books, and both say the same."""
    (task,) = about(config, "status")["tasks"]
    ours, market = task["task_money"], about(config, "marketplace", "status")["money"]
    assert market["add_up"]
    assert market["workers_cents"] + market["fees_cents"] == ours["sent_cents"]
    if spent is not None:
        assert (ours["sent_cents"], ours["owed_cents"]) == (spent, 0)


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
