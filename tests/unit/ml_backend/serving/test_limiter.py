"""The limiter admits a few at a time, in order of arrival, and loses none."""

import threading
import time

import pytest

from ml_backend.errors import AnswerTimeout, Busy
from ml_backend.serving.limiter import ConcurrencyLimiter, LimiterLoad

SOON = 20.0


def later(seconds: float = SOON) -> float:
    return time.monotonic() + seconds


def wait_until(limiter: ConcurrencyLimiter, waiting: int) -> None:
    end = later()
    while limiter.load().waiting != waiting:
        assert time.monotonic() < end, f"{limiter.load()} never had {waiting} waiting"
        time.sleep(0.001)


class Waiter(threading.Thread):
    """Takes a slot, records when, and releases it on request."""

    def __init__(
        self, limiter: ConcurrencyLimiter, order: list[int], number: int, deadline: float | None = None
    ) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.refused: Busy | None = None
        self._gate, self._order, self._number, self._deadline = limiter, order, number, deadline or later()
        self.start()

    def run(self) -> None:
        try:
            with self._gate.slot(self._deadline):
                self._order.append(self._number)
                assert self.let_go.wait(SOON)
        except Busy as error:
            self.refused = error


def test_no_more_than_the_limit_run_at_a_time() -> None:
    limiter, lock, worst, now = ConcurrencyLimiter(at_once=3, room=100), threading.Lock(), 0, 0

    def work() -> None:
        nonlocal worst, now
        for _ in range(200):
            with limiter.slot(later()):
                with lock:
                    now += 1
                    worst = max(worst, now)
                with lock:
                    now -= 1

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive(), "a wake-up was lost"
    assert 1 <= worst <= 3
    assert limiter.load() == LimiterLoad(0, 3, 0, 100)


def test_slots_are_given_in_order_of_arrival() -> None:
    limiter, order = ConcurrencyLimiter(at_once=1, room=10), list[int]()
    first = Waiter(limiter, order, 0)
    while not order:
        time.sleep(0.001)
    waiters = [first]
    for number in range(1, 6):
        waiters.append(Waiter(limiter, order, number))
        wait_until(limiter, number)
    for waiter in waiters:
        waiter.let_go.set()
    for waiter in waiters:
        waiter.join(SOON)
    assert order == [0, 1, 2, 3, 4, 5]


def test_a_full_queue_refuses_at_once_and_says_when_to_retry() -> None:
    limiter, order = ConcurrencyLimiter(at_once=1, room=1), list[int]()
    waiters = [Waiter(limiter, order, 0)]
    while not order:
        time.sleep(0.001)
    waiters.append(Waiter(limiter, order, 1))
    wait_until(limiter, 1)
    began = time.monotonic()
    with pytest.raises(Busy) as caught, limiter.slot(later()):
        pass
    assert time.monotonic() - began < 5
    assert caught.value.retry
    assert caught.value.after >= 1
    for waiter in waiters:
        waiter.let_go.set()
        waiter.join(SOON)
    assert order == [0, 1]


def test_a_request_that_times_out_leaves_the_queue() -> None:
    limiter, order = ConcurrencyLimiter(at_once=1, room=10), list[int]()
    first = Waiter(limiter, order, 0)
    while not order:
        time.sleep(0.001)
    hurried = Waiter(limiter, order, 1, deadline=later(0.05))
    # On a busy machine it may have given up before this thread sees it waiting.
    while hurried.is_alive() and not limiter.load().waiting:
        time.sleep(0.001)
    patient = Waiter(limiter, order, 2)
    hurried.join(SOON)
    assert hurried.refused is not None
    assert isinstance(hurried.refused, AnswerTimeout)
    for waiter in (first, patient):
        waiter.let_go.set()
        waiter.join(SOON)
    assert order == [0, 2]
    assert limiter.load().busy == limiter.load().waiting == 0


def test_timeouts_lose_no_slots() -> None:
    limiter = ConcurrencyLimiter(at_once=2, room=64)
    done, refused = [0] * 12, [0] * 12

    def work(number: int) -> None:
        for step in range(150):
            try:
                with limiter.slot(time.monotonic() + 0.0005 * ((number + step) % 4)):
                    time.sleep(0.0002)
                    done[number] += 1
            except Busy:
                refused[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert sum(done) + sum(refused) == 12 * 150
    assert limiter.load() == LimiterLoad(0, 2, 0, 64)
    with limiter.slot(later()), limiter.slot(later()):
        assert limiter.load().busy == 2


def test_a_failed_request_releases_its_slot() -> None:
    limiter = ConcurrencyLimiter(at_once=1, room=0)
    with pytest.raises(ValueError, match="broken"), limiter.slot(later()):
        raise ValueError("broken")
    assert limiter.load().busy == 0
