"""The contract of every registry, in a folder or in a bucket."""

import threading
from pathlib import Path

import pytest

from ml_backend.errors import ModelError, PinsChanged, RegistryError
from ml_backend.manifest import FILE
from ml_backend.registry.heartbeats import FollowedPins, Heartbeat, ProcessIdentity
from ml_backend.registry.pins import Pins
from tests.fakes.registry import TASK, make_version
from tests.fakes.s3 import BUCKET
from tests.integration.ml_backend.registry.conftest import Place


def heartbeat(name: str, process: ProcessIdentity, *, task: str = TASK, generation: int = 0) -> Heartbeat:
    served = {task: FollowedPins(pin_set="b", generation=generation)}
    return Heartbeat(id=name, host=process.host, pid=process.pid, started=process.started, lease=60, tasks=served)


def test_an_empty_registry_is_empty(place: Place) -> None:
    registry = place.open()
    assert registry.tasks() == []
    assert registry.versions(TASK) == []
    assert registry.pins(TASK) is None
    assert registry.stamp(TASK) == ""
    assert registry.heartbeats(TASK) == []


def test_a_fetched_version_is_identical_to_the_published_one(place: Place) -> None:
    version = place.make()
    for cache in ("cache", "another cache", "cache"):
        directory = place.open(cache).fetch(TASK, version)
        assert directory.name == version
        assert {path.name: path.read_bytes() for path in directory.iterdir()} == {
            path.name: path.read_bytes() for path in place.trained(version).iterdir()
        }


def test_versions_are_listed_newest_first_and_by_task(place: Place) -> None:
    registry = place.open()
    one = place.make("positive")
    other = make_version(place.folder / "trained", task="nli")
    registry.publish(place.folder / "trained" / "nli" / other)
    assert registry.tasks() == ["nli", TASK]
    assert registry.versions("nli") == [other]
    assert registry.versions(TASK) == [one]
    assert registry.publish(place.trained(one)) == one, "again: it stays as it is"
    assert registry.versions(TASK) == [one]


def test_a_missing_version_is_an_error(place: Place) -> None:
    registry = place.open()
    with pytest.raises(ModelError, match="m000000000000"):
        registry.fetch(TASK, "m000000000000")
    with pytest.raises(ModelError, match="m000000000000"):
        registry.set_pins(TASK, ["m000000000000"])
    with pytest.raises(RegistryError):
        registry.fetch(TASK, "../../etc")
    with pytest.raises(RegistryError):
        registry.fetch("../etc", "m000000000000")


def test_an_incomplete_version_is_invisible(place: Place) -> None:
    registry = place.open()
    version = make_version(place.folder / "trained")
    for path in sorted(place.trained(version).iterdir()):
        if path.name == FILE:
            continue
        if place.s3:
            place.s3.client.put_object(
                Bucket=BUCKET, Key=f"shared/{TASK}/{version}/{path.name}", Body=path.read_bytes()[:5]
            )
        else:
            target = Path(place.url) / TASK / ".writing-half" / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes()[:5])
    assert registry.versions(TASK) == []
    with pytest.raises(ModelError):
        registry.fetch(TASK, version)
    registry.publish(place.trained(version))
    assert registry.versions(TASK) == [version]
    assert registry.fetch(TASK, version).is_dir()


def test_a_corrupt_version_is_never_fetched(place: Place) -> None:
    version = place.make()
    place.corrupt(version)
    with pytest.raises(ModelError, match="SHA-256"):
        place.open("new cache").fetch(TASK, version)
    assert not list((place.folder / "new cache").rglob("*.safetensors"))


def test_the_last_pins_apply(place: Place) -> None:
    registry = place.open()
    one, two = place.make("positive"), place.make("negative")
    assert registry.set_pins(TASK, [one], who="ann", why="the first") == Pins(TASK, None, 1, (one,))
    assert registry.set_pins(TASK, [one, two], round=3) == Pins(TASK, 3, 2, (one, two))
    another = place.open()
    assert another.pins(TASK) == another.pins(TASK, 1) == Pins(TASK, None, 1, (one,))
    assert another.pins(TASK, 3) == Pins(TASK, 3, 2, (one, two))
    assert registry.set_pins(TASK, [], round=3).versions == ()
    assert another.pins(TASK, 3) == Pins(TASK, None, 1, (one,))
    history = another.pin_set(TASK).history
    assert [(change.generation, change.round, change.who, change.why) for change in history] == [
        (1, None, "ann", "the first"),
        (2, 3, "", ""),
        (3, 3, "", ""),
    ]


def test_the_stamp_changes_with_every_change(place: Place) -> None:
    registry = place.open()
    version = place.make()
    stamps = {registry.stamp(TASK)}
    for _ in range(5):
        registry.set_pins(TASK, [version])
        assert registry.stamp(TASK) == place.open().stamp(TASK)
        stamps.add(registry.stamp(TASK))
    assert len(stamps) == 6


def test_changed_pins_are_not_overwritten(place: Place) -> None:
    registry = place.open()
    one, two = place.make("positive"), place.make("negative")
    pins = registry.set_pins(TASK, [one], after=0)
    with pytest.raises(PinsChanged):
        place.open().set_pins(TASK, [two], after=0)
    assert place.open().set_pins(TASK, [two], after=pins.generation).generation == 2


def test_of_many_concurrent_changes_one_wins_each_time(place: Place) -> None:
    versions = [place.make(note=str(number)) for number in range(3)]
    rounds, won, lost = 3, [], []
    for generation in range(rounds):
        together = threading.Barrier(len(versions))

        def pin(version: str, generation: int = generation, together: threading.Barrier = together) -> None:
            registry = place.open()
            together.wait()
            try:
                won.append(registry.set_pins(TASK, [version], after=generation))
            except PinsChanged as error:
                lost.append(error)

        threads = [threading.Thread(target=pin, args=(version,)) for version in versions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [pins.generation for pins in won] == list(range(1, rounds + 1))
    assert len(lost) == rounds * (len(versions) - 1)
    assert [change.versions for change in place.open().pin_set(TASK).history] == [pins.versions for pins in won]


def test_concurrent_changes_for_different_rounds_are_all_kept(place: Place) -> None:
    version = place.make()
    together = threading.Barrier(5)

    def pin(round: int) -> None:
        registry = place.open()
        together.wait()
        for _ in range(3):
            registry.set_pins(TASK, [version], round=round)

    threads = [threading.Thread(target=pin, args=(round,)) for round in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pin_set = place.open().pin_set(TASK)
    assert pin_set.generation == 15
    assert {pins.round for pins in pin_set.all()} == {1, 2, 3, 4, 5}


def test_heartbeats_list_the_serving_processes(place: Place) -> None:
    registry = place.open()
    this = ProcessIdentity.this()
    elsewhere = ProcessIdentity("elsewhere/pid:[1]", 1, "1")
    registry.send_heartbeat(heartbeat("here", this, generation=3))
    registry.send_heartbeat(heartbeat("there", elsewhere))
    registry.send_heartbeat(heartbeat("other", this, task="nli"))
    registry.send_heartbeat(heartbeat("here", this, generation=4))
    found = {one.id: one.tasks[TASK].generation for one in place.open().heartbeats(TASK)}
    assert found == {"here": 4, "there": 0}
    registry.remove_heartbeat("here")
    registry.remove_heartbeat("nobody")
    assert [one.id for one in place.open().heartbeats(TASK)] == ["there"]


def test_an_ended_or_silent_process_is_not_listed(place: Place) -> None:
    registry = place.open()
    this = ProcessIdentity.this()
    registry.send_heartbeat(heartbeat("gone", ProcessIdentity(this.host, this.pid, "0")))
    silent = heartbeat("silent", ProcessIdentity("elsewhere/pid:[1]", 1, "1"))
    registry.send_heartbeat(silent.model_copy(update={"lease": 1e-9}))
    while registry.heartbeats(TASK):  # the bucket's clock counts whole seconds
        pass
    assert registry.heartbeats(TASK) == []
