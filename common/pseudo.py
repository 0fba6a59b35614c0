"""Pseudo-languages: catalogues made from the English texts, which show what is not translated or does not fit."""

import re
from collections.abc import Callable, Mapping

from babel.messages.catalog import Catalog

ACCENTED, MIRRORED = "en-XA", "ar-XB"
# The pseudo-languages, each with the locale whose plurals, numbers and direction it has.
PSEUDO: Mapping[str, str] = {ACCENTED: "en", MIRRORED: "he"}
START, END = "⟦", "⟧"
_ACCENTS = str.maketrans("aceginosuyACEGINOSUY", "àçéĝîñöšûýÀÇÉĜÎÑÖŠÛÝ")
_RIGHT_TO_LEFT, _POP = "\u202e", "\u202c"
# Placeholders, tags and entities stay as they are.
_KEPT = re.compile(r"(%\(\w+\)s|%%|<[^>]+>|&\w+;)")


def pseudo_catalog(language: str, source: Catalog) -> Catalog:
    """Return the catalogue of a pseudo-language, with the messages of another catalogue."""
    change = _accented if language == ACCENTED else _mirrored
    made = Catalog(locale=PSEUDO[language], fuzzy=False)
    for message in source:
        if isinstance(message.id, tuple):
            forms = tuple(_whole(one, change) for one in _forms(message.id, made.num_plurals))
            made.add(message.id, forms, locations=message.locations)
        elif message.id:
            made.add(message.id, _whole(str(message.id), change), locations=message.locations)
    return made


def _forms(texts: tuple[str, ...], number: int) -> tuple[str, ...]:
    return (texts[0], *(texts[-1],) * (number - 1))


def _whole(text: str, change: Callable[[str], str]) -> str:
    parts = [part if _KEPT.fullmatch(part) else change(part) for part in _KEPT.split(text)]
    return f"{START}{''.join(parts)}{END}"


def _accented(text: str) -> str:
    """Return a text with accents that is about a third longer, as German is."""
    return re.sub(r"\b(\w{6,})\b", lambda found: f"{found[1]}~~", text.translate(_ACCENTS))


def _mirrored(text: str) -> str:
    return re.sub(r"\w+", lambda found: f"{_RIGHT_TO_LEFT}{found[0]}{_POP}", text)
