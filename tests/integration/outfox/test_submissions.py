"""Researchers submit models to a running server, and the manager evaluates them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outfox
from common.clock import SystemClock
from ml_backend.errors import SandboxUnavailable
from ml_backend.sandbox.process import check_sandbox
from plugin.jobs.process import PROGRAM
from round_manager.database.store import open_store
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.submissions import Limits, allow_submissions
from tests.fakes.foreign_models import save_onnx
from tests.integration.databases import Databases
from tests.integration.plugin.web.served import Served, serving_rounds

TASK = "sentiment"
# More than the server keeps of a body in memory.
LARGE = 20_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("submitting")


@pytest.fixture(scope="module")
def url(any_databases: Databases) -> str:
    return any_databases.migrated()


@pytest.fixture(scope="module")
def server(home: Path, url: str) -> Iterator[Served]:
    with serving_rounds(home, url, {}) as found:
        with open_store(url) as store:
            allow_submissions(ServiceContext(store, SystemClock()), Actor("ada"), TASK, Limits())
        yield found


def test_a_large_model_is_submitted_and_the_manager_evaluates_it(server: Served, home: Path, url: str) -> None:
    try:
        check_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine has no namespaces for a sandbox: {error}")
    model = save_onnx(home / "tiny")
    (model / "notes.txt").write_bytes(b"text" + os.urandom(LARGE))
    access: dict[str, Any] = {"url": server.web.url, "token": server.token}
    made = outfox.submit(TASK, model, name="tiny", anonymous=False, **access)
    assert (made["state"], made["size"] > LARGE) == ("queued", True)
    assert outfox.submit(TASK, model, **access)["id"] == made["id"]
    environment = {**os.environ, "OUTFOX_HOME": str(home), "OUTFOX_DATABASE_URL": url, "OUTFOX_SECRET": "s" * 40}
    others = [part for name in ("train", "open", "decide") for part in ("--skip", name)]
    command = [sys.executable, "-P", "-c", PROGRAM, "manage", "--once", *others]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    frame = outfox.submissions(TASK, **access)
    assert frame["state"].tolist() == ["succeeded"], (done.stdout, done.stderr, frame.to_dict("records"))
    assert {"round 1", "round 2"} <= {one["data"] for one in frame["results"][0]}
    assert "tiny" in set(outfox.leaderboard(TASK, path=server.path)["model"])


def test_what_the_server_refuses_has_a_reason(server: Served, tmp_path: Path) -> None:
    access: dict[str, Any] = {"url": server.web.url, "token": server.token}
    model = tmp_path / "pickled"
    model.mkdir()
    (model / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(outfox.ModelRefused) as refused:
        outfox.submit(TASK, model, **access)
    assert refused.value.reason == "model_file_unsafe"
    with pytest.raises(outfox.AccessDenied):
        outfox.submit(TASK, model, url=server.web.url, token="outfox-data-none")
    with pytest.raises(outfox.InvalidArgument):
        outfox.submit(TASK, tmp_path / "nothing", **access)
    with pytest.raises(outfox.ServerUnavailable):
        outfox.submissions(TASK, url="http://127.0.0.1:9", token="x")
    shutil.rmtree(model)
