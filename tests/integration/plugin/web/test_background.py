import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plugin.web.background import ReadingLoop
from round_manager.labelstudio.port import LabelStudioError
from tests.fakes.reader import FakeReader
from tests.fakes.registry import eventually

Start = Callable[..., ReadingLoop]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a loop that polls continuously, and stop it at the end of the test."""
    begun = []

    def start(reader: FakeReader, **options: Any) -> ReadingLoop:
        loop = ReadingLoop(reader, tmp_path, **{"every": 0, "gather": 0.0, "look": 0.01, **options})
        begun.append(loop)
        loop.start()
        return loop

    yield start
    for loop in begun:
        loop.stop(5)


def test_a_hint_triggers_an_early_read_of_its_task(start: Start) -> None:
    reader = FakeReader("sentiment", "nli")
    start(reader).hint("nli")
    reader.wait_for(1)
    assert reader.got == ["nli"]


def test_many_hints_in_a_row_cause_one_read(start: Start) -> None:
    reader = FakeReader()
    loop = start(reader, gather=0.3)
    for _ in range(50):
        loop.hint("sentiment")
    reader.wait_for(1)
    loop.hint("nli")
    reader.wait_for(2)
    assert reader.got == ["sentiment", "nli"]


def test_a_hint_during_a_read_causes_another_read(start: Start) -> None:
    reader = FakeReader()
    reader.hold = threading.Event()
    loop = start(reader)
    loop.hint("sentiment")
    reader.wait_for(1)
    loop.hint("sentiment")
    reader.hold.set()
    reader.wait_for(2)
    assert reader.got == ["sentiment", "sentiment"]


def test_every_task_is_read_regularly_without_a_hint(start: Start) -> None:
    reader = FakeReader("sentiment", "nli")
    start(reader, every=0.05)
    reader.wait_for(6)
    assert reader.got[:4] == ["sentiment", "nli", "sentiment", "nli"]


def test_a_failing_task_is_retried_and_does_not_block_the_others(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    outcomes: list[tuple[str, str]] = []
    reader = FakeReader("sentiment", "nli")
    reader.error = LabelStudioError("Label Studio does not answer")
    start(reader, every=0.03, count=lambda task, outcome: outcomes.append((task, outcome)))
    reader.wait_for(6)
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.__dict__["data"]["task"] for record in warned] == ["sentiment", "nli"], "said once, not each time"
    assert "does not answer" in warned[0].__dict__["data"]["error"]
    reader.error = None
    eventually(lambda: ("nli", "worked") in outcomes, "it works again")
    assert ("nli", "failed") in outcomes
    assert "Label Studio is read again" in caplog.text


def test_messages_of_foreign_errors_are_not_logged(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    reader = FakeReader()
    reader.error = RuntimeError("private words")
    start(reader).hint("sentiment")
    eventually(lambda: "Label Studio is not read" in caplog.text, "the error is logged")
    (record,) = caplog.records
    assert record.__dict__["data"]["error"] == "RuntimeError"


def test_of_two_processes_one_reads_and_the_other_takes_over(start: Start) -> None:
    first, second = FakeReader(), FakeReader()
    one = start(first, look=0.03)
    one.hint("sentiment")
    first.wait_for(1)
    # It polls far more often, and would otherwise be first each time.
    other = start(second, look=0.001)
    for count in range(2, 7):
        other.hint("sentiment")
        first.wait_for(count)
    assert second.got == []
    one.stop(5)
    other.hint("nli")
    second.wait_for(1)
    assert second.got == ["nli"]


def test_it_stops_between_two_tasks(start: Start) -> None:
    reader = FakeReader("sentiment", "nli")
    reader.hold = threading.Event()
    loop = start(reader, every=100)
    reader.wait_for(1)
    stopping = threading.Thread(target=loop.stop, args=(5,))
    stopping.start()
    eventually(lambda: loop._stopping.is_set(), "a stop was requested")
    reader.hold.set()
    stopping.join(5)
    assert reader.got == ["sentiment"]
