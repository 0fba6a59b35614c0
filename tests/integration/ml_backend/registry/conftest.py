"""Registries of both kinds, and serving processes that use them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ml_backend.registry.registry import Registry
from tests.fakes.registry import TASK, corrupt, make_version
from tests.fakes.s3 import BUCKET, S3Server
from tests.integration.ml_backend.registry.serving_process import open_quickly, serve
from tests.processes import ForkedProcess


@dataclass
class Place:
    """A place for a registry."""

    url: str
    folder: Path
    environment: dict[str, str]
    s3: S3Server | None

    def open(self, cache: str = "cache") -> Registry:
        """Open the registry with short intervals."""
        return open_quickly(self.url, self.folder / cache)

    def make(self, label: str = "positive", **more: Any) -> str:
        """Publish a new version."""
        version = make_version(self.folder / "trained", label, **more)
        self.open().publish(self.folder / "trained" / TASK / version)
        return version

    def trained(self, version: str) -> Path:
        """Return the folder in which a version was trained."""
        return self.folder / "trained" / TASK / version

    def corrupt(self, version: str) -> None:
        """Change a bit of a version's weights in the registry."""
        if self.s3 is None:
            corrupt(Path(self.url) / TASK / version)
            return
        key = f"shared/{TASK}/{version}/model.safetensors"
        found = self.s3.client.get_object(Bucket=BUCKET, Key=key)
        content = bytearray(found["Body"].read())
        content[-1] ^= 1
        self.s3.client.put_object(Bucket=BUCKET, Key=key, Body=bytes(content), Metadata=found["Metadata"])

    def go_away(self) -> None:
        """Make the registry unreachable."""
        if self.s3:
            self.s3.stop()
        else:
            Path(self.url).rename(self.folder / "away")

    def come_back(self) -> None:
        """Make it reachable again."""
        if self.s3:
            self.s3.start()
        else:
            (self.folder / "away").rename(self.url)


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place for a registry, of each kind."""
    if request.param == "folder":
        (tmp_path / "models").mkdir()
        return Place(str(tmp_path / "models"), tmp_path, {}, None)
    server: S3Server = request.getfixturevalue("s3_server")
    server.empty()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return Place(f"s3://{BUCKET}/shared", tmp_path, server.environment, server)


@dataclass
class Outcome:
    """The result of a serving process: its answers as (time, generation, version, label), and its failures."""

    answers: list[tuple[int, int, str, str]]
    failed: list[str]
    state: dict[str, Any]


class ServingProcess(ForkedProcess):
    """A process with a model pool and threads that ask it continuously."""

    def wait_until_ready(self) -> None:
        """Wait until its pool has started."""
        assert self.receive() == "ready"

    def end(self) -> Outcome:
        """Shut it down gracefully."""
        report = self.ask("end")
        assert self.join() == 0
        return Outcome(**report)


StartServing = Callable[..., ServingProcess]


@pytest.fixture
def start_serving() -> Iterator[StartServing]:
    """Start serving processes; the remaining ones are killed afterwards."""
    started: list[ServingProcess] = []

    def start_serving(place: Place, *, threads: int = 1, cache: str | None = None, wait: bool = True) -> ServingProcess:
        folder = place.folder / (cache or f"cache-{len(started)}")
        serving = ServingProcess(serve, place.url, folder, threads, environment=place.environment)
        started.append(serving)
        if wait:
            serving.wait_until_ready()
        return serving

    yield start_serving
    for serving in started:
        serving.kill()
