import itertools
import threading
from pathlib import Path

from plugin.simulation.sentences import PATTERNS, PLAIN, THINGS, Draft, SimulationRecord, thing_of, write
from plugin.simulation.worker import SimulatedProfile, make_profiles
from templates import find_pack

PACK = find_pack("sentiment")
PROMPTS = [context.fields["prompt"] for context in PACK.contexts]
LABELS = PACK.spec.label_names
LONGEST = PACK.spec.with_role("input")[0].max_chars


def _draft(person: SimulatedProfile, prompt: str, target: str, attempt: int = 1, *, honest: bool = True) -> Draft:
    return write(prompt, target, person.rng(prompt, target, attempt), skill=person.skill, honest=honest)


def _all_of(people: int, *, honest: bool = True) -> list[tuple[str, Draft]]:
    crowd = make_profiles(people, "seed")
    return [
        (label, _draft(one, prompt, label, honest=honest)) for one in crowd for prompt in PROMPTS for label in LABELS
    ]


def test_the_same_seed_gives_the_same_people_and_sentences() -> None:
    assert make_profiles(20, "a") == make_profiles(20, "a") != make_profiles(20, "b")
    first, again = (_draft(make_profiles(3, "a")[2], PROMPTS[0], "negative") for _ in range(2))
    assert first == again


def test_honest_workers_write_the_requested_meaning_and_dishonest_ones_never_do() -> None:
    assert all(draft.reading == label for label, draft in _all_of(3))
    assert all(draft.reading != label for label, draft in _all_of(3, honest=False))


def test_every_sentence_is_whole_and_fits_its_field() -> None:
    for _, draft in _all_of(5):
        assert "{" not in draft.text
        assert 10 < len(draft.text) <= LONGEST
        assert " a a" not in draft.text
        assert " a e" not in draft.text


def test_skill_decides_how_often_a_sentence_is_a_hard_one() -> None:
    (person,) = make_profiles(1, "seed")

    def hard(skill: float) -> int:
        drafts = [write(prompt, "negative", person.rng(prompt), skill=skill) for prompt in PROMPTS]
        return sum(draft.device not in (PLAIN, "typo") for draft in drafts)

    assert hard(0.0) == 0
    assert hard(1.0) == len(PROMPTS)
    assert 0 < hard(0.5) < len(PROMPTS)


def test_every_label_has_plain_and_several_hard_patterns() -> None:
    for label in LABELS:
        devices = {one.device for one in PATTERNS if one.label == label}
        assert PLAIN in devices
        assert len(devices) >= 5


def test_sentences_are_about_what_the_prompt_is_about() -> None:
    assert thing_of("My curry was so salty that I had to leave half of it on the plate.") == "curry"
    assert thing_of("Nothing that anybody has a word for.") == "place"
    assert {thing_of(prompt) for prompt in PROMPTS} == set(THINGS.values())


def test_a_crowd_writes_few_sentences_twice() -> None:
    texts = [draft.text for _, draft in _all_of(10)]
    assert len(set(texts)) > 0.85 * len(texts)


def test_some_of_a_crowd_are_dishonest_and_most_are_not() -> None:
    crowd = make_profiles(20, "seed")
    assert 2 <= sum(not one.honest for one in crowd) <= 5
    assert all(one.honest for one in crowd[:3])


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
