"""Killed writers and full disks: existing content stays, and partial content is never visible."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from ml_backend.registry.bucket import Bucket, PreconditionFailed
from ml_backend.registry.local import LocalRegistry
from ml_backend.registry.pins import PinSet
from ml_backend.registry.registry import open_registry
from tests.fakes.registry import TASK, eventually, make_version
from tests.integration.ml_backend.registry.conftest import Place
from tests.processes import running

# Long: other tests use the same cores. A condition that holds ends the wait.
SECONDS = 300.0
in_a_bucket = pytest.mark.parametrize("place", ["s3"], indirect=True)

FULL_DISK = """
import subprocess, sys
from pathlib import Path
from ml_backend.errors import RegistryError
from ml_backend.registry.bucket import Bucket, PreconditionFailed
from ml_backend.registry.local import LocalRegistry
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", sys.argv[1]], check=True)
root = Path(sys.argv[1])
registry = LocalRegistry(root)
first, second = map(Path, sys.argv[2:])
registry.publish(first)
pins = registry.set_pins("sentiment", [first.name])
try:
    registry.publish(second)
except RegistryError as error:
    print(error)
assert registry.versions("sentiment") == [first.name]
assert registry.fetch("sentiment", first.name)
assert registry.pins("sentiment") == pins
assert registry.set_pins("sentiment", [first.name]).generation == 2, "there is still room for pins"
assert not [path for path in (root / "sentiment").iterdir() if path.name.startswith(".writing-")]
"""


def pin_forever(pipe: Connection, url: str, cache: Path, version: str) -> None:
    registry = open_registry(url, cache)
    pipe.send("ready")
    while True:
        registry.set_pins(TASK, [version])


def publish_forever(pipe: Connection, url: str, cache: Path, directories: Sequence[Path]) -> None:
    registry = open_registry(url, cache)
    pipe.send("ready")
    while True:
        for directory in directories:
            registry.publish(directory)


def test_pins_are_intact_whenever_a_writer_is_killed(place: Place) -> None:
    version = place.make()
    registry = place.open()
    generation, moments = 0, random.Random(3)
    for _ in range(6):
        wanted = generation + moments.randint(1, 8)
        with running(pin_forever, place.url, place.folder / "cache", version, environment=place.environment):
            eventually(lambda wanted=wanted: registry.pin_set(TASK).generation >= wanted, "it pins", SECONDS)  # type: ignore[misc]
        pin_set: PinSet = registry.pin_set(TASK)
        assert pin_set.generation >= wanted
        assert pin_set.history[-1].generation == pin_set.generation
        generation = registry.set_pins(TASK, [version]).generation
        assert generation == pin_set.generation + 1, "and the lock of the killed one is free"


def test_a_version_is_complete_or_missing_whenever_its_publisher_is_killed(place: Place) -> None:
    registry = place.open()
    trained = place.folder / "trained"
    versions = [make_version(trained, note=str(number), weights=50_000) for number in range(12)]
    directories = [place.trained(version) for version in versions]
    for count in range(0, 12, 3):
        with running(publish_forever, place.url, place.folder / "cache", directories, environment=place.environment):
            eventually(lambda count=count: len(registry.versions(TASK)) > count, "it publishes", SECONDS)  # type: ignore[misc]
        for version in registry.versions(TASK):
            registry.fetch(TASK, version)
    for directory in directories:
        assert registry.publish(directory) == directory.name
    assert sorted(registry.versions(TASK)) == sorted(versions)


def test_a_full_disk_corrupts_nothing(tmp_path: Path) -> None:
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("this system does not allow mounting a small disk (unshare -rm)")
    trained, root = tmp_path / "trained", tmp_path / "models"
    root.mkdir()
    first, second = [make_version(trained, note=str(number), weights=50_000) for number in range(2)]
    ran = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", FULL_DISK, root, trained / TASK / first, trained / TASK / second],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert ran.returncode == 0, ran.stderr
    assert "No space left on device" in ran.stdout


def test_the_draft_of_a_killed_writer_is_removed(tmp_path: Path) -> None:
    registry = LocalRegistry(tmp_path)
    version = make_version(tmp_path)
    (tmp_path / TASK / ".pins.json.left").write_bytes(b"{")
    registry.set_pins(TASK, [version])
    assert not list((tmp_path / TASK).glob(".pins.json.*"))


@in_a_bucket
def test_a_corrupt_cached_version_is_fetched_again(place: Place) -> None:
    registry = place.open()
    version = place.make()
    weights = registry.fetch(TASK, version) / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-1])
    assert (registry.fetch(TASK, version) / "model.safetensors").read_bytes() == good


@in_a_bucket
def test_publishing_again_repairs_a_corrupt_version(place: Place) -> None:
    version = place.make()
    assert place.s3
    key = f"shared/{TASK}/{version}/model.safetensors"
    place.s3.client.put_object(Bucket="models", Key=key, Body=b"spoiled")
    assert place.open().publish(place.trained(version)) == version
    assert place.open("new cache").fetch(TASK, version).is_dir()


@in_a_bucket
def test_a_change_whose_response_was_lost_is_recognised(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = place.open()
    version = place.make()
    write = Bucket.write
    answers_lost: list[str] = []

    def lose_the_answer(bucket: Bucket, key: str, content: bytes, *, replaces: str | None = None) -> None:
        write(bucket, key, content, replaces=replaces)
        if not answers_lost:
            answers_lost.append(key)
            raise PreconditionFailed(key)  # what boto3 reports after its own retry

    monkeypatch.setattr(Bucket, "write", lose_the_answer)
    assert registry.set_pins(TASK, [version], after=0).generation == 1
    assert answers_lost
    assert len(registry.pin_set(TASK).history) == 1


@in_a_bucket
def test_two_publishers_of_one_version_leave_a_complete_version_or_fail(place: Place) -> None:
    version = make_version(place.folder / "trained")
    twin = make_version(place.folder / "again")
    assert version == twin, "one training, done twice, at two times"
    registry = place.open()
    registry.publish(place.trained(version))
    assert registry.publish(place.folder / "again" / TASK / twin) == version
    card = registry.fetch(TASK, version) / "README.md"
    assert card.read_bytes() == (place.trained(version) / "README.md").read_bytes(), "the first one stays"
