"""Everything that an owner runs for live verdicts: our command, our two servers, and the real Label Studio."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import requests

from ml_backend.targets.loading import load_target
from ml_backend.targets.target import Target
from ml_backend.verdict import Verdict, judge
from plugin.cli import run
from plugin.server_process import free_port
from round_manager.database.store import open_store
from templates import Pack
from tests.e2e.plugin.labelstudio.conftest import Studio
from tests.e2e.plugin.labelstudio.projects import Project
from tests.e2e.taught import give

OUTFOX = str(Path(sys.executable).parent / "outfox")
SECONDS_TO_START = 120.0
SECONDS_TO_SYNC = 60.0


@dataclass
class Live:
    """A home with its database and models, and the servers that work on it."""

    home: Path
    studio: Studio
    _web_port: int = field(default_factory=free_port)
    _backend_port: int = field(default_factory=free_port)
    _servers: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    _versions: dict[str, str] = field(default_factory=dict)
    _projects: dict[str, dict[str, int]] = field(default_factory=dict)
    _answers: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def outfox(self, *arguments: str) -> Any:
        """What the command says in JSON; its error where it fails."""
        said, complained = StringIO(), StringIO()
        # In this process: separate ones would load Label Studio's SDK and the model's libraries again.
        with patch.dict(os.environ, self._environment), redirect_stdout(said), redirect_stderr(complained):
            code = run([*arguments, "--json"])
        assert code == 0, f"outfox {' '.join(arguments)}: {complained.getvalue()}"
        return json.loads(said.getvalue())

    def open_round(self, name: str, model: Path) -> None:
        """A task with the version in the folder as its model, and an open round."""
        self.outfox("task", "create", name)
        give(model, self.home / "models")
        self._versions[name] = model.name
        self.outfox("round", "open", name, "--yes")

    def project(self, name: str) -> Project:
        """The task's project for writers, with its contexts in it; the same one each time."""
        if name not in self._projects:
            self._projects[name] = self.outfox("labelstudio", "connect", name)["projects"]
            self.outfox("labelstudio", "push", name)
        number = self._projects[name]["create"]
        return Project(number, f"{name}: write", f"{self.studio.server.url}/projects/{number}/data")

    def start(self) -> None:
        """The ML backend and the web app, and waits until both answer."""
        backend = ["ml-backend", "--port", str(self._backend_port)]
        web = ["serve", "--port", str(self._web_port), "--sync-every", "0"]
        for arguments, port in ((backend, self._backend_port), (web, self._web_port)):
            with (self.home / f"{arguments[0]}.log").open("ab") as log:
                process = subprocess.Popen([OUTFOX, *arguments], env=self._environment, stdout=log, stderr=log)
            self._servers.append(process)
            _wait_until_up(process, port)

    def stop(self) -> None:
        """Ends both, and leaves Label Studio to others as it was."""
        while self._servers:
            process = self._servers.pop()
            process.terminate()
            process.wait(SECONDS_TO_START)
        for number in (number for made in self._projects.values() for number in made.values()):
            self.studio.delete(f"projects/{number}/")

    def predictor(self, name: str) -> Target:
        """The very version that serves the task."""
        return _loaded(self.home / "models" / name / self._versions[name])

    def verdict(self, pack: Pack, fields: Mapping[str, str], target: str | None) -> Verdict:
        """What the version must say to these inputs."""
        predictor = self.predictor(pack.spec.name)
        asked = (predictor.version, *sorted(fields.items()))
        # A search for a fooling answer asks the same for each.
        if asked not in self._answers:
            (self._answers[asked],) = predictor.predict([fields])
        return judge(pack.spec, fields, [(predictor.version, self._answers[asked])], target, now=datetime.now(UTC))

    def examples(self, name: str, count: int) -> list[Any]:
        """Return the task's examples once there are this many; the webhook triggers the sync."""
        until = time.monotonic() + SECONDS_TO_SYNC
        while len(found := self._examples(name)) < count:
            assert time.monotonic() < until, f"{len(found)} of {count} examples came; {self._said('serve')}"
            time.sleep(0.1)
        return found

    def attempts(self, name: str) -> list[Any]:
        """Every try of the task in our database, in order."""
        from sqlalchemy import select

        from round_manager.models import Attempt, Task

        with open_store(f"sqlite:///{self.home / 'outfox.db'}") as store, store.read() as session:
            asked = select(Attempt).join(Task, Task.id == Attempt.task_id).where(Task.name == name)
            return list(session.scalars(asked.order_by(Attempt.id)))

    def _examples(self, name: str) -> list[Any]:
        from sqlalchemy import select

        from round_manager.models import Example, Task

        with open_store(f"sqlite:///{self.home / 'outfox.db'}") as store, store.read() as session:
            asked = select(Example).join(Task, Task.id == Example.task_id).where(Task.name == name)
            return list(session.scalars(asked.order_by(Example.id)))

    def _said(self, server: str) -> str:
        return (self.home / f"{server}.log").read_text(encoding="utf-8")[-2000:]

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "OUTFOX_HOME": str(self.home),
            "OUTFOX_LABEL_STUDIO_URL": self.studio.server.url,
            "OUTFOX_LABEL_STUDIO_TOKEN": self.studio.server.token,
            "OUTFOX_ML_BACKEND_URL": f"http://127.0.0.1:{self._backend_port}",
            "OUTFOX_ML_BACKEND_AUTH": "studio:not-secret",
            "OUTFOX_WEB_URL": f"http://127.0.0.1:{self._web_port}",
        }


@cache
def _loaded(directory: Path) -> Target:
    return load_target(directory)


def _wait_until_up(process: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and process.poll() is None:
        try:
            if requests.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                return
        except requests.RequestException:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{process.args!r} does not come up")
