import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ml_backend.errors import (
    ModelError,
    NoEarlierPins,
    PinsChanged,
    RegistryError,
    RotationNotConfirmed,
    RotationRefused,
)
from ml_backend.registry.heartbeats import FollowedPins, Heartbeat, ProcessIdentity
from ml_backend.registry.pins import Pins
from ml_backend.registry.rotation import rollback, rotate
from tests.fakes.registry import TASK, FixedTarget, QuickRegistry, corrupt, load_fixed, make_version
from tests.unit.ml_backend.registry.conftest import StartPool


class RecordedProgress:
    """A Progress that records the stages."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []
        self.finished = 0

    def start(self, total_steps: int, what: str) -> None:
        self.stages.append(what)

    def advance(self, steps: int = 1, note: str = "") -> None:
        self.notes.append(note)

    def finish(self) -> None:
        self.finished += 1


def process_elsewhere(registry: QuickRegistry) -> Heartbeat:
    """Report a serving process on another machine that never confirms."""
    process = ProcessIdentity("elsewhere/pid:[1]", 7, "1")
    served = {TASK: FollowedPins(generation=0)}
    heartbeat = Heartbeat(id="elsewhere", host=process.host, pid=7, started="1", lease=1000, tasks=served)
    registry.send_heartbeat(heartbeat)
    return heartbeat


def test_when_a_rotation_returns_every_process_answers_with_the_new_version(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    versions = [make_version(models, label) for label in ("positive", "negative")]
    rotate(registry, TASK, versions[:1], load=load_fixed)
    pools = [start_pool() for _ in range(3)]
    for number in range(20):
        version = versions[(number + 1) % 2]
        pins = rotate(registry, TASK, [version], load=load_fixed)
        assert [pool.models_for(TASK).targets[0].version for pool in pools] == [version] * 3
        assert [pool.models_for(TASK).generation for pool in pools] == [pins.generation] * 3


def test_a_rotation_without_serving_processes_only_pins(models: Path, registry: QuickRegistry) -> None:
    version = make_version(models)
    progress = RecordedProgress()
    pins = rotate(registry, TASK, [version], load=load_fixed, progress=progress, who="ann", why="the first")
    assert registry.pins(TASK) == pins == Pins(TASK, None, 1, (version,))
    (change,) = registry.pin_set(TASK).history
    assert (change.who, change.why, change.versions) == ("ann", "the first", (version,))
    assert len(progress.stages) == 1, "there is no serving process to wait for"
    assert progress.finished == 1


def test_only_a_rounds_pins_change_when_the_round_is_named(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    old, new = make_version(models, "positive"), make_version(models, "negative")
    rotate(registry, TASK, [old], load=load_fixed)
    pool = start_pool()
    rotate(registry, TASK, [new], round=2, load=load_fixed)
    assert pool.models_for(TASK, 2).targets[0].version == new
    assert pool.models_for(TASK).targets[0].version == pool.models_for(TASK, 1).targets[0].version == old


@pytest.mark.parametrize("fault", ["broken", "unfit", "corrupt", "missing", "other task", "answers as another"])
def test_a_candidate_that_does_not_load_changes_nothing(
    models: Path, registry: QuickRegistry, start_pool: StartPool, fault: str
) -> None:
    good = make_version(models)
    bad = make_version(models, "negative", task="nli" if fault == "other task" else TASK, fault=fault)
    if fault == "corrupt":
        corrupt(models / TASK / bad)
    if fault == "missing":
        bad = "m000000000000"

    def load(directory: Path) -> FixedTarget:
        if fault == "answers as another" and directory.name == bad:
            return FixedTarget(good, "positive")
        return load_fixed(directory)

    before = rotate(registry, TASK, [good], load=load_fixed)
    pool = start_pool()
    with pytest.raises(ModelError):
        rotate(registry, TASK, [bad], load=load)
    assert registry.pins(TASK) == before
    assert pool.models_for(TASK).targets[0].version == good


def test_a_process_that_cannot_load_the_version_undoes_the_rotation_for_all(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    good, bad = make_version(models, "positive"), make_version(models, "negative")

    def without_memory(directory: Path) -> FixedTarget:
        if directory.name == bad:
            raise MemoryError("cannot allocate 90 MB")
        return load_fixed(directory)

    rotate(registry, TASK, [good], load=load_fixed)
    pools = [start_pool(), start_pool(without_memory)]
    with pytest.raises(RotationRefused, match=rf"cannot allocate 90 MB.*{good} is pinned again") as caught:
        rotate(registry, TASK, [bad], load=load_fixed)
    assert not caught.value.retry
    now = registry.pins(TASK)
    assert now is not None
    assert now.versions == (good,)
    assert [pool.models_for(TASK).targets[0].version for pool in pools] == [good, good]
    with pytest.raises(NoEarlierPins):
        rollback(registry, TASK, load=load_fixed)


def test_a_process_that_does_not_confirm_in_time_undoes_the_rotation(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    good, new = make_version(models, "positive"), make_version(models, "negative")
    rotate(registry, TASK, [good], load=load_fixed)
    pool = start_pool()
    heartbeat = process_elsewhere(registry)
    with pytest.raises(RotationNotConfirmed, match=r"process 7 on elsewhere.*0\.1 s") as caught:
        rotate(registry, TASK, [new], load=load_fixed, timeout=0.1)
    assert caught.value.retry
    assert pool.models_for(TASK).targets[0].version == good
    registry.remove_heartbeat(heartbeat.id)
    rotate(registry, TASK, [new], load=load_fixed)
    assert pool.models_for(TASK).targets[0].version == new


def test_the_first_rotation_is_undone_to_nothing(models: Path, registry: QuickRegistry) -> None:
    version = make_version(models)
    process_elsewhere(registry)
    with pytest.raises(RotationNotConfirmed, match="nothing is pinned again"):
        rotate(registry, TASK, [version], load=load_fixed, timeout=0.05)
    assert registry.pins(TASK) is None


def test_a_rotation_that_is_stopped_by_hand_is_undone(models: Path, registry: QuickRegistry) -> None:
    good, new = make_version(models, "positive"), make_version(models, "negative")
    rotate(registry, TASK, [good], load=load_fixed)
    process_elsewhere(registry)

    class Impatient(RecordedProgress):
        def advance(self, steps: int = 1, note: str = "") -> None:
            if "elsewhere" in note:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rotate(registry, TASK, [new], load=load_fixed, progress=Impatient())
    now = registry.pins(TASK)
    assert now is not None
    assert now.versions == (good,)


def test_of_two_concurrent_rotations_one_fails(models: Path, registry: QuickRegistry) -> None:
    base, *others = [make_version(models, note=str(number)) for number in range(3)]
    rotate(registry, TASK, [base], load=load_fixed)
    both_have_looked = threading.Barrier(2)
    outcomes: dict[str, Pins | RegistryError] = {}

    def load(directory: Path) -> FixedTarget:
        both_have_looked.wait(10)
        return load_fixed(directory)

    def run(version: str) -> None:
        try:
            outcomes[version] = rotate(registry, TASK, [version], load=load)
        except RegistryError as error:
            outcomes[version] = error

    threads = [threading.Thread(target=run, args=(version,)) for version in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [version for version, outcome in outcomes.items() if isinstance(outcome, Pins)]
    lost = [outcome for outcome in outcomes.values() if isinstance(outcome, PinsChanged)]
    assert (len(won), len(lost)) == (1, 1)
    now = registry.pins(TASK)
    assert now is not None
    assert list(now.versions) == won


def test_a_rotation_that_is_overtaken_fails_and_keeps_the_newer_pins(models: Path, registry: QuickRegistry) -> None:
    base, mine, theirs = [make_version(models, note=str(number)) for number in range(3)]
    rotate(registry, TASK, [base], load=load_fixed)
    process_elsewhere(registry)

    class Overtaken(RecordedProgress):
        def advance(self, steps: int = 1, note: str = "") -> None:
            if "elsewhere" in note:
                registry.set_pins(TASK, [theirs])

    with pytest.raises(PinsChanged):
        rotate(registry, TASK, [mine], load=load_fixed, progress=Overtaken())
    now = registry.pins(TASK)
    assert now is not None
    assert now.versions == (theirs,)


def test_rotating_to_the_pinned_version_makes_every_process_confirm_again(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    first, second = make_version(models, "positive"), make_version(models, "negative")
    rotate(registry, TASK, [first], load=load_fixed)
    rotate(registry, TASK, [second], load=load_fixed)
    pool = start_pool()
    again = rotate(registry, TASK, [second], load=load_fixed)
    assert pool.models_for(TASK).generation == again.generation == 3
    assert rollback(registry, TASK, load=load_fixed).versions == (first,)


def test_a_rollback_rotates_to_the_previous_pins(models: Path, registry: QuickRegistry, start_pool: StartPool) -> None:
    one, two, three = [make_version(models, note=str(number)) for number in range(3)]
    both: Sequence[str] = (two, three)
    rotate(registry, TASK, both, load=load_fixed)
    rotate(registry, TASK, [one], load=load_fixed)
    pool = start_pool()
    pins = rollback(registry, TASK, load=load_fixed, who="ann")
    assert pins.versions == both
    assert [predictor.version for predictor in pool.models_for(TASK).targets] == list(both)
    assert registry.pin_set(TASK).history[-1].why == "rollback"
    with pytest.raises(NoEarlierPins):
        rollback(registry, TASK, load=load_fixed)


def test_a_rollback_to_a_corrupt_version_is_refused(models: Path, registry: QuickRegistry) -> None:
    one, two = make_version(models, "positive"), make_version(models, "negative")
    rotate(registry, TASK, [one], load=load_fixed)
    before = rotate(registry, TASK, [two], load=load_fixed)
    corrupt(models / TASK / one)
    with pytest.raises(ModelError, match="SHA-256"):
        rollback(registry, TASK, load=load_fixed)
    assert registry.pins(TASK) == before


def test_a_recreated_pin_set_must_be_confirmed_anew(
    models: Path, registry: QuickRegistry, start_pool: StartPool
) -> None:
    old, new = make_version(models, "positive"), make_version(models, "negative")
    for _ in range(5):
        registry.set_pins(TASK, [old])
    pool = start_pool()
    (models / TASK / "pins.json").unlink()
    pins = rotate(registry, TASK, [new], load=load_fixed)
    assert pins.generation == 1, "less than what the process has followed before"
    assert pool.models_for(TASK).targets[0].version == new
