import itertools
import threading
from pathlib import Path

from plugin.simulation.record import SimulationRecord
from templates import find_pack

PACK = find_pack("sentiment")


def test_a_recorded_meaning_survives_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    SimulationRecord(file, PACK).note_text("Oh great, rain.", "negative")
    SimulationRecord(file, PACK).note_work("A1", 70.04)

    again = SimulationRecord(file, PACK)
    assert again.reading("Oh great, rain.") == "negative"
    assert again.seconds == {"A1": 70.0}


def test_gold_questions_mean_what_the_seed_says(tmp_path: Path) -> None:
    notes = SimulationRecord(tmp_path / "notes.jsonl", PACK)
    assert all(notes.reading(row.fields["text"]) == row.label for row in PACK.seed[::50])


def test_an_unknown_sentence_means_what_the_most_similar_one_does(tmp_path: Path) -> None:
    notes = SimulationRecord(tmp_path / "notes.jsonl", PACK)
    notes.note_text("The zeppelin was ghastly beyond words.", "negative")
    assert notes.reading("the zeppelin was ghastly, beyond all words") == "negative"


def test_an_incomplete_last_line_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    SimulationRecord(file, PACK).note_text("Oh great, rain.", "negative")
    with file.open("a", encoding="utf-8") as notes:
        notes.write('{"text": "Oh gre')

    assert SimulationRecord(file, PACK).reading("Oh great, rain.") == "negative"


def test_threads_can_read_and_write_at_once(tmp_path: Path) -> None:
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
