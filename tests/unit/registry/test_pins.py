import itertools
import json

import pytest

from ml_backend.registry.errors import PinsMoved, RegistryError
from ml_backend.registry.pins import MOST_CHANGES, Book, Pins, Reason, check_pins, check_task, check_version

A, B, C = "ma00000000000", "mb00000000000", "mc00000000000"
tokens = itertools.count()


def changed(
    book: Book, *versions: str, round: int | None = None, after: int | None = None, repeats: int | None = None
) -> Book:
    reason = Reason("ann", "a test", "2027-03-01T12:00:00+00:00", f"token-{next(tokens)}")
    return book.changed(versions, round, after, repeats, reason)


def rolled_back(book: Book, round: int | None = None) -> Book:
    before = book.before(round)
    assert before is not None
    return changed(book, *before.versions, round=round, repeats=before.repeats or before.generation)


def test_a_task_without_pins_has_none() -> None:
    assert Book(task="nli").pins() is None
    assert Book(task="nli").pins(3) is None


def test_a_round_has_its_own_pins_or_else_the_current_ones() -> None:
    book = changed(changed(Book(task="nli"), A), B, C, round=2)
    assert book.pins() == Pins("nli", None, 1, (A,))
    assert book.pins(1) == Pins("nli", None, 1, (A,))
    assert book.pins(2) == Pins("nli", 2, 2, (B, C))
    assert book.all() == [Pins("nli", None, 1, (A,)), Pins("nli", 2, 2, (B, C))]
    assert changed(book, round=2).pins(2) == Pins("nli", None, 1, (A,)), "no versions: no pins of its own any more"


def test_pins_change_only_after_the_generation_that_was_seen() -> None:
    book = changed(Book(task="nli"), A, after=0)
    with pytest.raises(PinsMoved, match="ma00000000000"):
        changed(book, B, after=0)
    book = changed(book, B, after=1)
    with pytest.raises(PinsMoved):
        changed(book, C, after=1)
    with pytest.raises(PinsMoved):
        changed(book, C, round=5, after=1)
    assert changed(book, C, round=5, after=2).pins(5) == Pins("nli", 5, 3, (C,))


def test_another_rounds_change_is_in_nobodys_way() -> None:
    book = changed(changed(Book(task="nli"), A), B, round=1)
    assert changed(book, C, after=1).pins() == Pins("nli", None, 3, (C,))


def test_a_book_is_read_as_it_was_written() -> None:
    book = changed(changed(Book(task="nli"), A), B, C, round=2)
    assert Book.read(book.written(), "nli", "here") == book


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"format": 2, "task": "nli"}',
        b'{"task": "../nli"}',
        b'{"task": "nli", "slots": [{"round": null, "generation": 1, "versions": ["../../etc"]}]}',
        b'{"task": "nli", "slots": [{"round": 0, "generation": 1, "versions": ["ma00000000000"]}]}',
        b'{"task": "nli", "slots": [{"round": null, "generation": 1, "versions": []}]}',
        b'{"task": "nli", "more": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * 2_000_000,
        json.dumps({"task": "sentiment"}).encode(),
    ],
)
def test_a_spoiled_file_is_an_error_that_names_it(content: bytes) -> None:
    with pytest.raises(RegistryError, match=r"/models/nli/pins\.json"):
        Book.read(content, "nli", "/models/nli/pins.json")


def test_the_history_says_who_changed_what_and_why_and_stays_short() -> None:
    book = Book(task="nli")
    for number in range(MOST_CHANGES + 20):
        book = changed(book, A if number % 2 else B)
    assert len(book.history) == MOST_CHANGES
    last = book.history[-1]
    assert (last.generation, last.versions, last.who, last.why) == (MOST_CHANGES + 20, (A,), "ann", "a test")


def test_whatever_people_write_as_a_reason_can_be_kept() -> None:
    reason = Reason("ann", "\udcff" + "x" * 10_000, "2027-03-01T12:00:00+00:00", "token")
    book = Book(task="nli").changed([A], None, None, None, reason)
    assert Book.read(book.written(), "nli", "here").history[0].why == "?" + "x" * 499


def test_a_rollback_goes_back_and_the_next_one_further() -> None:
    book = changed(changed(changed(Book(task="nli"), A), B), C)
    book = rolled_back(book)
    assert book.pins() == Pins("nli", None, 4, (B,))
    book = rolled_back(book)
    assert book.pins() == Pins("nli", None, 5, (A,))
    assert book.before(None) is None


def test_what_was_undone_is_nothing_to_go_back_to() -> None:
    book = changed(changed(Book(task="nli"), A), B)
    book = changed(changed(book, C), B, repeats=2)
    before = book.before(None)
    assert before is not None
    assert before.versions == (A,)


def test_going_on_from_a_rollback_comes_back_to_it() -> None:
    book = rolled_back(changed(changed(Book(task="nli"), A), B))
    book = rolled_back(changed(book, C))
    assert book.pins() == Pins("nli", None, 5, (A,))
    assert book.before(None) is None, "and what comes before A is still nothing"


def test_every_round_is_rolled_back_for_itself() -> None:
    book = changed(changed(changed(Book(task="nli"), A), B, round=1), C)
    assert book.before(1) is None
    before = book.before(None)
    assert before is not None
    assert before.versions == (A,)


def test_a_change_is_found_again_by_its_token() -> None:
    book = changed(changed(Book(task="nli"), A), B, round=4)
    assert book.written_by(book.history[0].token) == Pins("nli", None, 1, (A,))
    assert book.written_by(book.history[1].token) == Pins("nli", 4, 2, (B,))
    assert book.written_by("another") is None


@pytest.mark.parametrize("task", ["", ".", "..", "Nli", "a/b", "a\n", "a" * 41])
def test_a_task_that_is_no_name_never_becomes_a_path(task: str) -> None:
    with pytest.raises(RegistryError):
        check_task(task)


@pytest.mark.parametrize("version", ["", "..", "m123", "ma00000000000/..", "ma00000000000\n", "MA00000000000"])
def test_a_version_that_is_no_name_never_becomes_a_path(version: str) -> None:
    with pytest.raises(RegistryError):
        check_version(version)


@pytest.mark.parametrize(("versions", "round"), [([A, A], None), ([f"m{n:012x}" for n in range(9)], None), ([A], 0)])
def test_pins_that_make_no_sense_are_refused(versions: list[str], round: int | None) -> None:
    with pytest.raises(RegistryError):
        check_pins(versions, round)
