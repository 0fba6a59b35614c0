"""`outfox labelstudio` from the command line, against the real Label Studio."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
from sqlalchemy import select

from plugin.server_process import free_port
from round_manager.database.store import open_store
from round_manager.models import Round
from tests.conftest import Outfox
from tests.e2e.plugin.labelstudio.backend import counting_backend
from tests.e2e.plugin.labelstudio.conftest import Studio
from tests.fakes.label_studio_adapter import tidy_studio
from tests.fakes.label_studio_proxy import proxy_of
from tests.fakes.registry import load_fixed, make_version

__all__ = ["tidy_studio"]


@pytest.fixture
def outfox_here(outfox: Outfox, tidy_studio: Studio, monkeypatch: pytest.MonkeyPatch) -> Outfox:
    """The command, for this Label Studio, with the sentiment task made."""
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_URL", tidy_studio.server.url)
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_TOKEN", tidy_studio.server.token)
    assert outfox("db", "upgrade").code == 0
    assert outfox("task", "create", "sentiment").code == 0
    return outfox


def test_connect_push_sync_and_status(outfox_here: Outfox, studio: Studio) -> None:
    with counting_backend("prompt") as backend:
        options = ("sentiment", "--ml-backend", backend.url, "--web-url", "", "--json")
        made = outfox_here("labelstudio", "connect", *options)
        assert made.code == 0, made.err
        project = json.loads(made.out)["projects"]["create"]
        assert json.loads(outfox_here("labelstudio", "connect", *options).out)["changes"] == []
        pushed = outfox_here("labelstudio", "push", "sentiment", "--json")
        assert json.loads(pushed.out)["contexts"] == 72
        assert "72 of 72" in pushed.err or "done in" in pushed.err
        again = json.loads(outfox_here("labelstudio", "push", "sentiment", "--json").out)
        assert (again["contexts"], again["known"]) == (0, 72)
        told = outfox_here("labelstudio", "status", "sentiment")
    assert told.code == 0
    assert "Connected at" in told.out
    assert "72 sent, 0 to send" in told.out
    assert "no open round" in told.out
    synced = outfox_here("labelstudio", "sync", "--all", "--json")
    nothing = {"sent": 0, "found": 0, "refused": 0}
    read = {"task": "sentiment", "read": 0, "examples": 0, "votes": 0, "problems": 0, "left": 0, "cleared": 0}
    assert json.loads(synced.out) == [{**read, "crowd": nothing, "outcomes": 0, "error": None}]
    assert studio.get(f"projects/{project}")["task_number"] == 72
    assert studio.server.token not in told.out + told.err + made.out + made.err


def test_label_studio_follows_a_round_opened_by_command_or_manager(
    outfox_here: Outfox, studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    make_version(tmp_path / "home" / "models")
    with counting_backend("prompt") as backend, proxy_of(studio.server.url) as proxy:
        monkeypatch.setenv("OUTFOX_LABEL_STUDIO_URL", proxy.url)
        options = ("--ml-backend", backend.url, "--web-url", "", "--json")
        made = outfox_here("labelstudio", "connect", "sentiment", *options)
        project = json.loads(made.out)["projects"]["create"]

        def asked() -> str:
            (ours,) = studio.get(f"ml?project={project}")
            return str(ours["url"]).removeprefix(f"{backend.url}/tasks/")

        def try_it() -> None:
            """A writer whose page was open all the time presses Shift+Enter."""
            headers, body = {"Authorization": f"Token {studio.server.token}"}, {"task": task, "context": {"result": []}}
            url = f"{studio.server.url}/api/ml/{ours}/interactive-annotating"
            requests.post(url, headers=headers, json=body, timeout=30).raise_for_status()

        assert asked() == "sentiment"
        opened = outfox_here("round", "open", "sentiment", "--yes")
        assert (opened.code, asked()) == (0, "sentiment/rounds/1")
        assert f"{backend.url}/tasks/sentiment/rounds/1 now" in opened.out
        assert outfox_here("labelstudio", "push", "sentiment").code == 0
        task = studio.get(f"tasks?project={project}&page_size=1")["tasks"][0]["id"]
        ours = studio.get(f"ml?project={project}")[0]["id"]
        try_it()

        # Its time is over, so that another follows: after an empty round that was only closed, none does.
        with open_store(f"sqlite:///{tmp_path / 'home' / 'outfox.db'}") as store, store.write() as session:
            session.scalars(select(Round)).one().closes_at = datetime.now(UTC)
        assert outfox_here("round", "close", "sentiment", "--now").code == 0
        done = outfox_here("manage", "--once", "--skip", "open", "--json")
        assert (done.code, asked()) == (0, "sentiment"), done.out
        proxy.broken = 502
        # The round opens regardless, and the next pass does the rest.
        failed = outfox_here("manage", "--once")
        assert (failed.code, asked()) == (1, "sentiment")
        assert "round 2 is open" in failed.out
        proxy.broken = None
        assert outfox_here("manage", "--once").code == 0
        assert asked() == "sentiment/rounds/2"
        try_it()
        assert backend.asked_at == [f"/tasks/sentiment/rounds/{number}/predict" for number in (1, 2)]
        proxy.requests.clear()
        assert outfox_here("manage", "--once").code == 0
        assert [one for one in proxy.requests if "/ml" in one[1]] == [("GET", "/api/ml/")]

        assert outfox_here("round", "close", "sentiment", "--now").code == 0
        assert outfox_here("manage", "--once", "--skip", "open").code == 0
        proxy.broken = 502
        opened = outfox_here("round", "open", "sentiment", "--yes", "--json")
        assert (opened.code, asked()) == (0, "sentiment")
        assert "answers 502" in json.loads(opened.out)["label_studio"]
        proxy.broken = None
        assert outfox_here("round", "open", "sentiment", "--yes").code == 0
        assert asked() == "sentiment/rounds/3"


def test_an_unreachable_backend_exits_with_3(outfox_here: Outfox) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ran = outfox_here("labelstudio", "connect", "sentiment", "--ml-backend", url, "--json")
    assert (ran.code, json.loads(ran.err)["code"]) == (3, "label_studio_ml_backend_unreachable")
    assert outfox_here("labelstudio", "push", "sentiment", "--json").code == 0


def test_an_outage_exits_with_3_and_status_shows_what_is_known(
    outfox_here: Outfox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outfox_here("labelstudio", "connect", "sentiment", "--ml-backend", "").code == 0
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_URL", f"http://127.0.0.1:{free_port()}")
    told = outfox_here("labelstudio", "status", "--json")
    assert told.code == 3
    found = json.loads(told.out)
    assert (found["user"], len(found["projects"])) == (None, 2)
    assert found["retry"]
    assert outfox_here("labelstudio", "connect", "sentiment").code == 3


def test_a_wrong_token_exits_with_2(outfox_here: Outfox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_TOKEN", "0" * 40)
    ran = outfox_here("labelstudio", "connect", "sentiment", "--ml-backend", "", "--json")
    assert (ran.code, json.loads(ran.err)["code"]) == (2, "label_studio_token_rejected")
    assert outfox_here("labelstudio", "status").code == 2
