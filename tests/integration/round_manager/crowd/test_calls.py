"""Only one process sends at a time, and a killed process does not block the others."""

import os
import signal
import subprocess
import sys
import threading

from round_manager.database.store import Store, process_lock
from tests.campaign import Campaign

HOLDER = """
import sys, time
from round_manager.database.store import open_store
from round_manager.database.store import process_lock
with open_store(sys.argv[1]) as store, process_lock(store, "till"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_waits_and_says_so(store: Store) -> None:
    told, entered = threading.Event(), threading.Event()

    def second() -> None:
        with process_lock(store, "till", told.set):
            entered.set()

    with process_lock(store, "till"):
        thread = threading.Thread(target=second)
        thread.start()
        assert told.wait(10)
        assert not entered.is_set()
    assert entered.wait(10)
    thread.join()


def test_locks_with_other_names_do_not_block(store: Store) -> None:
    with process_lock(store, "till"), process_lock(store, "attic"):
        pass


def test_a_killed_process_releases_its_lock(store: Store) -> None:
    url = store.engine.url.render_as_string(hide_password=False)
    with subprocess.Popen([sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "held"
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with process_lock(store, "till"):
        pass


def test_what_another_process_is_sending_is_not_looked_up_or_sent_again(campaign: Campaign) -> None:
    """A payment in flight looks like one that a dead process left behind."""
    (done,) = campaign.collected()
    campaign.give_bonus(done)
    sending, go_on = threading.Event(), threading.Event()
    really = campaign.crowd.bonus

    def slow(order: object) -> None:
        sending.set()
        assert go_on.wait(10)
        really(order)  # type: ignore[arg-type]

    campaign.crowd.bonus = slow  # type: ignore[method-assign]
    payer = threading.Thread(target=campaign.marketplace.payments.run)
    payer.start()
    assert sending.wait(10)
    looker = threading.Thread(target=campaign.marketplace.reconciler.run)
    looker.start()
    go_on.set()
    payer.join()
    looker.join()
    assert campaign.crowd_calls()["bonuses"] == 0
    assert campaign.crowd_calls()["bonus"] == 1
    campaign.check_ledger()
