"""Edits of how a text is written: case, punctuation, spaces, contractions, emoji."""

import re

from ml_backend.perturbations.edit import Change, Draw, Edit, Text, in_each_text
from ml_backend.perturbations.typing_errors import LATIN

EVERY = 3
COMMA_RATE, SPACE_RATE, EMOJI_RATE = 0.15, 0.3, 0.1
SPACES = ("  ", "\t", "\u00a0")
# Things of an office, chosen because they express neither a feeling nor a group of people.
NEUTRAL_EMOJI = ("📎", "📌", "🗂", "📐", "🧮", "🪑", "🧷", "🗄")
# Question and exclamation marks stay: they carry meaning.
_DROPPED_MARK = re.compile(r"(?<=\w)[,;:.](?=\s|$)")
_LAST_MARK = re.compile(r"(?<=\w)\.(?=\s*$)")
_SPACE = re.compile(r"(?<=\S) (?=\S)")
# Without those of "not", which bears the label, and without 's and 'd, which have several long forms.
CONTRACTIONS = (
    ("I am", "I'm"), ("you are", "you're"), ("we are", "we're"), ("they are", "they're"), ("I have", "I've"),
    ("you have", "you've"), ("we have", "we've"), ("they have", "they've"), ("I will", "I'll"), ("you will", "you'll"),
    ("he will", "he'll"), ("she will", "she'll"), ("it will", "it'll"), ("we will", "we'll"), ("they will", "they'll"),
    ("could have", "could've"), ("should have", "should've"), ("would have", "would've"),
)  # fmt: skip
_SHORT = {long.lower(): short for long, short in CONTRACTIONS}
_LONG = {short.lower(): long for long, short in CONTRACTIONS}
_CONTRACTION = re.compile(
    r"(?<![\w'\u2019])(?:"
    + "|".join([*_SHORT, *_LONG]).replace(" ", "[ ]").replace("'", "['\u2019]")
    + r")(?![\w'\u2019])",
    re.I,
)


def _lower(text: Text, _: Draw) -> list[Change]:
    changed = [(start, end, text.content[start:end].lower()) for start, end in text.words()]
    return _same_letters(text, changed)


def _upper(text: Text, draw: Draw) -> list[Change]:
    words = text.cased_words(2)[draw.below(EVERY) :: EVERY] or text.cased_words(2)[:1]
    return _same_letters(text, [(start, end, text.content[start:end].upper()) for start, end in words])


def _same_letters(text: Text, changed: list[tuple[int, int, str]]) -> list[Change]:
    """Return the changes that only change case: a few letters become others (long s, dotless i)."""
    return [
        Change(start, end, new)
        for start, end, new in changed
        if new != text.content[start:end] and _is_case(text.content[start:end], new)
    ]


def _is_case(before: str, after: str) -> bool:
    return before.casefold() == after.casefold()


def _less_punctuation(text: Text, _: Draw) -> list[Change]:
    found = [match.span() for match in _DROPPED_MARK.finditer(text.content)]
    return [Change(start, end, "") for start, end in found if text.is_free(start, end)]


def _more_punctuation(text: Text, draw: Draw) -> list[Change]:
    ends = [end for _, end in text.words(3) if text.content[end : end + 1] == " "]
    commas = [Change(end, end, ",") for end in draw.share(ends, COMMA_RATE)]
    last = _LAST_MARK.search(text.content)
    return [*commas, *([Change(last.end(), last.end(), "..")] if last and text.is_free(*last.span()) else [])]


def _spaces(text: Text, draw: Draw) -> list[Change]:
    found = [match.span() for match in _SPACE.finditer(text.content) if text.is_free(*match.span())]
    return [Change(start, end, draw.choice(SPACES)) for start, end in draw.share(found, SPACE_RATE)]


def _contractions(text: Text, _: Draw) -> list[Change]:
    return [
        Change(match.start(), match.end(), _other_form(match.group()))
        for match in _CONTRACTION.finditer(text.content)
        if text.is_free(*match.span())
    ]


def _other_form(found: str) -> str:
    key = found.replace("\u2019", "'").lower()
    other = _SHORT.get(key) or _LONG[key]
    if found[0].islower() and not other.startswith("I"):
        return other
    return other.upper() if found.isupper() and len(key) > len("i'm") else other[0].upper() + other[1:]


def _is_contraction(before: str, after: str) -> bool:
    return _CONTRACTION.fullmatch(before) is not None and _other_form(before) == after


def _emoji(text: Text, draw: Draw) -> list[Change]:
    ends = [end for _, end in text.words() if text.content[end : end + 1] in ("", " ")]
    return [Change(end, end, f" {draw.choice(NEUTRAL_EMOJI)}") for end in draw.share(ends, EMOJI_RATE)]


EDITS = (
    Edit(
        "lower_case", "robustness", "Writes everything in lower case.", "The case of letters.",
        in_each_text(_lower), _is_case, languages=LATIN,
    ),
    Edit(
        "upper_case", "robustness", "Writes every third word in capitals.", "The case of letters.",
        in_each_text(_upper), _is_case, languages=LATIN, kinds=("classification",),
    ),
    Edit(
        "less_punctuation", "robustness", "Leaves out commas, semicolons, colons and full stops after words.",
        "`,` `;` `:` and `.` after a word and before a space or the end are removed; `?` and `!` stay.",
        in_each_text(_less_punctuation), lambda before, after: before in (",", ";", ":", ".") and not after,
    ),
    Edit(
        "more_punctuation", "robustness", "Adds a comma after one of seven words, and ends with three full stops.",
        "Commas are inserted after words, and two full stops after the last one.",
        in_each_text(_more_punctuation), lambda before, after: not before and after in (",", ".."),
    ),
    Edit(
        "whitespace", "robustness", "Writes a third of the spaces as two spaces, a tab or a no-break space.",
        "Single spaces between words; nothing else.",
        in_each_text(_spaces), lambda before, after: before == " " and after in SPACES,
    ),
    Edit(
        "contractions", "robustness", "Contracts what is written out, and writes out what is contracted.",
        "Fixed pairs such as `I am` and `I'm`. Contractions of `not` stay, because they bear the label.",
        in_each_text(_contractions), _is_contraction, languages=("en",),
    ),
    Edit(
        "emoji", "robustness", "Adds an emoji of an office thing after one of ten words.",
        "A space and an emoji are inserted after words; emoji in the text stay.",
        in_each_text(_emoji), lambda before, after: not before and after[:1] == " " and after[1:] in NEUTRAL_EMOJI,
    ),
)  # fmt: skip
