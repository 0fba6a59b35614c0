import itertools
import threading
from pathlib import Path

from plugin.simulation.record import SimulationRecord
from templates import find_pack

PACK = find_pack("sentiment")


def test_what_was_written_is_read_as_it_was_meant_also_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    SimulationRecord(file, PACK).note_text("Oh great, rain.", "negative")
    SimulationRecord(file, PACK).note_work("A1", 70.04)

    again = SimulationRecord(file, PACK)
    assert again.reading("Oh great, rain.") == "negative"
    assert again.seconds == {"A1": 70.0}


def test_gold_is_read_as_the_seed_says(tmp_path: Path) -> None:
    notes = SimulationRecord(tmp_path / "notes.jsonl", PACK)
    assert all(notes.reading(row.fields["text"]) == row.label for row in PACK.seed[::50])


def test_a_sentence_that_nobody_here_wrote_is_read_like_the_most_similar_one(tmp_path: Path) -> None:
    notes = SimulationRecord(tmp_path / "notes.jsonl", PACK)
    notes.note_text("The zeppelin was ghastly beyond words.", "negative")
    assert notes.reading("the zeppelin was ghastly, beyond all words") == "negative"


def test_a_line_that_was_cut_off_by_a_kill_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    SimulationRecord(file, PACK).note_text("Oh great, rain.", "negative")
    with file.open("a", encoding="utf-8") as notes:
        notes.write('{"text": "Oh gre')

    assert SimulationRecord(file, PACK).reading("Oh great, rain.") == "negative"


def test_people_who_write_while_others_read_do_not_disturb_them(tmp_path: Path) -> None:
    notes, over = SimulationRecord(tmp_path / "notes.jsonl", PACK), threading.Event()

    def write() -> None:
        for number in itertools.count():
            if over.is_set():
                return
            notes.note_text(f"Rain for the {number}th day, how lovely.", "negative")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            assert notes.reading("Rain for yet another day, how lovely.")
    finally:
        over.set()
        writer.join()
