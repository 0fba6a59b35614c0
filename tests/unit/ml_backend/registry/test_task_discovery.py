"""A pool that serves every task of the registry discovers new ones while it runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ml_backend.errors import NotServed, RegistryUnreachable, TaskNotServed
from ml_backend.registry.heartbeats import Heartbeat
from ml_backend.registry.model_pool import ModelPool
from ml_backend.registry.pins import PinSet
from tests.fakes.registry import TASK, QuickRegistry, eventually, load_fixed, make_version

SECOND = "second"


class WatchedRegistry(QuickRegistry):
    """A registry that records its calls, and whose tasks cannot always be listed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []
        self.may_list = True

    def tasks(self) -> list[str]:
        if not self.may_list:
            self.asked.append("refused")
            raise RegistryUnreachable("listing is not allowed")
        return super().tasks()

    def send_heartbeat(self, heartbeat: Heartbeat) -> None:
        self.asked.append(f"heartbeat {' '.join(sorted(heartbeat.tasks))}".strip())
        super().send_heartbeat(heartbeat)

    def pin_set(self, task: str) -> PinSet:
        self.asked.append(f"pin_set {task}")
        return super().pin_set(task)


@pytest.fixture
def watched(models: Path) -> WatchedRegistry:
    made = WatchedRegistry(models)
    made.set_pins(TASK, [make_version(models)])
    return made


@pytest.fixture
def pool(watched: WatchedRegistry, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelPool]:
    """A pool that can serve two tasks and started with none."""
    monkeypatch.setattr("ml_backend.registry.pin_watcher.DISCOVERY_INTERVAL", 0.01)
    watched.asked.clear()
    made = ModelPool(watched, load_fixed, [], can_serve=lambda task: task in (TASK, SECOND))
    made.start()
    yield made
    made.stop()


def is_served(pool: ModelPool, task: str) -> bool:
    try:
        return bool(pool.models_for(task).targets)
    except NotServed:
        return False


def test_pinned_tasks_are_served_from_the_start(pool: ModelPool) -> None:
    assert is_served(pool, TASK)


def test_a_new_task_is_in_the_heartbeat_before_its_pins_are_read(
    models: Path, watched: WatchedRegistry, pool: ModelPool
) -> None:
    version = make_version(models, task=SECOND)
    assert not is_served(pool, SECOND)
    watched.asked.clear()
    QuickRegistry(models).set_pins(SECOND, [version])
    eventually(lambda: is_served(pool, SECOND), "the second task is served")
    seen = [one for one in watched.asked if SECOND in one]
    # On a busy machine, another heartbeat may be sent before the pins are read.
    assert list(dict.fromkeys(seen)) == [f"heartbeat {SECOND} {TASK}", f"pin_set {SECOND}"]
    assert is_served(pool, TASK)


def test_a_task_without_pins_or_a_pack_is_not_served(models: Path, watched: WatchedRegistry, pool: ModelPool) -> None:
    make_version(models, task=SECOND)
    watched.set_pins("stranger", [make_version(models, task="stranger")])
    watched.asked.clear()
    eventually(lambda: "heartbeat sentiment" in watched.asked, "it has looked for tasks")
    for task in (SECOND, "stranger"):
        with pytest.raises(TaskNotServed):
            pool.models_for(task)


def test_if_tasks_cannot_be_listed_the_known_ones_are_followed(
    models: Path, watched: WatchedRegistry, pool: ModelPool, caplog: pytest.LogCaptureFixture
) -> None:
    watched.may_list = False
    new = make_version(models, "negative")
    watched.set_pins(TASK, [new])
    eventually(lambda: pool.models_for(TASK).targets[0].version == new, "the new version answers")
    eventually(lambda: watched.asked.count("refused") > 2, "it has tried again")
    assert pool.state().registry_error is None
    assert caplog.text.count("cannot look for new tasks") == 1
