import os
import subprocess
import sys
from pathlib import Path

import pytest

from ml_backend.registry.errors import RegistryCorrupt
from ml_backend.registry.heartbeats import FollowedPins, Heartbeat, PinFailure, ProcessIdentity


def beat_of(process: ProcessIdentity, lease: float = 10.0) -> Heartbeat:
    served = FollowedPins(book="b", generation=4, failures=(PinFailure(round=2, error="does not load", retry=False),))
    return Heartbeat(
        id="one", host=process.host, pid=process.pid, started=process.started, lease=lease, tasks={"nli": served}
    )


def test_a_beat_is_read_as_it_was_written() -> None:
    beat = beat_of(ProcessIdentity.this())
    read = Heartbeat.read(beat.written(), "here")
    assert read == beat
    failure = read.tasks["nli"].failure(2)
    assert failure is not None
    assert failure.error == "does not load"
    assert read.tasks["nli"].failure(None) is None


def test_what_a_newer_program_adds_is_passed_over() -> None:
    content = beat_of(ProcessIdentity.this()).written().replace(b'{"id"', b'{"mood":"good","id"')
    assert Heartbeat.read(content, "here").id == "one"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"id": "../x"}', b" " * 200_000])
def test_a_spoiled_beat_is_an_error_that_names_it(content: bytes) -> None:
    with pytest.raises(RegistryCorrupt, match="beats/one"):
        Heartbeat.read(content, "/models/.beats/one.json")


def test_a_process_of_this_host_counts_as_long_as_it_is_there() -> None:
    assert not beat_of(ProcessIdentity.this()).is_gone(age=1_000_000)


def test_a_process_of_this_host_that_was_killed_is_gone_at_once_even_before_its_parent_asks() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        this = ProcessIdentity.this()
        started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        beat = beat_of(ProcessIdentity(this.host, child.pid, started))
        assert not beat.is_gone(age=0)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert beat.is_gone(age=0), "nobody has waited for it yet: it is a zombie"
    finally:
        child.kill()
        child.wait()
    assert beat.is_gone(age=0)


def test_a_pid_that_another_process_was_given_does_not_count() -> None:
    this = ProcessIdentity.this()
    assert beat_of(ProcessIdentity(this.host, this.pid, "1")).is_gone(age=0)


def test_a_process_elsewhere_is_gone_when_it_was_silent_for_too_long() -> None:
    beat = beat_of(ProcessIdentity("elsewhere/pid:[1]", os.getpid(), "1"), lease=10)
    assert not beat.is_gone(age=9.9)
    assert beat.is_gone(age=10.1)
