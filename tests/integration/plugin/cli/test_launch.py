"""`outfox task launch`: one command from a pack to tasks in Label Studio, which continues where it stopped."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ml_backend.registry.model_pool import ModelPool
from tests.conftest import Outfox, Ran
from tests.fakes.http_server import RunningServer
from tests.fakes.label_studio import FakeLabelStudio
from tests.fakes.registry import QuickRegistry, load_fixed, make_version


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> FakeLabelStudio:
    studio = FakeLabelStudio()
    monkeypatch.setattr("plugin.labelstudio.adapter.SdkLabelStudio", lambda url, token: studio)
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_TOKEN", "a" * 40)
    return studio


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The models' folder; training takes no time."""
    folder = tmp_path / "home" / "models"

    def train(pack: Any, models: Path, **_options: object) -> SimpleNamespace:
        return SimpleNamespace(manifest=SimpleNamespace(version=make_version(models)))

    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    monkeypatch.setattr("ml_backend.training.train", train)
    return folder


@contextmanager
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the command asks whether it is there: an ML backend, the web app and Label Studio."""

    def healthy(environ: Any, start: Callable[..., Any]) -> list[bytes]:
        start("200 OK", [("Content-Type", "application/json")])
        return [b"{}"]

    server = RunningServer(healthy)
    with server:
        for setting in ("ML_BACKEND_URL", "WEB_URL", "LABEL_STUDIO_URL"):
            monkeypatch.setenv(f"OUTFOX_{setting}", f"http://127.0.0.1:{server.port}")
        yield


@contextmanager
def serving(models: Path) -> Iterator[None]:
    pool = ModelPool(QuickRegistry(models), load_fixed, ["sentiment"])
    pool.start()
    try:
        yield
    finally:
        pool.stop()


def outcomes(ran: Ran) -> dict[str, str]:
    assert ran.code == 0, ran.err
    return {one["step"]: one["outcome"] for one in json.loads(ran.out)["steps"]}


@pytest.mark.usefixtures("home_tables")
def test_a_launch_stops_where_a_server_is_missing_and_continues(
    outfox: Outfox, studio: FakeLabelStudio, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("task", "launch", "sentiment", "--in-house", "--json")
    for setting in ("ML_BACKEND_URL", "WEB_URL", "LABEL_STUDIO_URL"):
        monkeypatch.setenv(f"OUTFOX_{setting}", "http://127.0.0.1:9")
    ran = outfox(*command)
    assert ran.failure == (3, "servers_missing")
    assert all(name in ran.err for name in ("Label Studio", "ML backend", "web app"))
    # Nothing was trained for a round that nobody could work on.
    assert not models.exists()
    with servers(monkeypatch):
        ran = outfox(*command, "--timeout", "0.2")
        assert ran.failure == (3, "servers_missing")
        assert studio.projects == {}
        with serving(models):
            done = outcomes(outfox(*command))
            assert [*done] == ["task", "model", "round", "Label Studio", "contexts"]
            assert "was open in-house" in done["round"]
            assert (len(studio.projects), len(studio.tasks)) == (2, 72)
            changes = list(studio.changes)
            assert outcomes(outfox(*command))["contexts"].startswith("0 sent")
            assert studio.changes == changes


@pytest.mark.usefixtures("home_tables")
def test_a_launch_for_the_crowd_asks_before_it_trains(
    outfox: Outfox, studio: FakeLabelStudio, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert studio
    with servers(monkeypatch):
        refused = outfox("task", "launch", "sentiment", "--json")
        assert refused.failure == (2, "confirmation_required")
        assert "--dry-run" not in refused.err, "the command has no such option"
    assert not models.exists()
