import os
import threading
from pathlib import Path

import pytest

from ml_backend.errors import NotServed, RegistryError, RegistryUnreachable
from ml_backend.registry.heartbeats import Heartbeat
from ml_backend.registry.model_pool import ModelPool
from ml_backend.registry.pins import FILE, PinSet
from ml_backend.registry.registry import Timing
from tests.fakes.registry import TASK, FixedTarget, QuickRegistry, eventually, load_fixed, make_version
from tests.unit.ml_backend.registry.conftest import StartPool


class SlowRegistry(QuickRegistry):
    """A registry that is not polled again after the start."""

    timing = Timing(poll=1000, wait=0.005, heartbeat=1000, lease=1000)


class AwayRegistry(QuickRegistry):
    """A registry that can be made unreachable."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.error: RegistryError | None = None

    def stamp(self, task: str) -> str:
        if self.error:
            raise self.error
        return super().stamp(task)

    def send_heartbeat(self, heartbeat: Heartbeat) -> None:
        if self.error:
            raise self.error
        super().send_heartbeat(heartbeat)


class RecordingRegistry(QuickRegistry):
    """A registry that records its calls."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []

    def send_heartbeat(self, heartbeat: Heartbeat) -> None:
        self.asked.append(f"heartbeat {heartbeat.tasks[TASK].generation}")
        super().send_heartbeat(heartbeat)

    def pin_set(self, task: str) -> PinSet:
        self.asked.append("pin_set")
        return super().pin_set(task)


def test_the_first_heartbeat_is_sent_before_the_pins_are_read(models: Path, start_pool: StartPool) -> None:
    registry = RecordingRegistry(models)
    registry.set_pins(TASK, [make_version(models)])
    registry.asked.clear()
    start_pool(on=registry)
    assert registry.asked[:3] == ["heartbeat 0", "pin_set", "heartbeat 1"]


def test_after_a_long_pause_the_pins_are_read_before_the_next_answer(models: Path, start_pool: StartPool) -> None:
    registry = SlowRegistry(models)
    old, new = make_version(models, "positive"), make_version(models, "negative")
    registry.set_pins(TASK, [old])
    pool = start_pool(on=registry)
    registry.set_pins(TASK, [new])
    assert pool.models_for(TASK).targets[0].version == old, "a rotation waits for this process: the lease holds"
    pool._watcher.trusted_until = 0.0
    assert pool.models_for(TASK).targets[0].version == new


def test_after_a_long_pause_requests_fail_until_the_new_version_is_loaded(
    models: Path, start_pool: StartPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ml_backend.registry.pin_watcher.CATCH_UP_SECONDS", 0.05)
    goes_on = threading.Event()

    def load(directory: Path) -> FixedTarget:
        if directory.name == new:
            assert goes_on.wait(10)
        return load_fixed(directory)

    registry = SlowRegistry(models)
    old, new = make_version(models, "positive"), make_version(models, "negative")
    registry.set_pins(TASK, [old])
    pool = start_pool(load, on=registry)
    registry.set_pins(TASK, [new])
    pool._watcher.trusted_until = 0.0
    with pytest.raises(NotServed) as caught:
        pool.models_for(TASK)
    assert caught.value.retry
    goes_on.set()
    eventually(lambda: pool.state().loaded == tuple(sorted([old, new])), "it is loaded")
    assert pool.models_for(TASK).targets[0].version == new


def test_an_unreachable_registry_is_reported_and_the_old_models_answer(models: Path, start_pool: StartPool) -> None:
    registry = AwayRegistry(models)
    old, new = make_version(models, "positive"), make_version(models, "negative")
    registry.set_pins(TASK, [old])
    pool = start_pool(on=registry)
    registry.error = RegistryUnreachable("no route to the registry")
    eventually(lambda: pool.state().registry_error == "no route to the registry", "the error is reported")
    assert pool.state().registry_error_since is not None
    registry.set_pins(TASK, [new])
    pool._watcher.trusted_until = 0.0
    assert pool.models_for(TASK).targets[0].version == old
    registry.error = None
    eventually(lambda: pool.models_for(TASK).targets[0].version == new, "it is followed again")
    eventually(lambda: pool.state().registry_error is None, "all is well again")


def test_a_registry_that_is_unreachable_at_the_start_is_retried(models: Path, start_pool: StartPool) -> None:
    registry = AwayRegistry(models)
    version = make_version(models)
    registry.set_pins(TASK, [version])
    registry.error = RegistryUnreachable("no route to the registry")
    pool = start_pool(on=registry)
    with pytest.raises(NotServed):
        pool.models_for(TASK)
    registry.error = None
    eventually(lambda: pool.state().loaded == (version,), "it is loaded")
    assert pool.models_for(TASK).targets[0].version == version


def test_an_unusable_registry_is_an_error_at_the_start(models: Path, start_pool: StartPool) -> None:
    registry = AwayRegistry(models)
    registry.error = RegistryError("there is no such bucket")
    with pytest.raises(RegistryError, match="no such bucket"):
        start_pool(on=registry)


def test_missing_or_corrupt_pins_are_reported_and_the_old_models_answer(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    version = make_version(models)
    registry.set_pins(TASK, [version])
    pool = start_pool()
    pins = models / TASK / FILE
    kept = pins.read_bytes()
    for corrupted in (None, b"{"):
        if corrupted is None:
            pins.unlink()
        else:
            pins.write_bytes(corrupted)
        eventually(lambda: pool.state().registry_error, "the error is reported")
        assert pool.models_for(TASK).targets[0].version == version
        pins.write_bytes(kept)
        eventually(lambda: pool.state().registry_error is None, "all is well again")


def test_a_version_that_could_not_be_fetched_is_retried(
    models: Path, start_pool: StartPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ml_backend.registry.pin_watcher.RETRY_SECONDS", 0.02)
    fetches: list[str] = []

    class FlakyRegistry(QuickRegistry):
        def fetch(self, task: str, version: str) -> Path:
            fetches.append(version)
            if len(fetches) < 3:
                raise RegistryUnreachable("the connection broke")
            return super().fetch(task, version)

    registry = FlakyRegistry(models)
    version = make_version(models)
    registry.set_pins(TASK, [version])
    pool = start_pool(load_fixed, on=registry)
    eventually(lambda: pool.state().loaded == (version,), "it is loaded")
    assert pool.state().slots[0].error is None


def test_heartbeats_are_renewed(models: Path, registry: QuickRegistry, start_pool: StartPool) -> None:
    registry.set_pins(TASK, [make_version(models)])
    start_pool()
    (file,) = (models / ".beats").glob("*.json")
    os.utime(file, (0, 0))
    eventually(lambda: file.stat().st_mtime > 0, "the next heartbeat")


def test_a_process_with_read_access_only_follows_the_pins(models: Path, start_pool: StartPool) -> None:
    class ReadOnlyRegistry(QuickRegistry):
        def send_heartbeat(self, heartbeat: Heartbeat) -> None:
            raise RegistryUnreachable("read-only file system")

    registry = ReadOnlyRegistry(models)
    old, new = make_version(models, "positive"), make_version(models, "negative")
    registry.set_pins(TASK, [old])
    pool = start_pool(on=registry)
    assert pool.models_for(TASK).targets[0].version == old
    registry.set_pins(TASK, [new])
    eventually(lambda: pool.models_for(TASK).targets[0].version == new, "the new version answers")
    assert pool.state().registry_error == "read-only file system"


def test_heartbeats_continue_while_the_first_models_load(models: Path, registry: QuickRegistry) -> None:
    goes_on = threading.Event()

    def load(directory: Path) -> FixedTarget:
        assert goes_on.wait(10)
        return load_fixed(directory)

    registry.set_pins(TASK, [make_version(models)])
    pool = ModelPool(registry, load, [TASK])
    starting = threading.Thread(target=pool.start)
    starting.start()
    try:
        eventually(lambda: registry.heartbeats(TASK), "it says that it comes")
        assert [heartbeat.tasks[TASK].generation for heartbeat in registry.heartbeats(TASK)] == [0]
        (file,) = (models / ".beats").glob("*.json")
        os.utime(file, (0, 0))
        eventually(lambda: file.stat().st_mtime > 0, "the next heartbeat")
    finally:
        goes_on.set()
        starting.join()
        pool.stop()
