"""Edits of letters: typing errors, OCR errors, look-alike and invisible characters, split words."""

from collections.abc import Callable, Sequence
from functools import cache, partial

from ml_backend.perturbations.edit import Change, Draw, Edit, Span, Text, in_each_text

# Languages in Latin script whose letters have one upper and one lower case (Turkish has two letters i).
LATIN = (
    "cs", "da", "de", "en", "es", "et", "fi", "fr", "hr", "hu", "id", "it", "lt", "lv", "nl", "no", "pl", "pt", "ro",
    "sk", "sl", "sv",
)  # fmt: skip
TYPO_RATE = 0.2
SPLIT_RATE = 0.15
KEYBOARDS = {
    "en": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    "de": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm"),
    "es": ("qwertyuiop", "asdfghjklñ", "zxcvbnm"),
}
OCR_PAIRS = (
    ("l", "1"), ("i", "1"), ("I", "l"), ("o", "0"), ("O", "0"), ("S", "5"), ("s", "5"), ("B", "8"), ("g", "9"),
    ("Z", "2"), ("e", "c"), ("c", "e"), ("h", "b"), ("m", "rn"), ("rn", "m"), ("d", "cl"), ("cl", "d"), ("w", "vv"),
    ("u", "ii"), ("n", "ri"),
)  # fmt: skip
LOOK_ALIKES = dict(
    zip("aceijopsxyABCEHIJKMOPSTX", "асеіјорѕхуАВСЕНІЈКМОРЅТХ", strict=True)  # noqa: RUF001 - Cyrillic on purpose
)
# Zero-width space, word joiner, zero-width no-break space.
ZERO_WIDTH = "\u200b\u2060\ufeff"


@cache
def neighbours(language: str) -> dict[str, str]:
    """Return for each letter of a keyboard the letters next to it, in its row and in the rows above and below."""
    rows = KEYBOARDS[language]
    found: dict[str, str] = {}
    for number, row in enumerate(rows):
        for place, letter in enumerate(row):
            same = row[max(0, place - 1) : place] + row[place + 1 : place + 2]
            above = rows[number - 1][place : place + 2] if number else ""
            below = rows[number + 1][max(0, place - 1) : place + 1] if number + 1 < len(rows) else ""
            found[letter] = same + above + below
    return found


def _keyboard(text: Text, draw: Draw) -> list[Change]:
    keys = neighbours(text.language)

    def change(start: int, end: int) -> Change | None:
        places = [place for place in range(start + 1, end) if text.content[place].lower() in keys]
        if not places:
            return None
        place = draw.choice(places)
        letter = text.content[place]
        new = draw.choice(keys[letter.lower()])
        return Change(place, place + 1, new.upper() if letter.isupper() else new)

    return _in_words(text.cased_words(4), draw, TYPO_RATE, change)


def _is_next_key(before: str, after: str) -> bool:
    return any(after.lower() in neighbours(one).get(before.lower(), "") for one in KEYBOARDS) and len(after) == 1


def _swap(text: Text, draw: Draw) -> list[Change]:
    def change(start: int, end: int) -> Change | None:
        content = text.content
        places = [place for place in range(start + 1, end - 2) if content[place] != content[place + 1]]
        if not places:
            return None
        place = draw.choice(places)
        return Change(place, place + 2, content[place + 1] + content[place])

    return _in_words(text.cased_words(5), draw, TYPO_RATE, change)


def _drop(text: Text, draw: Draw) -> list[Change]:
    def change(start: int, end: int) -> Change:
        place = start + 1 + draw.below(end - start - 2)
        return Change(place, place + 1, "")

    return _in_words(text.cased_words(5), draw, TYPO_RATE, change)


def _ocr(text: Text, draw: Draw) -> list[Change]:
    def change(start: int, end: int) -> Change | None:
        fits = [
            Change(place, place + len(before), after)
            for place in range(start, end)
            for before, after in OCR_PAIRS
            if text.content.startswith(before, place, end)
        ]
        return draw.choice(fits) if fits else None

    return _in_words(text.cased_words(4), draw, TYPO_RATE, change)


def _look_alike(text: Text, draw: Draw) -> list[Change]:
    return [
        Change(place, place + 1, LOOK_ALIKES[text.content[place]])
        for start, end in draw.share(text.cased_words(), TYPO_RATE)
        for place in range(start, end)
        if text.content[place] in LOOK_ALIKES
    ]


def _inserted(inserted: str, letters: int, rate: float, text: Text, draw: Draw) -> list[Change]:
    def change(start: int, end: int) -> Change:
        place = start + 2 + draw.below(end - start - 3)
        return Change(place, place, draw.choice(inserted))

    return _in_words(text.cased_words(letters), draw, rate, change)


def _in_words(
    words: Sequence[Span], draw: Draw, rate: float, change: Callable[[int, int], Change | None]
) -> list[Change]:
    """Return one change in each word of this share; words in which nothing can change are passed over."""
    found = [change(start, end) for start, end in draw.share(words, rate)]
    return [one for one in found if one is not None]


EDITS = (
    Edit(
        "typo_keyboard", "robustness", "Hits the key next to the right one, once in every fifth word.",
        "One letter, not the first, in words of four letters or more becomes a letter next to it on the keyboard.",
        in_each_text(_keyboard), _is_next_key, languages=tuple(KEYBOARDS),
    ),
    Edit(
        "typo_swap", "robustness", "Swaps two neighbouring letters in every fifth word.",
        "Two inner letters of words of five letters or more; first and last letters stay.",
        in_each_text(_swap), lambda before, after: len(before) == len("ab") and before[::-1] == after,
    ),
    Edit(
        "typo_drop", "robustness", "Leaves out a letter in every fifth word.",
        "One inner letter of words of five letters or more; first and last letters stay.",
        in_each_text(_drop), lambda before, after: len(before) == 1 and before.isalpha() and not after,
    ),
    Edit(
        "ocr", "robustness", "Misreads a letter in every fifth word, as text recognition does (l as 1, rn as m).",
        "One or two letters of words of four letters or more; only the confusions of a fixed table.",
        in_each_text(_ocr), lambda before, after: (before, after) in OCR_PAIRS, languages=LATIN,
    ),
    Edit(
        "look_alike", "robustness", "Writes every fifth word with Cyrillic letters that look like the Latin ones.",
        "Letters become one letter each that looks the same.",
        in_each_text(_look_alike), lambda before, after: LOOK_ALIKES.get(before) == after, languages=LATIN,
    ),
    Edit(
        "zero_width", "robustness", "Puts an invisible character into every fifth word.",
        "Zero-width characters are inserted inside words of four letters or more; no visible character changes.",
        in_each_text(partial(_inserted, ZERO_WIDTH, 4, TYPO_RATE)),
        lambda before, after: not before and len(after) == 1 and after in ZERO_WIDTH,
    ),
    Edit(
        "split_words", "robustness", "Splits one of seven words in two.",
        "Spaces are inserted inside words of six letters or more.",
        in_each_text(partial(_inserted, " ", 6, SPLIT_RATE)), lambda before, after: (before, after) == ("", " "),
    ),
)  # fmt: skip
