import threading
from concurrent.futures import ThreadPoolExecutor

from common.locks import FairLock


def test_threads_get_the_lock_in_the_order_in_which_they_came() -> None:
    lock, order = FairLock(), list[int]()
    lock.acquire()

    def use(number: int) -> None:
        lock.acquire()
        order.append(number)
        lock.release()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(20)]
    for number, thread in enumerate(threads):
        thread.start()
        while len(lock._waiting) <= number:
            pass
    lock.release()
    for thread in threads:
        thread.join()
    assert order == list(range(20))


def test_one_thread_at_a_time_holds_it() -> None:
    lock, holders, most = FairLock(), 0, 0

    def use(_number: int) -> None:
        nonlocal holders, most
        for _ in range(50):
            lock.acquire()
            holders += 1
            most = max(most, holders)
            holders -= 1
            lock.release()

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(use, range(16)))
    assert most == 1
    assert lock.acquire(0)


def test_a_thread_that_gives_up_leaves_the_queue() -> None:
    lock = FairLock()
    lock.acquire()
    assert not lock.acquire(0.01)
    lock.release()
    assert lock.acquire(0)
    lock.release()
    assert lock.acquire(0)
