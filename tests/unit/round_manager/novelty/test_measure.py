"""The measure ignores case, punctuation and spacing, and its keys find similar texts."""

import time
from random import Random

import pytest

from round_manager.novelty.measure import (
    MeasuredText,
    measured_examples,
    measured_texts,
    normal_keys,
    normal_text,
    shingles,
)
from templates import find_pack

WORDS = ("anvil", "barley", "copper", "dahlia", "ember", "fathom", "gravel", "harbour", "island", "juniper", "kettle")


def measured(text: str, context: str | None = None) -> MeasuredText:
    (found,) = measured_texts([text], [context])
    return found


VARIANTS = {
    "punctuation": "A cold, slice...!",
    "case and spacing": " a  COLD slice",
    "wide letters": "\uff21 cold slice",
    "punctuation within words": "A c-o-l-d s.l.i.c.e",
    "no spacing": "Acoldslice",
    "invisible characters": "A co\u200bld sl\u00adi\ufe0fce\u2800",
    "letters that look alike": "\u0410 c\u043eld sli\u0441\u0435",
    "digits and signs for letters": "A c0ld $l1ce",
}


@pytest.mark.parametrize("other", VARIANTS.values(), ids=VARIANTS)
def test_variants_of_a_text_are_the_same(other: str) -> None:
    assert measured(other) == measured("A cold slice.")


@pytest.mark.parametrize("sign", ["a", "1", "a1", "1 ", "é"])
def test_the_time_for_a_text_grows_with_its_length_only(sign: str) -> None:
    # If each character cost more in a longer text, this would take hours.
    assert len(normal_text(sign * 200_000)) > len(normal_text(sign * 100_000))


def test_numbers_stay_different() -> None:
    for one, other in (("It cost 30 euros", "It cost 40 euros"), ("A 5 km walk", "A 7 km walk"), ("mp3", "mp4")):
        assert measured(one).text != measured(other).text
    assert measured("It cost 10 $").text == "itcost10"


@pytest.mark.parametrize(
    "other", ["Th\u00e9 cr\u00fcst w\u00e4s b\u00fcrnt", "T\u0336h\u0336e cr\u0308u\u0302s\u030ct was burnt"]
)
def test_accents_make_no_new_text_in_english_only(other: str) -> None:
    spec = find_pack("sentiment").spec
    german = spec.model_copy(update={"languages": ("de",)})
    rows = [{"text": text} for text in ("The crust was burnt", other)]
    one, same = measured_examples(spec, rows)
    assert one == same
    one, same = measured_examples(german, rows)
    assert one != same


def test_texts_in_other_scripts_stay_different() -> None:
    assert measured("Хлеб был холодным").text != measured("Хлеб был холодный").text
    assert measured("कि") != measured("की")


@pytest.mark.parametrize(("one", "other"), [("!!", "?"), ("", " "), ("no", "nope"), ("🙂", "🙁")])
def test_short_texts_are_near_only_if_they_are_the_same(one: str, other: str) -> None:
    assert measured(one).is_near(measured(other).text, 0.5) is (one.strip() == other.strip())


def test_texts_on_different_contexts_share_no_key() -> None:
    one, other = measured("A cold slice of bread", "On Monday"), measured("A cold slice of bread", "On Friday")
    assert not set(one.keys) & set(other.keys)
    assert one.bare_key == other.bare_key


def test_a_stored_text_gives_its_keys_again() -> None:
    one = measured("The crust was burnt, ÜBERALL 🙂.", "On Monday")
    assert normal_keys(one.text, one.context) == list(one.keys)


def test_the_keys_find_nearly_all_similar_texts() -> None:
    chance = Random(7)
    found = total = 0
    for _ in range(300):
        words = chance.choices(WORDS, k=20)
        one = measured(" ".join(words))
        words[chance.randrange(20)] = chance.choice(WORDS)
        other = measured(" ".join(words))
        if one.is_near(other.text, 0.8):
            total += 1
            found += bool(set(one.keys) & set(other.keys))
    assert total > 50
    assert found / total > 0.97


def test_what_the_author_wrote_is_measured_and_not_what_was_shown() -> None:
    spec = find_pack("nli").spec
    fields = [{"premise": premise, "hypothesis": "He walked home"} for premise in ("It rained.", "It snowed.")]
    one, other = measured_examples(spec, fields)
    assert (one.text, one.context == other.context) == (other.text, False)
    assert len(shingles(one.text)) == len("hewalkedhome") - 6


@pytest.mark.parametrize(
    "text", ["x" * 400_000, "1" * 400_000, "x1" * 200_000, "e\u0301" * 200_000], ids=lambda text: text[:2]
)
def test_a_huge_word_takes_linear_time(text: str) -> None:
    began = time.thread_time()
    normal_text(text, accents=False)
    # Quadratic time would be minutes.
    assert time.thread_time() - began < 5
