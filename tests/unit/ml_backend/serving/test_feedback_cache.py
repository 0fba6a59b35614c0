"""The feedback cache joins partial calls, counts attempts, is bounded and expires."""

from pathlib import Path

import pytest

from ml_backend.serving.feedback_cache import (
    COUNT_SECONDS,
    JOIN_SECONDS,
    MAX_CHARS,
    Cache,
    FeedbackCache,
    MemoryCache,
    SharedCache,
)

KEY = ("qa", 14, 17)


@pytest.fixture(params=["own", "shared"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Cache:
    return MemoryCache(max_entries=20) if request.param == "own" else SharedCache(tmp_path, max_entries=20)


def test_partial_calls_are_joined_in_either_order(notes: Cache) -> None:
    memory = FeedbackCache(notes)
    assert memory.join(KEY, {"question": "Who?"}, None, 0) == ({"question": "Who?"}, None)
    assert memory.join(KEY, {}, "Marie", 1) == ({"question": "Who?"}, "Marie")
    assert memory.join(KEY, {"question": "Where?"}, None, 2) == ({"question": "Where?"}, "Marie")


def test_old_partial_calls_are_not_joined(notes: Cache) -> None:
    memory = FeedbackCache(notes)
    memory.join(KEY, {"question": "Who?"}, None, 0)
    assert memory.join(KEY, {}, "Marie", JOIN_SECONDS + 1) == ({}, "Marie")


def test_very_long_texts_are_not_kept(notes: Cache) -> None:
    memory = FeedbackCache(notes)
    text = "x" * (MAX_CHARS + 1)
    assert memory.join(KEY, {"question": text}, None, 0) == ({"question": text}, None)
    assert memory.join(KEY, {}, "Marie", 1) == ({}, "Marie")


def test_the_count_restarts_after_an_hour_of_silence(notes: Cache) -> None:
    memory = FeedbackCache(notes)
    assert [memory.count(KEY, text, at) for at, text in enumerate("aabca")] == [1, 1, 2, 3, 4]
    assert memory.count(KEY, "a", COUNT_SECONDS + 100) == 1


def test_joining_and_counting_are_independent(notes: Cache) -> None:
    memory = FeedbackCache(notes)
    memory.count(KEY, "a", 0)
    memory.join(KEY, {"question": "Who?"}, "Marie", 1)
    assert memory.count(KEY, "b", 2) == 2
    assert memory.join(KEY, {}, None, 3) == ({"question": "Who?"}, "Marie")


def test_processes_share_the_cache(tmp_path: Path) -> None:
    FeedbackCache(SharedCache(tmp_path)).join(KEY, {"question": "Who? \ud83d"}, None, 0)
    assert FeedbackCache(SharedCache(tmp_path)).join(KEY, {}, "Marie", 1) == ({"question": "Who? \ud83d"}, "Marie")


def test_the_memory_cache_is_bounded() -> None:
    notes = MemoryCache(max_entries=20)
    for number in range(50):
        notes.write(("qa", 1, number), {"tries": number})
    kept = [number for number in range(50) if notes.read(("qa", 1, number))]
    assert kept == list(range(30, 50))


def test_the_shared_cache_removes_old_entries(tmp_path: Path) -> None:
    notes = SharedCache(tmp_path, max_entries=20)
    for number in range(257):
        notes.write(("qa", 1, number), {"tries": number})
    assert len(list(tmp_path.iterdir())) == 20


def test_a_corrupt_entry_or_a_missing_folder_is_a_miss(tmp_path: Path) -> None:
    notes = SharedCache(tmp_path / "folder")
    notes.write(KEY, {"tries": 1})
    assert notes.read(KEY) is None
    notes = SharedCache(tmp_path)
    notes.write(KEY, {"tries": 1})
    next(tmp_path.iterdir()).write_text("{", encoding="ascii")
    assert notes.read(KEY) is None
