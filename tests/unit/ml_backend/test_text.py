import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_backend.text import align, normalise

# Everything, and often what meets in emoji, accents and attempts to hide a word.
texts = st.text(
    st.one_of(
        st.characters(), st.sampled_from("a 1#é\u200d\ufe0f\u20e3👩👍🏽🇺🇸❤e\u0301\u0323\u1100\u1161\u11a8\u200b\n")
    )
)


plain_texts = st.text(
    st.one_of(
        st.characters(max_codepoint=0x24F), st.sampled_from(" \n\t\u00a0\u2013\u2014\u2018\u2019\u201c\u201d\u2026")
    )
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("  two\t words \n", "two words"),
        ("I ❤️ it", "I red heart it"),
        ("great👍🏽!", "great thumbs up medium skin tone !"),
        ("👩‍👩‍👧", "family woman woman girl"),
        ("from 🇺🇸", "from United States"),
        ("Ame\u0301lie", "Amélie"),
        ("h\u200bid\u00adden\u202e", "hidden"),
        ("ha\u200cte", "hate"),
        ("a\x00b\x07c", "abc"),
        ("\ud800lone", "lone"),
        ("क्\u200dष", "क्\u200dष"),
        ("", ""),
        ("\u200b", ""),
    ],
)
def test_text_is_normalised_with_emoji_as_words(given: str, expected: str) -> None:
    assert normalise(given) == expected


@given(texts)
def test_normalised_text_is_unchanged(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)
    once.encode("utf-8")


@given(texts)
def test_both_ways_to_normalise_agree_and_every_character_has_a_place(text: str) -> None:
    aligned = align(text)
    assert aligned.text == normalise(text)
    assert len(aligned.starts) == len(aligned.ends) == len(aligned.text)
    assert list(aligned.starts) == sorted(aligned.starts)
    assert all(0 <= start <= end <= len(text) for start, end in zip(aligned.starts, aligned.ends, strict=True))
    for place, char in enumerate(aligned.text):
        if char in text and char.isascii() and char.isalnum():
            start, end = aligned.original(place, place + 1)
            assert start < end


@pytest.mark.parametrize(
    ("passage", "piece", "original"),
    [
        ("Fans sent 🎉🎉 to  Zoe\u0308 Kay.", "Zoë Kay", "Zoe\u0308 Kay"),
        ("Her favourite is 🍕, he said.", "pizza", "🍕"),
        ("Her favourite is 🍕, he said.", "is pizza", "is 🍕"),
        ("It cost\u200b £5  only", "£5 only", "£5  only"),
        ("hid\u200bden word", "hidden", "hid\u200bden"),
    ],
)
def test_a_range_of_normalised_text_maps_back_to_the_original(passage: str, piece: str, original: str) -> None:
    aligned = align(passage)
    begin = aligned.text.index(piece)
    start, end = aligned.original(begin, begin + len(piece))
    assert passage[start:end] == original


@given(plain_texts)
def test_the_fast_path_for_plain_text_gives_the_same_result(text: str) -> None:
    short = normalise(text), align(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ml_backend.text._PLAIN", re.compile("(?!)"))
        long = align(text)
    assert short[0] == short[1].text == long.text
    assert (list(short[1].starts), list(short[1].ends)) == (list(long.starts), list(long.ends))
