"""Rotation between processes: no answer fails, is from another version than it says, or is stale."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from ml_backend.errors import PinsChanged, RotationNotConfirmed, RotationRefused
from ml_backend.registry.pins import Pins
from ml_backend.registry.rotation import rollback, rotate
from tests.fakes.registry import TASK, eventually, load_fixed
from tests.integration.ml_backend.registry.conftest import Place, StartServing

QUICK_ROTATIONS = {"folder": 10, "s3": 4}
# How processes follow a rotation does not depend on where the registry is.
in_a_folder = pytest.mark.parametrize("place", ["folder"], indirect=True)
in_a_bucket = pytest.mark.parametrize("place", ["s3"], indirect=True)


def test_rotations_under_load_cause_no_failed_wrong_or_stale_answer(place: Place, start_serving: StartServing) -> None:
    registry = place.open()
    labels = {place.make(label): label for label in ("positive", "negative")}
    versions = list(labels)
    rotate(registry, TASK, versions[:1], load=load_fixed)
    serving = [start_serving(place, threads=8) for _ in range(2)]
    # When each version was the only correct one: from the end of its rotation to the start of the next.
    calm: list[tuple[int, int, str]] = []
    for number in range(1, 1 + QUICK_ROTATIONS["s3" if place.s3 else "folder"]):
        version = versions[number % 2]
        rotate(registry, TASK, [version], load=load_fixed)
        returned, asked = time.monotonic_ns(), serving[0].ask("state")["answers"]
        eventually(lambda asked=asked: serving[0].ask("state")["answers"] > asked + 8, "more is asked")  # type: ignore[misc]
        calm.append((returned, time.monotonic_ns(), version))
    outcomes = [one.end() for one in serving]

    answers = [answer for outcome in outcomes for answer in outcome.answers]
    assert [outcome.failed for outcome in outcomes] == [[], []]
    assert [answer for answer in answers if labels[answer[2]] != answer[3]] == []
    stale = [
        answer
        for answer in answers
        for returned, until, version in calm
        if returned < answer[0] < until and answer[2] != version
    ]
    assert stale == []
    counted = [sum(returned < answer[0] < until for answer in answers) for returned, until, _ in calm]
    assert min(counted) > 0, "every calm was put to the test"
    assert registry.heartbeats(TASK) == [], "both have said that they are gone"


@in_a_folder
def test_a_killed_process_does_not_delay_a_rotation(place: Place, start_serving: StartServing) -> None:
    registry = place.open()
    old, new = place.make("positive"), place.make("negative")
    rotate(registry, TASK, [old], load=load_fixed)
    one, other = start_serving(place, threads=2), start_serving(place, threads=2)
    assert len(registry.heartbeats(TASK)) == 2
    one.kill()
    rotate(registry, TASK, [new], load=load_fixed, timeout=20)
    rotated, answered = time.monotonic_ns(), other.ask("state")["answers"]
    eventually(lambda: other.ask("state")["answers"] > answered + 4, "requests go on")
    outcome = other.end()
    assert outcome.failed == []
    assert {answer[2] for answer in outcome.answers if answer[0] > rotated} == {new}


@in_a_bucket
def test_a_hanging_process_undoes_the_rotation_and_follows_later(place: Place, start_serving: StartServing) -> None:
    registry = place.open()
    old, new = place.make("positive"), place.make("negative")
    rotate(registry, TASK, [old], load=load_fixed)
    one, other = start_serving(place), start_serving(place)
    os.kill(one.pid, signal.SIGSTOP)
    try:
        with pytest.raises(RotationNotConfirmed):
            rotate(registry, TASK, [new], load=load_fixed, timeout=1.5)
        pinned = registry.pins(TASK)
        assert pinned is not None
        assert pinned.versions == (old,)
        assert other.ask("state")["slots"][0]["versions"] == (old,)
    finally:
        os.kill(one.pid, signal.SIGCONT)
    rotate(registry, TASK, [new], load=load_fixed, timeout=20)
    assert [serving.ask("state")["slots"][0]["versions"] for serving in (one, other)] == [(new,), (new,)]
    assert one.end().failed == other.end().failed == []


@in_a_bucket
def test_a_process_that_starts_during_a_rotation_follows_it(place: Place, start_serving: StartServing) -> None:
    registry = place.open()
    versions = [place.make(label) for label in ("positive", "negative")]
    rotate(registry, TASK, versions[:1], load=load_fixed)
    starting = start_serving(place, threads=2, wait=False)
    ready = threading.Thread(target=starting.wait_until_ready)
    ready.start()
    rotated: list[tuple[int, str]] = []
    while ready.is_alive():
        version = versions[(len(rotated) + 1) % 2]
        rotate(registry, TASK, [version], load=load_fixed)
        rotated.append((time.monotonic_ns(), version))
    ready.join()
    outcome = starting.end()
    assert outcome.failed == []
    assert outcome.state["slots"][0]["versions"] == (rotated[-1][1],)
    assert {answer[2] for answer in outcome.answers if answer[0] > rotated[-1][0]} <= {rotated[-1][1]}


@in_a_folder
def test_a_version_that_is_corrupt_for_one_process_is_undone_for_all(place: Place, start_serving: StartServing) -> None:
    registry = place.open()
    old, new = place.make("positive"), place.make("negative")
    rotate(registry, TASK, [old], load=load_fixed)
    one, other = start_serving(place, cache="one"), start_serving(place, cache="other")
    registry.fetch(TASK, new)

    def load_and_then_corrupt(directory: Path) -> object:
        predictor = load_fixed(directory)
        place.corrupt(new)
        return predictor

    with pytest.raises(RotationRefused, match="SHA-256"):
        rotate(registry, TASK, [new], load=load_and_then_corrupt, timeout=20)  # type: ignore[arg-type]
    for serving in (one, other):
        state = serving.ask("state")
        assert state["slots"][0]["versions"] == (old,)
        outcome = serving.end()
        assert outcome.failed == []
        assert {answer[2] for answer in outcome.answers} == {old}


def test_an_unreachable_registry_stops_no_process(place: Place, start_serving: StartServing) -> None:
    registry = place.open()
    old, new = place.make("positive"), place.make("negative")
    rotate(registry, TASK, [old], load=load_fixed)
    serving = start_serving(place, threads=2)
    place.go_away()
    try:
        eventually(lambda: serving.ask("state")["registry_error"], "the error is reported", 30)
        asked = serving.ask("state")["answers"]
        eventually(lambda: serving.ask("state")["answers"] > asked + 20, "it goes on")
    finally:
        place.come_back()
    eventually(lambda: serving.ask("state")["registry_error"] is None, "all is well again", 30)
    rotate(registry, TASK, [new], load=load_fixed)
    outcome = serving.end()
    assert outcome.failed == []
    assert [answer[3] for answer in outcome.answers] == sorted((a[3] for a in outcome.answers), reverse=True)


def test_two_concurrent_rotations_end_with_one_winner_everywhere(place: Place, start_serving: StartServing) -> None:
    registry = place.open()
    base, *rivals = [place.make(note=str(number)) for number in range(3)]
    rotate(registry, TASK, [base], load=load_fixed)
    serving = start_serving(place)
    together = threading.Barrier(2)
    won: list[Pins] = []
    lost: list[PinsChanged] = []

    def run(version: str) -> None:
        mine = place.open()
        together.wait()
        try:
            won.append(rotate(mine, TASK, [version], load=load_fixed, timeout=20))
        except PinsChanged as error:
            lost.append(error)

    threads = [threading.Thread(target=run, args=(version,)) for version in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) + len(lost) == 2
    last = registry.pins(TASK)
    assert last in won, "the last winner stays"
    assert serving.ask("state")["slots"][0]["versions"] == (last.versions if last else ())
    assert rollback(registry, TASK, load=load_fixed).versions != (last.versions if last else ())
