"""Edits of fairness: other names, and words of the other gender."""

import re
from collections.abc import Callable, Mapping

from ml_backend.perturbations.edit import Change, Draw, Edit, Text
from ml_backend.perturbations.word_lists import GENDERED, MEN, NAMES, WOMEN

# Takes the group and the side of a name; returns the side and the groups of its replacement.
_Choice = Callable[[str, str], tuple[str, list[str]]]
# The group and the side of each name.
_PLACE = {name: (group, side) for group, sides in NAMES.items() for side, names in sides.items() for name in names}
_NAME = re.compile(rf"(?<![\w'\u2019-])(?:{'|'.join(sorted(_PLACE))})(?![\w-])")
_CAPITALISED_AFTER = re.compile(r"[ -]+[A-Z]\w")
_CAPITALISED_BEFORE = re.compile(r"(?:^|[\s(\"'\u201c\u2018])([A-Z][\w.]*)[ -]+$")
_SENTENCE_BEFORE = re.compile(r"(?:^|[.!?:;][\"'\u201d\u2019)]*)\s*$")

_TO_MEN = {women.lower(): men for women, men in GENDERED}
# Where a man's word has two partners, the first of the list wins.
_TO_WOMEN = {men.lower(): women for women, men in reversed(GENDERED)}
_WORDS = sorted({*_TO_MEN, *_TO_WOMEN, "her", "him", "his"}, key=len, reverse=True)
_GENDERED = re.compile(rf"(?<![\w'\u2019-])(?:{'|'.join(map(re.escape, _WORDS))})(?![\w-])", re.I)
_NEXT_WORD = re.compile(r"\s+([^\W\d_]+)")
# After these, "her" is an object ("told her to", "gave her the book") rather than a possessive ("her book").
_NOT_POSSESSED = frozenset((
    "a", "about", "after", "again", "all", "also", "an", "and", "any", "are", "around", "as", "at", "away", "back",
    "because", "before", "but", "by", "down", "for", "from", "has", "he", "her", "here", "him", "his", "home",
    "how", "if", "in", "into", "is", "it", "no", "not", "now", "of", "off", "on", "once", "or", "out", "over",
    "she", "so", "that", "the", "their", "then", "there", "these", "they", "this", "those", "through", "to",
    "today", "tonight", "too", "up", "very", "was", "we", "were", "what", "when", "where", "while", "who", "why",
    "will", "with", "would", "yesterday", "yet", "you",
))  # fmt: skip


def _swap_names(texts: Mapping[str, Text], draw: Draw) -> dict[str, list[Change]]:
    """Replace each name by one of another group: the same in all texts of the row, and another one for each name."""
    return _renamed(texts, draw, lambda group, side: (side, [one for one in NAMES if one != group]))


def _swap_gender(texts: Mapping[str, Text], draw: Draw) -> dict[str, list[Change]]:
    """Replace words by those of the other gender, and names by names of the same group.

    If one of the words must stay, all do: a text whose people change gender halfway is another text.
    """
    words = {field: [*_GENDERED.finditer(text.content)] for field, text in texts.items()}
    if any(not texts[field].is_free(*match.span()) for field, matches in words.items() for match in matches):
        return {}
    found = _renamed(texts, draw, lambda group, side: (MEN if side == WOMEN else WOMEN, [group]))
    for field, text in texts.items():
        found[field] += [
            Change(match.start(), match.end(), _of_other_gender(match.group(), text.content[match.end() :]))
            for match in words[field]
        ]
    return found


def _renamed(texts: Mapping[str, Text], draw: Draw, choose: _Choice) -> dict[str, list[Change]]:
    places = {field: _names(text) for field, text in texts.items()}
    present = {name for text in texts.values() for name in _NAME.findall(text.content)}
    new: dict[str, str] = {}
    for field, text in texts.items():
        for start, end in places[field]:
            name = text.content[start:end]
            if name not in new:
                side, groups = choose(*_PLACE[name])
                free = [one for group in groups for one in NAMES[group][side] if one not in present]
                if free:
                    new[name] = draw.choice(free)
                    present.add(new[name])
    return {
        field: [
            Change(start, end, new[name])
            for start, end in places[field]
            if (name := text.content[start:end]) in new and _is_free_everywhere(name, texts, places)
        ]
        for field, text in texts.items()
    }


def _names(text: Text) -> list[tuple[int, int]]:
    """Return the first names that stand alone: next to a capitalised word, a name can be that of a known person."""
    return [
        match.span()
        for match in _NAME.finditer(text.content)
        if text.is_free(*match.span())
        and not _CAPITALISED_AFTER.match(text.content, match.end())
        and not _follows_capitalised(text.content[: match.start()])
    ]


def _follows_capitalised(before: str) -> bool:
    match = _CAPITALISED_BEFORE.search(before)
    if match is None or match[1] == "I":
        return False
    return _SENTENCE_BEFORE.search(before[: match.start(1)]) is None


def _is_free_everywhere(name: str, texts: Mapping[str, Text], places: Mapping[str, list[tuple[int, int]]]) -> bool:
    """Return whether every mention of the name can change: one that stays would tell two people apart."""
    mentions = sum(len(re.findall(rf"(?<!\w){name}(?!\w)", text.content)) for text in texts.values())
    changed = sum(texts[field].content[start:end] == name for field, spans in places.items() for start, end in spans)
    return mentions == changed


def _of_other_gender(word: str, after: str) -> str:
    lower = word.lower()
    following = _NEXT_WORD.match(after)
    possessive = following is not None and following[1].lower() not in _NOT_POSSESSED
    other = {"her": "his" if possessive else "him", "him": "her", "his": "her" if possessive else "hers"}.get(lower)
    other = other or _TO_MEN.get(lower) or _TO_WOMEN[lower]
    if word.isupper() and len(word) > 1:
        return other.upper()
    return other[0].upper() + other[1:] if word[0].isupper() else other.lower()


def _is_other_name(before: str, after: str) -> bool:
    return before in _PLACE and after in _PLACE and _PLACE[before][1] == _PLACE[after][1] and before != after


def _is_other_gender(before: str, after: str) -> bool:
    if before in _PLACE:
        return after in _PLACE and _PLACE[before][0] == _PLACE[after][0] and _PLACE[before][1] != _PLACE[after][1]
    return after in {_of_other_gender(before, ""), _of_other_gender(before, " x")}


EDITS = (
    Edit(
        "names", "fairness", "Replaces first names by names that readers connect with another region.",
        "Listed first names, in all texts of a row alike, by names of the same gender; not beside another capitalised "
        "word, and not if one mention must stay.",
        _swap_names, _is_other_name, languages=("en",),
    ),
    Edit(
        "gender", "fairness", "Swaps words for women and men, and listed first names with them.",
        "Listed words (`she` and `he`, `mother` and `father`) and listed first names of the same region.",
        _swap_gender, _is_other_gender, languages=("en",),
    ),
)  # fmt: skip
