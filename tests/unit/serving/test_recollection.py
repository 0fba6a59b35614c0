"""The short memory for feedback: joined, counted, bounded, forgotten."""

from pathlib import Path

import pytest

from ml_backend.serving.notes import Notes, OwnNotes, SharedNotes
from ml_backend.serving.recollection import COUNTED_FOR, JOINED_FOR, MOST_CHARS, Recollection

KEY = ("qa", 14, 17)


@pytest.fixture(params=["own", "shared"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Notes:
    return OwnNotes(most=20) if request.param == "own" else SharedNotes(tmp_path, most=20)


def test_halves_are_joined_in_either_order(notes: Notes) -> None:
    memory = Recollection(notes)
    assert memory.join(KEY, {"question": "Who?"}, None, 0) == ({"question": "Who?"}, None)
    assert memory.join(KEY, {}, "Marie", 1) == ({"question": "Who?"}, "Marie")
    assert memory.join(KEY, {"question": "Where?"}, None, 2) == ({"question": "Where?"}, "Marie")


def test_old_halves_are_not_joined(notes: Notes) -> None:
    memory = Recollection(notes)
    memory.join(KEY, {"question": "Who?"}, None, 0)
    assert memory.join(KEY, {}, "Marie", JOINED_FOR + 1) == ({}, "Marie")


def test_very_long_halves_are_not_kept(notes: Notes) -> None:
    memory = Recollection(notes)
    text = "x" * (MOST_CHARS + 1)
    assert memory.join(KEY, {"question": text}, None, 0) == ({"question": text}, None)
    assert memory.join(KEY, {}, "Marie", 1) == ({}, "Marie")


def test_tries_are_counted_for_an_hour_of_silence(notes: Notes) -> None:
    memory = Recollection(notes)
    assert [memory.count(KEY, text, at) for at, text in enumerate("aabca")] == [1, 1, 2, 3, 4]
    assert memory.count(KEY, "a", COUNTED_FOR + 100) == 1


def test_joining_and_counting_do_not_disturb_each_other(notes: Notes) -> None:
    memory = Recollection(notes)
    memory.count(KEY, "a", 0)
    memory.join(KEY, {"question": "Who?"}, "Marie", 1)
    assert memory.count(KEY, "b", 2) == 2
    assert memory.join(KEY, {}, None, 3) == ({"question": "Who?"}, "Marie")


def test_what_one_process_noted_another_knows(tmp_path: Path) -> None:
    Recollection(SharedNotes(tmp_path)).join(KEY, {"question": "Who? \ud83d"}, None, 0)
    assert Recollection(SharedNotes(tmp_path)).join(KEY, {}, "Marie", 1) == ({"question": "Who? \ud83d"}, "Marie")


def test_own_notes_are_few() -> None:
    notes = OwnNotes(most=20)
    for number in range(50):
        notes.write(("qa", 1, number), {"tries": number})
    kept = [number for number in range(50) if notes.read(("qa", 1, number))]
    assert kept == list(range(30, 50))


def test_shared_notes_are_tidied_now_and_then(tmp_path: Path) -> None:
    notes = SharedNotes(tmp_path, most=20)
    for number in range(257):
        notes.write(("qa", 1, number), {"tries": number})
    assert len(list(tmp_path.iterdir())) == 20


def test_a_broken_note_and_a_folder_that_is_gone_are_no_note(tmp_path: Path) -> None:
    notes = SharedNotes(tmp_path / "folder")
    notes.write(KEY, {"tries": 1})
    assert notes.read(KEY) is None
    notes = SharedNotes(tmp_path)
    notes.write(KEY, {"tries": 1})
    next(tmp_path.iterdir()).write_text("{", encoding="ascii")
    assert notes.read(KEY) is None
