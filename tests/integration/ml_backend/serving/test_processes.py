"""Backends that are full, slow, killed, shut down, or cannot deliver."""

import os
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from templates import find_pack
from tests.fakes import calls
from tests.integration.ml_backend.serving.running import Answer, Running, running, wait_for

pytestmark = pytest.mark.xdist_group("serving-processes")

PACK = find_pack("sentiment")


def body(text: str = "It looks negative.", task: int = 17) -> dict[str, Any]:
    return calls.predict(PACK, calls.writes(PACK, text), task=task)


def send(backend: Running, threads: ThreadPoolExecutor, count: int) -> list[Future[Answer]]:
    return [threads.submit(backend.predict, "sentiment", body(f"Text {number}.", number)) for number in range(count)]


def in_queue(backend: Running) -> tuple[int, int]:
    queue = backend.status()["queue"]
    return queue["busy"], queue["waiting"]


def test_a_full_backend_refuses_more_and_answers_those_in_the_queue(tmp_path: Path) -> None:
    with running(tmp_path / "b", at_once=1, room=2) as backend, ThreadPoolExecutor(8) as threads:
        hold = backend.hold()
        inside = send(backend, threads, 3)
        wait_for(lambda: in_queue(backend) == (1, 2), "the line is full")
        sent_away = [one.result() for one in send(backend, threads, 4)]
        assert [one.status for one in sent_away] == [503] * 4
        for one in sent_away:
            assert int(one.headers["retry-after"]) >= 1
            assert one.json["code"] == "busy"
        assert backend.request("GET", "/health").status == 200
        hold.unlink()
        assert [one.result().status for one in inside] == [200] * 3
        assert backend.predict("sentiment", body()).status == 200


def test_a_request_that_waits_too_long_is_answered_in_time(tmp_path: Path) -> None:
    with running(tmp_path / "b", at_once=1, room=8, timeout=0.3) as backend, ThreadPoolExecutor(8) as threads:
        hold = backend.hold()
        first = send(backend, threads, 1)[0]
        wait_for(lambda: in_queue(backend) == (1, 0), "one is held")
        began = time.monotonic()
        late = backend.predict("sentiment", body())
        assert (late.status, time.monotonic() - began < 10) == (503, True)
        assert late.json["code"] == "answer_timeout"
        assert "retry-after" in late.headers
        hold.unlink()
        assert first.result().status == 200


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_shutdown_finishes_requests_and_delivers_every_attempt(tmp_path: Path, how: signal.Signals) -> None:
    with (
        running(tmp_path / "b", workers=2, at_once=2, room=8) as backend,
        ThreadPoolExecutor(8) as threads,
    ):
        hold, shared = backend.hold(), backend.shared_folder()
        inside = send(backend, threads, 4)
        wait_for(lambda: _in_progress(backend) == 4, "four are held")
        # As a terminal does: to every process of the group.
        os.killpg(backend.process.pid, how) if how == signal.SIGINT else backend.process.send_signal(how)
        wait_for(lambda: _refuses_connections(backend.port), "no new connections")
        hold.unlink()
        assert [one.result().status for one in inside] == [200] * 4
        assert backend.process.wait(60) == 0
        assert {one["fields"]["text"] for one in backend.delivered()} == {f"Text {number}." for number in range(4)}
        assert not shared.exists()
        assert not [one for one in backend.events() if one["level"] == "error"]


def test_a_killed_worker_is_replaced_while_the_other_continues(tmp_path: Path) -> None:
    with running(tmp_path / "b", workers=2) as backend:
        stop = threading.Event()
        good, bad = list[float](), list[tuple[float, str]]()

        def ask(number: int) -> None:
            while not stop.is_set():
                try:
                    answer = backend.predict("sentiment", body(task=number))
                except (OSError, HTTPException) as error:
                    bad.append((time.monotonic(), type(error).__name__))
                else:
                    (good if answer.status == 200 else bad).append((time.monotonic(), str(answer.status)))  # type: ignore[arg-type]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(good) > 50, "under load")
        victim, other = backend.workers()
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        count = len(good)
        wait_for(lambda: len(good) > count + 50, "the other goes on")
        wait_for(lambda: _replaced(backend.workers(), victim, other), "a new process")
        count = len(good)
        wait_for(lambda: len(good) > count + 50, "and on")
        stop.set()
        for thread in threads:
            thread.join(60)
        assert _replaced(backend.workers(), victim, other)
        # Only clients of the killed process can be affected.
        assert len(bad) <= len(threads)
        assert all(at - killed < 5 for at, _ in bad)
        wait_for(lambda: _in_progress(backend) == 0, "nothing is left in progress")


def _replaced(workers: list[int], victim: int, other: int) -> bool:
    # A killed process is listed until its parent has noticed.
    return len(workers) == 2 and other in workers and victim not in workers


def test_undelivered_attempts_are_delivered_by_the_next_process(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "down").touch()
    with running(folder) as backend:
        for number in range(6):
            assert backend.predict("sentiment", body(f"Text {number}.")).status == 200
        wait_for(lambda: bool(backend.status()["sink"]["error"]), "the error is reported")
        assert backend.status()["sink"]["waiting"] > 0
        assert backend.end() == 0
        assert backend.delivered() == []
    (folder / "down").unlink()
    with running(folder) as backend:
        wait_for(lambda: len(backend.delivered()) == 6, "replayed")
        assert [one["fields"]["text"] for one in backend.delivered()] == [f"Text {number}." for number in range(6)]
        wait_for(lambda: backend.status()["sink"]["waiting"] == 0, "none waits")


def test_attempts_of_a_killed_process_are_delivered(tmp_path: Path) -> None:
    with running(tmp_path / "b") as backend:
        answered = set()
        for number in range(5):
            (victim,) = wait_for(backend.workers, "a process")
            wait_for(lambda: _answers(backend), "it answers")
            assert backend.predict("sentiment", body(f"Text {number}.")).status == 200
            os.kill(victim, signal.SIGKILL)
            answered.add(f"Text {number}.")
            wait_for(lambda victim=victim: victim not in backend.workers(), "it is gone")  # type: ignore[misc]
        wait_for(lambda: {one["fields"]["text"] for one in backend.delivered()} == answered, "all handed on")


def test_a_killed_forwarder_is_replaced_and_delivers_the_rest(tmp_path: Path) -> None:
    with running(tmp_path / "b") as backend:
        (tmp_path / "b" / "down").touch()
        assert backend.predict("sentiment", body("Text 0.")).status == 200
        first = backend.forwarder()
        os.kill(first, signal.SIGKILL)
        (tmp_path / "b" / "down").unlink()
        wait_for(lambda: backend.forwarder() not in (0, first), "another one")
        wait_for(lambda: [one["fields"]["text"] for one in backend.delivered()] == ["Text 0."], "delivered")
        assert backend.predict("sentiment", body("Text 1.")).status == 200


def test_no_process_outlives_a_backend_that_was_killed(tmp_path: Path) -> None:
    with running(tmp_path / "b", workers=2) as backend:
        left = [*backend.workers(), backend.forwarder()]
        backend.process.kill()
        wait_for(lambda: not any(Path(f"/proc/{one}").exists() for one in left), "all ended")


def test_a_taken_port_is_an_error(tmp_path: Path) -> None:
    from ml_backend.serving.processes import Address, AddressUnavailable

    with Address("127.0.0.1", 0).listen() as taken, pytest.raises(AddressUnavailable):
        Address("127.0.0.1", taken.getsockname()[1]).listen()


def _in_progress(backend: Running) -> int:
    page = backend.request("GET", "/metrics").body.decode()
    return int(float(next(one.split()[1] for one in page.splitlines() if one.startswith("outfox_backend_in_prog"))))


def _answers(backend: Running) -> bool:
    try:
        return backend.request("GET", "/health").status == 200
    except OSError:
        return False


def _refuses_connections(port: int) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return True
    return False
