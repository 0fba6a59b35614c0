"""Every attempt is on disk before its verdict is answered, and the forwarder can take it soon after."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.outbox import OPEN, SEALED, Outbox, is_free, read_attempts, read_state, waiting_files
from tests.fakes.registry import eventually
from tests.unit.ml_backend.serving.test_attempt_record import an_attempt


def some(count: int) -> list[AttemptRecord]:
    return [an_attempt(f"Text {number}.") for number in range(count)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


@pytest.fixture
def outbox(folder: Path) -> Iterator[Outbox]:
    made = Outbox(folder, seal_after=600)
    yield made
    made.close()


def lying(folder: Path) -> list[AttemptRecord]:
    return [attempt for path in waiting_files(folder) for attempt in read_attempts(path)[0]]


def test_an_attempt_is_on_disk_before_put_returns(outbox: Outbox, folder: Path) -> None:
    for number, one in enumerate(some(3), start=1):
        outbox.put(one)
        assert len(lying(folder)) == number
        assert lying(folder)[-1] == one


def test_the_forwarder_may_take_sealed_files_only(outbox: Outbox, folder: Path) -> None:
    first, second = some(2)
    outbox.put(first)
    (path,) = waiting_files(folder)
    assert (path.suffix, is_free(path)) == (OPEN, False)
    outbox.seal()
    outbox.put(second)
    sealed, path = waiting_files(folder)
    assert (sealed.suffix, is_free(sealed), is_free(path)) == (SEALED, True, False)
    assert read_attempts(sealed) == ([first], 0)


def test_files_are_sealed_at_intervals(folder: Path) -> None:
    outbox = Outbox(folder, seal_after=0.01)
    outbox.start()
    outbox.put(an_attempt())
    eventually(lambda: [path for path in waiting_files(folder) if path.suffix == SEALED], "it is sealed")
    outbox.close()


def test_the_forwarder_may_take_the_file_of_a_dead_process(folder: Path) -> None:
    child = os.fork()
    if child == 0:
        Outbox(folder).put(an_attempt())
        os._exit(0)  # as a kill would end it
    os.waitpid(child, 0)
    (path,) = waiting_files(folder)
    assert (path.suffix, is_free(path), len(read_attempts(path)[0])) == (OPEN, True, 1)


def test_a_file_is_locked_before_the_forwarder_can_see_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []
    flock, rename = fcntl.flock, Path.rename

    def look() -> None:
        seen.extend((path.suffix, is_free(path)) for path in waiting_files(folder))

    def lock(file: Any, how: int) -> None:
        monkeypatch.undo()
        look()
        flock(file, how)
        monkeypatch.setattr(Path, "rename", move)

    def move(path: Path, target: Path) -> Path:
        monkeypatch.undo()
        look()
        return rename(path, target)

    monkeypatch.setattr(fcntl, "flock", lock)
    outbox = Outbox(folder)
    outbox.put(an_attempt())
    look()
    assert seen == [(OPEN, False)], "nothing is to be seen until it is locked"
    outbox.close()


def test_a_partial_last_line_is_skipped_and_counted(outbox: Outbox, folder: Path) -> None:
    for one in some(3):
        outbox.put(one)
    outbox.seal()
    (path,) = waiting_files(folder)
    path.write_bytes(path.read_bytes()[:-40])
    attempts, torn = read_attempts(path)
    assert (len(attempts), torn) == (2, 1)


def test_a_closed_outbox_drops_attempts_and_counts_them(outbox: Outbox, folder: Path) -> None:
    counts: list[tuple[str, int]] = []
    outbox = Outbox(folder, on_count=lambda *one: counts.append(one))
    outbox.put(an_attempt())
    outbox.close()
    outbox.put(an_attempt())
    assert len(lying(folder)) == 1
    assert (outbox.state().dropped, counts) == (1, [("dropped", 1)])


def test_while_the_disk_is_full_attempts_wait_in_memory_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def full(file: int, content: Any) -> int:
        # A disk that is nearly full writes only a part.
        write(file, content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    outbox = Outbox(folder, capacity=4)
    attempts = some(6)
    outbox.put(attempts[0])
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, content: write(file, content[:10]))
        for one in attempts[1:3]:
            outbox.put(one)
        patched.setattr(os, "write", full)
        outbox.put(attempts[3])
    assert json.loads(next(waiting_files(folder)).read_bytes().splitlines()[0])["id"] == str(attempts[0].verdict.id)
    outbox.put(attempts[4])
    outbox.close()
    assert [one for one in lying(folder) if one in attempts] == attempts[:5]


def test_the_memory_queue_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "outbox").write_text("a file where the folder should be")
    outbox = Outbox(tmp_path / "outbox", capacity=3)
    for one in some(5):
        outbox.put(one)
    assert (outbox.state().waiting, outbox.state().dropped) == (3, 2)


def test_an_unreadable_state_file_is_ignored(folder: Path) -> None:
    folder.mkdir()
    assert read_state(folder).delivered == 0
    (folder / "courier.json").write_text("{")
    assert read_state(folder).error is None
