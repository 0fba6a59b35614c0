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


class ForwarderSetup:
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
def setup(tmp_path: Path) -> ForwarderSetup:
    return ForwarderSetup(tmp_path / "outbox")


def test_attempts_are_delivered_in_order_and_in_batches_and_then_removed(setup: ForwarderSetup) -> None:
    ids = setup.put(120)
    assert setup.forwarder(batch=50).deliver_all()
    assert setup.receiver.ids == ids
    assert setup.receiver.calls == 3
    assert setup.waiting == 0
    assert setup.counts == [("delivered", 50), ("delivered", 50), ("delivered", 20)]


def test_files_are_delivered_oldest_first(setup: ForwarderSetup) -> None:
    first, second = setup.put(3), setup.put(2)
    assert setup.forwarder().deliver_all()
    assert setup.receiver.ids == first + second


def test_an_open_file_is_left_alone(setup: ForwarderSetup) -> None:
    outbox = Outbox(setup.folder)
    outbox.put(an_attempt())
    assert setup.forwarder().deliver_all()
    assert (setup.receiver.ids, setup.waiting) == ([], 1)
    outbox.close()


def test_while_the_receiver_is_down_attempts_are_kept_and_the_error_reported(setup: ForwarderSetup) -> None:
    ids = setup.put(30)
    setup.receiver.down = True
    forwarder = setup.forwarder()
    assert not forwarder.deliver_all()
    assert read_state(setup.folder).error == "connection refused"
    assert setup.waiting == 1
    setup.receiver.down = False
    assert forwarder.deliver_all()
    assert setup.receiver.ids == ids
    assert read_state(setup.folder).error is None


def test_delivery_backs_off_while_the_receiver_is_down(setup: ForwarderSetup) -> None:
    setup.put(1)
    setup.receiver.down = True
    ending = threading.Event()
    forwarder = setup.forwarder(first_wait=0.05, longest_wait=30.0)
    thread = threading.Thread(target=forwarder.run, args=(lambda _seconds: ending.wait(0.001),))
    thread.start()
    setup.receiver.wait_for_calls(4)
    time.sleep(0.2)
    assert setup.receiver.calls < 8
    ending.set()
    thread.join(10)


def test_one_refused_attempt_does_not_hold_up_the_others(setup: ForwarderSetup) -> None:
    ids = setup.put(6)
    setup.receiver.disliked = {ids[2]}
    assert setup.forwarder().deliver_all()
    assert setup.receiver.ids == ids[:2] + ids[3:]
    aside = (setup.folder / REFUSED_FILE).read_text(encoding="ascii").splitlines()
    assert [json.loads(line)["id"] for line in aside] == [ids[2]]
    assert (read_state(setup.folder).refused, setup.waiting) == (1, 0)


def test_a_delivery_that_was_interrupted_is_repeated(setup: ForwarderSetup) -> None:
    ids = setup.put(4)
    arrived: list[str] = []

    class Killed(BaseException):
        """Like a kill, it is not caught."""

    def deliver(attempts: Sequence[AttemptRecord]) -> None:
        arrived.extend(str(one.verdict.id) for one in attempts)
        if len(arrived) == 2:
            raise Killed

    with pytest.raises(Killed):
        setup.forwarder(deliver, batch=2).deliver_all()
    assert setup.forwarder(batch=2).deliver_all()
    assert (arrived, setup.receiver.ids) == (ids[:2], ids)


def test_it_delivers_a_last_time_when_it_ends(setup: ForwarderSetup) -> None:
    forwarder = setup.forwarder()
    begun, ending = threading.Event(), threading.Event()

    def wait(_seconds: float) -> bool:
        begun.set()
        return ending.wait(20)

    thread = threading.Thread(target=forwarder.run, args=(wait,))
    thread.start()
    assert begun.wait(20)
    ids = setup.put(5)
    ending.set()
    thread.join(20)
    assert setup.receiver.ids == ids


def test_a_partial_line_is_counted_and_removed(setup: ForwarderSetup) -> None:
    setup.put(2)
    (path,) = waiting_files(setup.folder)
    path.write_bytes(path.read_bytes()[:-9])
    assert setup.forwarder().deliver_all()
    assert setup.counts == [("delivered", 1), ("dropped", 1)]
    eventually(lambda: setup.waiting == 0, "it is gone")
