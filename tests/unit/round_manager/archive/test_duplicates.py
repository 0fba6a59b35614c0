"""Exact and near duplicates are found, and nothing else is."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from round_manager.archive.duplicates import Duplicates, WrittenBatch, find_duplicates
from templates import find_pack

SENTENCES = [row.fields["text"] for row in find_pack("sentiment").seed]


@dataclass(frozen=True)
class Texts:
    """Texts in a list, each by another author."""

    texts: Sequence[str]
    contexts: Sequence[str] = ()
    batch: int = 100

    def batches(self) -> Iterator[WrittenBatch]:
        for first in range(0, len(self.texts), self.batch):
            places = range(first, min(first + self.batch, len(self.texts)))
            texts = [self.texts[place] for place in places]
            contexts = [self.contexts[place] if self.contexts else "" for place in places]
            contents = [hashlib.sha256(f"{c}/{t}".encode()).hexdigest() for c, t in zip(contexts, texts, strict=True)]
            ids, authors = [f"{place:04}" for place in places], [f"w{place}" for place in places]
            yield WrittenBatch(ids, authors, contents, pa.array(contexts), pa.array(texts))


def found_in(*texts: str, contexts: Sequence[str] = (), batch: int = 100) -> Duplicates:
    return find_duplicates(Texts(texts, contexts, batch))


def test_the_seeds_sentences_are_hardly_ever_duplicates() -> None:
    found = found_in(*SENTENCES)
    assert (found.exact, len(SENTENCES) > 1_000) == ({}, True)
    # A few of the seed's own sentences differ in one word only.
    assert len(found.near) < 10


def test_the_same_text_is_an_exact_duplicate_of_the_first() -> None:
    found = found_in(*SENTENCES[:50], SENTENCES[3], SENTENCES[3], batch=20)
    assert found.exact == {"0050": "0003", "0051": "0003"}
    assert found.authors["0050"] == "w50"


def test_case_punctuation_spacing_and_a_changed_word_make_a_near_duplicate() -> None:
    text = "The waiter brought us the wrong soup twice and never said that he was sorry about it."
    changed = (
        text.upper(),
        text.replace(" ", "  ").replace(".", "!!!"),
        text.replace("waiter", "waitress"),
        f"Well. {text}",
    )
    found = found_in(text, *SENTENCES[:30], *changed)
    assert found.near == {"0000": "0000", **{f"{place:04}": "0000" for place in (31, 32, 33, 34)}}
    assert found.near_groups == 1


def test_a_text_with_other_words_is_not_near() -> None:
    text = "The waiter brought us the wrong soup twice and never said that he was sorry about it."
    assert found_in(text, "The waiter brought us the right wine at once and said that he was proud of it.").near == {}


def test_the_same_sentence_for_another_context_is_not_a_duplicate() -> None:
    text = "Everybody in the room had heard about the storm before it came."
    assert found_in(text, text, contexts=["a premise", "another"]) == Duplicates()
    assert found_in(text, f"{text}!", contexts=["a premise", "a premise"]).near_groups == 1


def test_texts_shorter_than_a_run_and_empty_ones_are_compared_too() -> None:
    found = found_in("ok", "OK!", "no", "", "?")
    assert found.near == {"0000": "0000", "0001": "0000", "0003": "0003", "0004": "0003"}


def test_emoji_count_as_words() -> None:
    assert found_in("I love this 🙂🙂🙂🙂", "I love this 💀💀💀💀").near == {}


def test_the_batch_size_makes_no_difference() -> None:
    chance = random.Random(3)
    texts = [chance.choice(SENTENCES) + chance.choice(["", "!", " indeed"]) for _ in range(600)]
    assert found_in(*texts, batch=7) == found_in(*texts, batch=600)


def test_a_thousand_near_duplicates_are_all_found() -> None:
    text = "The waiter brought us the wrong soup twice and never said that he was sorry about it, number"
    found = found_in(*(f"{text} {number}" for number in range(1_000)))
    assert (len(found.near), found.near_groups) == (1_000, 1)
