import itertools
import json

import pytest

from ml_backend.errors import InvalidPins, PinsChanged, RegistryCorrupt
from ml_backend.registry.pins import MAX_CHANGES, ChangeReason, Pins, PinSet, check_pins, check_task, check_version

A, B, C = "ma00000000000", "mb00000000000", "mc00000000000"
tokens = itertools.count()


def changed(
    pin_set: PinSet, *versions: str, round: int | None = None, after: int | None = None, repeats: int | None = None
) -> PinSet:
    reason = ChangeReason("ann", "a test", "2027-03-01T12:00:00+00:00", f"token-{next(tokens)}")
    return pin_set.changed(versions, round, after, repeats, reason)


def rolled_back(pin_set: PinSet, round: int | None = None) -> PinSet:
    before = pin_set.before(round)
    assert before is not None
    return changed(pin_set, *before.versions, round=round, repeats=before.repeats or before.generation)


def test_a_task_without_pins_has_none() -> None:
    assert PinSet(task="nli").pins() is None
    assert PinSet(task="nli").pins(3) is None


def test_a_round_has_its_own_pins_or_else_the_tasks() -> None:
    pin_set = changed(changed(PinSet(task="nli"), A), B, C, round=2)
    assert pin_set.pins() == Pins("nli", None, 1, (A,))
    assert pin_set.pins(1) == Pins("nli", None, 1, (A,))
    assert pin_set.pins(2) == Pins("nli", 2, 2, (B, C))
    assert pin_set.all() == [Pins("nli", None, 1, (A,)), Pins("nli", 2, 2, (B, C))]
    assert changed(pin_set, round=2).pins(2) == Pins("nli", None, 1, (A,)), (
        "without versions, the round's pins are removed"
    )


def test_pins_change_only_after_the_generation_that_was_seen() -> None:
    pin_set = changed(PinSet(task="nli"), A, after=0)
    with pytest.raises(PinsChanged, match="ma00000000000"):
        changed(pin_set, B, after=0)
    pin_set = changed(pin_set, B, after=1)
    with pytest.raises(PinsChanged):
        changed(pin_set, C, after=1)
    with pytest.raises(PinsChanged):
        changed(pin_set, C, round=5, after=1)
    assert changed(pin_set, C, round=5, after=2).pins(5) == Pins("nli", 5, 3, (C,))


def test_a_change_for_another_round_is_no_conflict() -> None:
    pin_set = changed(changed(PinSet(task="nli"), A), B, round=1)
    assert changed(pin_set, C, after=1).pins() == Pins("nli", None, 3, (C,))


def test_a_pin_set_survives_a_round_trip_through_its_file() -> None:
    pin_set = changed(changed(PinSet(task="nli"), A), B, C, round=2)
    assert PinSet.read(pin_set.written(), "nli", "here") == pin_set


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"format": 2, "task": "nli"}',
        b'{"task": "../nli"}',
        b'{"task": "nli", "slots": [{"round": null, "generation": 1, "versions": ["../../etc"]}]}',
        b'{"task": "nli", "slots": [{"round": 0, "generation": 1, "versions": ["ma00000000000"]}]}',
        b'{"task": "nli", "slots": [{"round": null, "generation": 1, "versions": []}]}',
        b'{"task": "nli", "more": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * 2_000_000,
        json.dumps({"task": "sentiment"}).encode(),
    ],
)
def test_a_corrupt_file_is_an_error_that_names_it(content: bytes) -> None:
    with pytest.raises(RegistryCorrupt, match=r"/models/nli/pins\.json"):
        PinSet.read(content, "nli", "/models/nli/pins.json")


def test_the_history_records_who_and_why_and_is_bounded() -> None:
    pin_set = PinSet(task="nli")
    for number in range(MAX_CHANGES + 20):
        pin_set = changed(pin_set, A if number % 2 else B)
    assert len(pin_set.history) == MAX_CHANGES
    last = pin_set.history[-1]
    assert (last.generation, last.versions, last.who, last.why) == (MAX_CHANGES + 20, (A,), "ann", "a test")


def test_any_text_can_be_stored_as_a_reason() -> None:
    reason = ChangeReason("ann", "\udcff" + "x" * 10_000, "2027-03-01T12:00:00+00:00", "token")
    pin_set = PinSet(task="nli").changed([A], None, None, None, reason)
    assert PinSet.read(pin_set.written(), "nli", "here").history[0].why == "?" + "x" * 499


def test_a_rollback_goes_back_and_the_next_one_further() -> None:
    pin_set = changed(changed(changed(PinSet(task="nli"), A), B), C)
    pin_set = rolled_back(pin_set)
    assert pin_set.pins() == Pins("nli", None, 4, (B,))
    pin_set = rolled_back(pin_set)
    assert pin_set.pins() == Pins("nli", None, 5, (A,))
    assert pin_set.before(None) is None


def test_undone_pins_are_skipped_by_a_rollback() -> None:
    pin_set = changed(changed(PinSet(task="nli"), A), B)
    pin_set = changed(changed(pin_set, C), B, repeats=2)
    before = pin_set.before(None)
    assert before is not None
    assert before.versions == (A,)


def test_a_rollback_after_a_new_rotation_returns_to_the_rolled_back_pins() -> None:
    pin_set = rolled_back(changed(changed(PinSet(task="nli"), A), B))
    pin_set = rolled_back(changed(pin_set, C))
    assert pin_set.pins() == Pins("nli", None, 5, (A,))
    assert pin_set.before(None) is None, "and what comes before A is still nothing"


def test_each_round_is_rolled_back_separately() -> None:
    pin_set = changed(changed(changed(PinSet(task="nli"), A), B, round=1), C)
    assert pin_set.before(1) is None
    before = pin_set.before(None)
    assert before is not None
    assert before.versions == (A,)


def test_a_change_is_found_by_its_token() -> None:
    pin_set = changed(changed(PinSet(task="nli"), A), B, round=4)
    assert pin_set.change_with(pin_set.history[0].token) == Pins("nli", None, 1, (A,))
    assert pin_set.change_with(pin_set.history[1].token) == Pins("nli", 4, 2, (B,))
    assert pin_set.change_with("another") is None


@pytest.mark.parametrize("task", ["", ".", "..", "Nli", "a/b", "a\n", "a" * 41])
def test_an_invalid_task_name_is_refused(task: str) -> None:
    with pytest.raises(InvalidPins):
        check_task(task)


@pytest.mark.parametrize("version", ["", "..", "m123", "ma00000000000/..", "ma00000000000\n", "MA00000000000"])
def test_an_invalid_version_is_refused(version: str) -> None:
    with pytest.raises(InvalidPins):
        check_version(version)


@pytest.mark.parametrize(("versions", "round"), [([A, A], None), ([f"m{n:012x}" for n in range(9)], None), ([A], 0)])
def test_invalid_pins_are_refused(versions: list[str], round: int | None) -> None:
    with pytest.raises(InvalidPins):
        check_pins(versions, round)
