"""Attempts are delivered in batches, retried with backoff, one by one if one is refused, and then removed."""

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
from tests.fakes.sink import Receiver
from tests.unit.ml_backend.serving.test_attempt_record import an_attempt


class World:
    """An outbox, a forwarder and the receiver."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.receiver, self.counts = folder, Receiver(), list[tuple[str, int]]()

    def put(self, count: int) -> list[str]:
        outbox = Outbox(self.folder)
        attempts = [an_attempt(f"Text {number}.") for number in range(count)]
        for one in attempts:
            outbox.put(one)
        outbox.close()
        return [str(one.verdict.id) for one in attempts]

    def forwarder(
        self, deliver: Callable[[Sequence[AttemptRecord]], None] | None = None, **settings: Any
    ) -> AttemptForwarder:
        options = {
            "on_count": lambda *one: self.counts.append(one),
            "first_wait": 0.01,
            "longest_wait": 0.02,
            **settings,
        }
        return AttemptForwarder(self.folder, deliver or self.receiver, **options)

    @property
    def waiting(self) -> int:
        return len(list(waiting_files(self.folder)))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "outbox")


def test_attempts_are_delivered_in_order_and_in_batches_and_then_removed(world: World) -> None:
    ids = world.put(120)
    assert world.forwarder(batch=50).deliver_all()
    assert world.receiver.ids == ids
    assert world.receiver.calls == 3
    assert world.waiting == 0
    assert world.counts == [("delivered", 50), ("delivered", 50), ("delivered", 20)]


def test_files_are_delivered_oldest_first(world: World) -> None:
    first, second = world.put(3), world.put(2)
    assert world.forwarder().deliver_all()
    assert world.receiver.ids == first + second


def test_an_open_file_is_left_alone(world: World) -> None:
    outbox = Outbox(world.folder)
    outbox.put(an_attempt())
    assert world.forwarder().deliver_all()
    assert (world.receiver.ids, world.waiting) == ([], 1)
    outbox.close()


def test_while_the_receiver_is_down_attempts_are_kept_and_the_error_reported(world: World) -> None:
    ids = world.put(30)
    world.receiver.down = True
    forwarder = world.forwarder()
    assert not forwarder.deliver_all()
    assert read_state(world.folder).error == "connection refused"
    assert world.waiting == 1
    world.receiver.down = False
    assert forwarder.deliver_all()
    assert world.receiver.ids == ids
    assert read_state(world.folder).error is None


def test_delivery_backs_off_while_the_receiver_is_down(world: World) -> None:
    world.put(1)
    world.receiver.down = True
    ending = threading.Event()
    forwarder = world.forwarder(first_wait=0.05, longest_wait=30.0)
    thread = threading.Thread(target=forwarder.run, args=(lambda _seconds: ending.wait(0.001),))
    thread.start()
    world.receiver.wait_for_calls(4)
    time.sleep(0.2)
    assert world.receiver.calls < 8
    ending.set()
    thread.join(10)


def test_one_refused_attempt_does_not_hold_up_the_others(world: World) -> None:
    ids = world.put(6)
    world.receiver.disliked = {ids[2]}
    assert world.forwarder().deliver_all()
    assert world.receiver.ids == ids[:2] + ids[3:]
    aside = (world.folder / REFUSED_FILE).read_text(encoding="ascii").splitlines()
    assert [json.loads(line)["id"] for line in aside] == [ids[2]]
    assert (read_state(world.folder).refused, world.waiting) == (1, 0)


def test_a_delivery_that_was_interrupted_is_repeated(world: World) -> None:
    ids = world.put(4)
    arrived: list[str] = []

    class Killed(BaseException):
        """Like a kill, it is not caught."""

    def deliver(attempts: Sequence[AttemptRecord]) -> None:
        arrived.extend(str(one.verdict.id) for one in attempts)
        if len(arrived) == 2:
            raise Killed

    with pytest.raises(Killed):
        world.forwarder(deliver, batch=2).deliver_all()
    assert world.forwarder(batch=2).deliver_all()
    assert (arrived, world.receiver.ids) == (ids[:2], ids)


def test_it_delivers_a_last_time_when_it_ends(world: World) -> None:
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
    assert world.receiver.ids == ids


def test_a_partial_line_is_counted_and_removed(world: World) -> None:
    world.put(2)
    (path,) = waiting_files(world.folder)
    path.write_bytes(path.read_bytes()[:-9])
    assert world.forwarder().deliver_all()
    assert world.counts == [("delivered", 1), ("dropped", 1)]
    eventually(lambda: world.waiting == 0, "it is gone")
