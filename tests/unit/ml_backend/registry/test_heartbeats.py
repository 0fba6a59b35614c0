import os
import subprocess
import sys
from pathlib import Path

import pytest

from ml_backend.errors import RegistryCorrupt
from ml_backend.registry.heartbeats import FollowedPins, Heartbeat, PinFailure, ProcessIdentity


def heartbeat_of(process: ProcessIdentity, lease: float = 10.0) -> Heartbeat:
    served = FollowedPins(book="b", generation=4, failures=(PinFailure(round=2, error="does not load", retry=False),))
    return Heartbeat(
        id="one", host=process.host, pid=process.pid, started=process.started, lease=lease, tasks={"nli": served}
    )


def test_a_heartbeat_survives_a_round_trip_through_its_file() -> None:
    heartbeat = heartbeat_of(ProcessIdentity.this())
    read = Heartbeat.read(heartbeat.written(), "here")
    assert read == heartbeat
    failure = read.tasks["nli"].failure(2)
    assert failure is not None
    assert failure.error == "does not load"
    assert read.tasks["nli"].failure(None) is None


def test_unknown_fields_are_ignored() -> None:
    content = heartbeat_of(ProcessIdentity.this()).written().replace(b'{"id"', b'{"mood":"good","id"')
    assert Heartbeat.read(content, "here").id == "one"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"id": "../x"}', b" " * 200_000])
def test_a_corrupt_heartbeat_is_an_error_that_names_the_file(content: bytes) -> None:
    with pytest.raises(RegistryCorrupt, match="beats/one"):
        Heartbeat.read(content, "/models/.beats/one.json")


def test_a_process_of_this_host_counts_while_it_exists() -> None:
    assert not heartbeat_of(ProcessIdentity.this()).is_gone(age=1_000_000)


def test_a_killed_process_of_this_host_is_gone_even_as_a_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        this = ProcessIdentity.this()
        started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        heartbeat = heartbeat_of(ProcessIdentity(this.host, child.pid, started))
        assert not heartbeat.is_gone(age=0)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert heartbeat.is_gone(age=0), "it is a zombie until its parent waits for it"
    finally:
        child.kill()
        child.wait()
    assert heartbeat.is_gone(age=0)


def test_a_reused_pid_does_not_count() -> None:
    this = ProcessIdentity.this()
    assert heartbeat_of(ProcessIdentity(this.host, this.pid, "1")).is_gone(age=0)


def test_a_process_elsewhere_is_gone_after_its_lease() -> None:
    heartbeat = heartbeat_of(ProcessIdentity("elsewhere/pid:[1]", os.getpid(), "1"), lease=10)
    assert not heartbeat.is_gone(age=9.9)
    assert heartbeat.is_gone(age=10.1)
