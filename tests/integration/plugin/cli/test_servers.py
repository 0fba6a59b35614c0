"""`outfox ml-backend` as a separate process, with its registry and models."""

import os
import subprocess
import sys
from base64 import b64encode
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ml_backend.errors import BackendError
from ml_backend.registry.local import LocalRegistry
from plugin.cli import cli
from plugin.cli.servers import ml_backend
from plugin.errors import PluginError
from plugin.settings import Settings
from plugin.wiring import Application
from templates import PackError, find_pack
from templates.pack import copy_pack
from tests.fakes.calls import predict, shown, writes
from tests.fakes.registry import TASK, make_version
from tests.integration.ml_backend.serving.running import ROOT, Running, wait_for

pytestmark = pytest.mark.xdist_group("serving-command")

# The real command, with models that need no loading.
PROGRAM = """
import sys
import ml_backend.targets.loading
from plugin.cli.servers import ml_backend as command
from plugin.settings import Settings
from plugin.wiring import Application
from tests.fakes.registry import load_fixed
ml_backend.targets.loading.load_target = lambda directory, runtime: load_fixed(directory)
command.main(sys.argv[2:], obj=Application(Settings(home=sys.argv[1])))
"""


def called(home: Path, *arguments: str) -> None:
    # click caches the help option of the first call, with the names of that call's context.
    ml_backend.main(
        list(arguments),
        obj=Application(Settings(home=str(home))),
        standalone_mode=False,
        **cli.context_settings,
    )


def begun(home: Path, *options: str) -> tuple[Running, subprocess.Popen[bytes], str]:
    """Start the command; return it and the line that says what it serves and where."""
    log = home / "log"
    with log.open("wb") as out:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-c", PROGRAM, str(home), *options]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    backend = Running(home, process, log)
    (line, *_) = wait_for(
        lambda: [one for one in log.read_text().splitlines() if "/tasks/TASK" in one], "the address", process
    )
    backend.port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
    return backend, process, line


def test_a_task_that_gets_a_model_while_it_runs_is_served_without_a_restart(tmp_path: Path) -> None:
    registry, spec = LocalRegistry(tmp_path / "models"), find_pack("nli").spec
    backend, process, line = begun(tmp_path, "--port", "0")

    def versions(task: str) -> object:
        answer = backend.request("GET", f"/tasks/{task}/versions")
        return answer.json.get("versions") or answer.status

    try:
        assert line.startswith("serving no task at ")
        wait_for(lambda: backend.request("GET", "/health").status == 200, "serving", process)
        assert "cannot be followed" not in backend.log.read_text(), "a fresh home causes no warning"
        assert versions(TASK) == 404
        fits = {"kind": spec.kind, "labels": list(spec.label_names), "model_input": list(spec.model_input)}
        for task, content in ((TASK, {}), ("nli", fits)):
            version = make_version(tmp_path / "models", task=task, content=content)
            registry.set_pins(task, [version])
            wait_for(lambda: versions(task) == [version], f"{task} is served", process)  # noqa: B023 - at once
        figures = backend.request("GET", "/metrics").body.decode()
        assert 'task="nli"' in figures
        # A model that is not pinned does not keep the backend waiting.
        make_version(tmp_path / "models", task="qa")
        assert (backend.request("GET", "/health").status, versions("qa")) == (200, 404)
        assert backend.status()["tasks"] == [TASK, "nli"]
    finally:
        assert backend.end() == 0


def test_a_broken_pack_does_not_keep_other_tasks_from_being_served(tmp_path: Path) -> None:
    registry, folder = LocalRegistry(tmp_path / "models"), tmp_path / "templates"
    for task in (TASK, "my_task"):
        registry.set_pins(task, [make_version(tmp_path / "models", task=task)])
    copy_pack(find_pack(TASK), folder / "my_task")
    (folder / "my_task" / "task.yaml").write_text("name: my_task\n", encoding="utf-8")
    backend, process, line = begun(tmp_path, "--port", "0")
    try:
        assert line.startswith(f"serving {TASK} at ")
        wait_for(lambda: backend.request("GET", "/health").status == 200, "serving", process)
        assert "a task is not served" in backend.log.read_text()
    finally:
        assert backend.end() == 0


def test_a_broken_pack_is_an_error_if_there_is_no_other(tmp_path: Path) -> None:
    LocalRegistry(tmp_path / "models").set_pins(TASK, [make_version(tmp_path / "models")])
    copy_pack(find_pack(TASK), tmp_path / "templates" / TASK)
    (tmp_path / "templates" / TASK / "README.md").unlink()
    with pytest.raises(PackError, match=r"README\.md"):
        called(tmp_path, "--port", "0")


def test_an_invalid_password_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "auth").write_text("just a word", encoding="utf-8")
    for file in ("auth", "nothing"):
        with pytest.raises((PluginError, BackendError)):
            called(tmp_path, "--tasks", TASK, "--auth", str(tmp_path / file), "--port", "0")


def test_it_serves_pinned_models_to_clients_with_the_password(tmp_path: Path) -> None:
    version = make_version(tmp_path / "models", "negative")
    LocalRegistry(tmp_path / "models").set_pins(TASK, [version])
    (tmp_path / "auth").write_text("studio:secret\n", encoding="utf-8")
    options = ["--port", "0", "--workers", "2", "--auth", str(tmp_path / "auth"), "--queue", "5"]
    backend, process, line = begun(tmp_path, *options)
    try:
        assert line.startswith(f"serving {TASK} at http://127.0.0.1:")
        wait_for(lambda: backend.request("GET", "/health").status == 200, "serving", process)
        pack = find_pack(TASK)
        body = predict(pack, writes(pack, "A fine day."), data={"target": "positive"})
        assert backend.predict(TASK, body).status == 401
        secret = {"Authorization": "Basic " + b64encode(b"studio:secret").decode()}
        answer = backend.predict(TASK, body, **secret)
        assert (answer.status, answer.json["model_version"]) == (200, version)
        assert shown(answer.json)[0].startswith("You fooled the model!")
        status = backend.request("GET", "/status", None, **secret).json
        assert status["models"]["slots"][0]["versions"] == [version]
        assert status["queue"]["room"] == 5
        assert backend.end() == 0
    finally:
        backend.end()
    with pytest.raises(OSError, match=r"refused|reset"):
        HTTPConnection("127.0.0.1", backend.port, timeout=5).connect()
