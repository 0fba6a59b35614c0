"""Tries reach the far side: in batches, later when it is down, from disk when the process died, one by one when bad."""

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ml_backend.serving import spill as spilling
from ml_backend.serving.sink import REFUSED_FILE, BufferedSink
from ml_backend.serving.spill import SpillFile, new_file, orphans
from ml_backend.serving.tried import Tried
from tests.fakes.sink import FarSide
from tests.unit.serving.test_tried import a_try

MUCH = 10_000_000


class Sinks:
    """Makes sinks that are quick to try again, and ends them with the test."""

    def __init__(self, folder: Path, far: FarSide) -> None:
        self.folder, self.far, self.told = folder, far, list[tuple[str, int]]()
        self._made: list[BufferedSink] = []

    def make(self, **settings: Any) -> BufferedSink:
        quick = {"linger": 0.001, "first_wait": 0.01, "longest_wait": 0.02, "folder": self.folder}
        settings = {"deliver": self.far, "told": lambda *one: self.told.append(one), **quick, **settings}
        sink = BufferedSink(**settings)
        sink.start()
        self._made.append(sink)
        return sink

    def end(self) -> None:
        for sink in self._made:
            sink.close(0.1)


@pytest.fixture
def sinks(tmp_path: Path) -> Iterator[Sinks]:
    made = Sinks(tmp_path / "tries", FarSide())
    yield made
    made.end()


def some(count: int) -> tuple[list[Tried], list[str]]:
    tries = [a_try(f"Text {number}.") for number in range(count)]
    return tries, [str(one.verdict.id) for one in tries]


def wait_for(condition: Any, what: str) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.002)


def test_tries_arrive_in_their_order_and_in_batches(sinks: Sinks) -> None:
    sink = sinks.make(batch=50, linger=0.05)
    tries, ids = some(120)
    for one in tries:
        sink.put(one)
    sinks.far.wait_for(120)
    assert sinks.far.ids == ids
    assert sinks.far.got == tries
    assert sinks.far.calls <= 5
    wait_for(lambda: sink.state().delivered == 120, "counted")
    wait_for(lambda: sink.state().waiting == 0, "none waits")


def test_a_try_is_on_disk_before_put_returns(sinks: Sinks) -> None:
    sinks.far.down = True
    sink = sinks.make(linger=60.0)
    tries, ids = some(3)
    for one in tries:
        sink.put(one)
        (file,) = sinks.folder.glob("tries-*")
        assert json.loads(file.read_text(encoding="ascii").splitlines()[-1])["id"] == str(one.verdict.id)
    assert sink.state().waiting == len(ids)


def test_while_the_far_side_is_down_tries_wait_on_disk_and_arrive_when_it_is_back(sinks: Sinks) -> None:
    sinks.far.down = True
    sink = sinks.make()
    tries, ids = some(30)
    for one in tries:
        sink.put(one)
    wait_for(lambda: sink.state().error == "nobody is there", "told")
    assert sink.state().waiting == 30
    sinks.far.down = False
    sinks.far.wait_for(30)
    assert sinks.far.ids == ids
    wait_for(lambda: sink.state().waiting == 0, "the disk is empty again")
    assert sink.state().error is None


def test_the_far_side_is_asked_less_and_less_often_while_it_is_down(sinks: Sinks) -> None:
    sinks.far.down = True
    sink = sinks.make(first_wait=0.05, longest_wait=30.0)
    tries, _ = some(200)
    for one in tries:
        sink.put(one)
        time.sleep(0.001)
    assert sink.state().waiting == 200
    assert 0 < sinks.far.calls < 10


def test_what_a_dead_process_left_on_disk_is_delivered_by_the_next(sinks: Sinks) -> None:
    tries, ids = some(7)
    sinks.folder.mkdir()
    left = new_file(sinks.folder, MUCH)
    assert left.append(tries)
    left.close()
    sinks.make()
    sinks.far.wait_for(7)
    assert sinks.far.ids == ids
    wait_for(lambda: next(sinks.folder.glob("*")).stat().st_size == 0, "the file is empty")


def test_the_file_of_a_living_process_is_left_alone(sinks: Sinks) -> None:
    sinks.folder.mkdir()
    theirs = new_file(sinks.folder, MUCH)
    theirs.append(some(3)[0])
    assert orphans(sinks.folder, MUCH) == []
    sink = sinks.make()
    sink.put(a_try())
    sinks.far.wait_for(1)
    assert len(sinks.far.ids) == 1
    theirs.close()


def test_closing_delivers_what_still_waits(sinks: Sinks) -> None:
    sink = sinks.make(linger=5.0)
    tries, ids = some(250)
    for one in tries:
        sink.put(one)
    began = time.monotonic()
    sink.close(10.0)
    assert time.monotonic() - began < 4
    assert sinks.far.ids == ids
    sink.put(a_try())
    assert sink.state().dropped == 1
    assert not any(sinks.folder.glob("tries-*"))


def test_closing_while_the_far_side_is_down_leaves_everything_on_disk(sinks: Sinks) -> None:
    sinks.far.down = True
    sink = sinks.make(linger=5.0)
    tries, ids = some(5)
    for one in tries:
        sink.put(one)
    sink.close(10.0)
    assert sinks.far.ids == []
    sinks.far.down = False
    sinks.make()
    sinks.far.wait_for(5)
    assert sinks.far.ids == ids


def test_closing_does_not_wait_for_a_delivery_that_hangs(sinks: Sinks) -> None:
    hanging, leave = threading.Event(), threading.Event()

    def hang(_tries: Sequence[Tried]) -> None:
        hanging.set()
        leave.wait(30)

    sink = sinks.make(deliver=hang)
    tries, ids = some(4)
    sink.put(tries[0])
    assert hanging.wait(20)
    for one in tries[1:]:
        sink.put(one)
    began = time.monotonic()
    sink.close(0.05)
    assert time.monotonic() - began < 10
    (left,) = orphans(sinks.folder, MUCH)
    assert [str(one.verdict.id) for one in left.peek(10)[0]] == ids
    left.close()
    leave.set()


def test_one_bad_try_does_not_keep_the_others(sinks: Sinks) -> None:
    tries, ids = some(6)
    sinks.far.disliked = {ids[2]}
    sink = sinks.make(linger=0.05)
    for one in tries:
        sink.put(one)
    sinks.far.wait_for(5)
    assert sinks.far.ids == ids[:2] + ids[3:]
    wait_for(lambda: sink.state().refused == 1, "refused")
    aside = (sinks.folder / REFUSED_FILE).read_text(encoding="ascii").splitlines()
    assert [json.loads(line)["id"] for line in aside] == [ids[2]]


def test_without_a_folder_tries_wait_in_memory_and_no_more_than_fit(sinks: Sinks) -> None:
    sinks.far.down = True
    sink = sinks.make(folder=None, capacity=10)
    tries, ids = some(15)
    for one in tries:
        sink.put(one)
    wait_for(lambda: sinks.far.calls >= 2, "tried again")
    assert (sink.state().dropped, sink.state().waiting) == (5, 10)
    sinks.far.down = False
    sinks.far.wait_for(10)
    assert set(sinks.far.ids) <= set(ids)
    assert ("dropped", 1) in sinks.told


def test_a_full_disk_leaves_tries_in_memory(sinks: Sinks, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int, _lines: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    sinks.far.down = True
    sink = sinks.make()
    tries, ids = some(5)
    for one in tries:
        sink.put(one)
    sinks.far.wait_for_calls(3)
    assert sink.state().waiting == 5
    assert not any(file.stat().st_size for file in sinks.folder.glob("tries-*"))
    sinks.far.down = False
    sinks.far.wait_for(5)
    assert sinks.far.ids == ids


def test_a_spill_file_takes_no_more_than_it_may(tmp_path: Path) -> None:
    file = new_file(tmp_path, 2_000)
    tries, _ = some(20)
    assert file.append(tries[:2])
    assert not file.append(tries)
    assert len(file.peek(100)[0]) == 2
    file.close()


def test_half_a_line_at_the_end_of_a_file_is_left_out_and_counted(tmp_path: Path) -> None:
    file = new_file(tmp_path, MUCH)
    file.append(some(3)[0])
    file.close()
    (path,) = tmp_path.glob("*")
    path.write_bytes(path.read_bytes()[:-40])
    (left,) = orphans(tmp_path, MUCH)
    tries, torn = left.peek(100)
    assert (len(tries), torn) == (2, 1)
    left.advance()
    assert left.empty
    left.close()
    assert not any(tmp_path.glob("*"))


def test_a_file_is_read_piece_by_piece_whatever_the_size_of_a_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, ids = some(9)
    file = new_file(tmp_path, MUCH)
    file.append(tries)
    size = len(json.dumps(tries[0].to_json()))
    for read in (size + 2, size * 3, 10_000_000):
        monkeypatch.setattr(spilling, "_READ_BYTES", read)
        found: list[str] = []
        again = SpillFile.__new__(SpillFile)
        again.__dict__.update(file.__dict__, _done=0, _seen=0)
        while again._done < again._size():
            some_more, torn = again.peek(4)
            assert torn == 0
            found += [str(one.verdict.id) for one in some_more]
            again._done = again._seen
        assert found == ids
    file.close()


def test_putting_never_waits_for_the_far_side(sinks: Sinks) -> None:
    leave = threading.Event()
    sink = sinks.make(deliver=lambda _tries: leave.wait(30) and None)
    tries, _ = some(100)
    began = time.monotonic()
    for one in tries:
        sink.put(one)
    assert time.monotonic() - began < 2
    leave.set()
