"""Two processes at once: the web app's own sync and a command, or two commands."""

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from round_manager.labelstudio.sync import SyncResult
from round_manager.models import Example, LabelStudioAnnotation
from tests.unit.round_manager.labelstudio.conftest import Worlds


def both(action: Callable[[], SyncResult]) -> list[SyncResult]:
    """What each of two threads found."""
    found: list[SyncResult] = []
    threads = [threading.Thread(target=lambda: found.append(action())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


@pytest.mark.parametrize("count", [1, 6])
def test_two_syncs_at_once_read_everything_once(worlds: Worlds, count: int) -> None:
    world = worlds()
    for place, number in enumerate(world.tasks()[:count]):
        world.studio.annotate(number, world.written(f"text {place}"))
    meeting = threading.Barrier(2, timeout=1)

    def meet() -> None:
        with suppress(threading.BrokenBarrierError):
            meeting.wait()  # both judge the same annotation before either stores it

    world.judge.before = meet
    found = both(world.sync)
    assert len(found) == 2, "one of them failed"
    assert len(world.rows(Example)) == len(world.rows(LabelStudioAnnotation)) == count
    assert world.sync() == SyncResult()
    assert [one.problem for one in world.rows(LabelStudioAnnotation)] == [None] * count
