"""Tries reach the far side: in batches, later when it is down, one by one when one is bad, and then they are gone."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ml_backend.serving.attempt_forwarder import REFUSED_FILE, AttemptForwarder
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.outbox import Outbox, read_state, waiting_files
from tests.fakes.registry import eventually
from tests.fakes.sink import FarSide
from tests.unit.ml_backend.serving.test_attempt_record import an_attempt


class World:
    """An outbox, a forwarder and the far side."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.far, self.counts = folder, FarSide(), list[tuple[str, int]]()

    def put(self, count: int) -> list[str]:
        outbox = Outbox(self.folder)
        tries = [an_attempt(f"Text {number}.") for number in range(count)]
        for one in tries:
            outbox.put(one)
        outbox.close()
        return [str(one.verdict.id) for one in tries]

    def forwarder(
        self, deliver: Callable[[Sequence[AttemptRecord]], None] | None = None, **settings: Any
    ) -> AttemptForwarder:
        options = {
            "on_count": lambda *one: self.counts.append(one),
            "first_wait": 0.01,
            "longest_wait": 0.02,
            **settings,
        }
        return AttemptForwarder(self.folder, deliver or self.far, **options)

    @property
    def waiting(self) -> int:
        return len(list(waiting_files(self.folder)))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "outbox")


def test_tries_arrive_in_their_order_and_in_batches_and_are_gone_then(world: World) -> None:
    ids = world.put(120)
    assert world.forwarder(batch=50).deliver_all()
    assert world.far.ids == ids
    assert world.far.calls == 3
    assert world.waiting == 0
    assert world.counts == [("delivered", 50), ("delivered", 50), ("delivered", 20)]


def test_several_files_are_delivered_the_oldest_first(world: World) -> None:
    first, second = world.put(3), world.put(2)
    assert world.forwarder().deliver_all()
    assert world.far.ids == first + second


def test_a_file_that_is_still_written_to_is_left_alone(world: World) -> None:
    outbox = Outbox(world.folder)
    outbox.put(an_attempt())
    assert world.forwarder().deliver_all()
    assert (world.far.ids, world.waiting) == ([], 1)
    outbox.close()


def test_while_the_far_side_is_down_nothing_is_lost_and_it_is_told(world: World) -> None:
    ids = world.put(30)
    world.far.down = True
    forwarder = world.forwarder()
    assert not forwarder.deliver_all()
    assert read_state(world.folder).error == "nobody is there"
    assert world.waiting == 1
    world.far.down = False
    assert forwarder.deliver_all()
    assert world.far.ids == ids
    assert read_state(world.folder).error is None


def test_the_far_side_is_asked_less_and_less_often_while_it_is_down(world: World) -> None:
    world.put(1)
    world.far.down = True
    ending = threading.Event()
    forwarder = world.forwarder(first_wait=0.05, longest_wait=30.0)
    thread = threading.Thread(target=forwarder.run, args=(lambda _seconds: ending.wait(0.001),))
    thread.start()
    world.far.wait_for_calls(4)
    time.sleep(0.2)
    assert world.far.calls < 8
    ending.set()
    thread.join(10)


def test_one_bad_try_does_not_keep_the_others(world: World) -> None:
    ids = world.put(6)
    world.far.disliked = {ids[2]}
    assert world.forwarder().deliver_all()
    assert world.far.ids == ids[:2] + ids[3:]
    aside = (world.folder / REFUSED_FILE).read_text(encoding="ascii").splitlines()
    assert [json.loads(line)["id"] for line in aside] == [ids[2]]
    assert (read_state(world.folder).refused, world.waiting) == (1, 0)


def test_what_it_was_at_when_it_died_comes_again(world: World) -> None:
    ids = world.put(4)
    arrived: list[str] = []

    class Killed(BaseException):
        """As a kill does, it passes everything."""

    def deliver(tries: Sequence[AttemptRecord]) -> None:
        arrived.extend(str(one.verdict.id) for one in tries)
        if len(arrived) == 2:
            raise Killed

    with pytest.raises(Killed):
        world.forwarder(deliver, batch=2).deliver_all()
    assert world.forwarder(batch=2).deliver_all()
    assert (arrived, world.far.ids) == (ids[:2], ids)


def test_at_its_end_it_delivers_once_more(world: World) -> None:
    forwarder = world.forwarder()
    begun, ending = threading.Event(), threading.Event()

    def wait(_seconds: float) -> bool:
        begun.set()
        return ending.wait(20)

    thread = threading.Thread(target=forwarder.run, args=(wait,))
    thread.start()
    assert begun.wait(20)
    ids = world.put(5)
    ending.set()
    thread.join(20)
    assert world.far.ids == ids


def test_a_torn_line_is_counted_and_does_not_stay(world: World) -> None:
    world.put(2)
    (path,) = waiting_files(world.folder)
    path.write_bytes(path.read_bytes()[:-9])
    assert world.forwarder().deliver_all()
    assert world.counts == [("delivered", 1), ("dropped", 1)]
    eventually(lambda: world.waiting == 0, "it is gone")
