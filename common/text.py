"""Small helpers for text that people read: numbers with nouns, sentences, and amounts of money.

Code counts money in whole cents; people read and type dollars.
"""

import re

# Also those of Arabic, Chinese, Hindi and Japanese, and the bracket that pseudo-languages add.
SENTENCE_ENDS = (".", "!", "?", "…", "\u061f", "\u0964", "\u3002", "\uff01", "\uff1f", "⟧")
_WRITTEN = re.compile(r"\$?([0-9]{1,9})(?:\.([0-9]{1,2}))?")


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 HIT`, `1,200 HITs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """Return the text with a capital letter at its start and a full stop at its end."""
    end = "" if text.endswith(SENTENCE_ENDS) else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def dollars(cents: int) -> str:
    """Return an amount as `$1,234.50`."""
    sign = "-" if cents < 0 else ""
    return f"{sign}${abs(cents) // 100:,}.{abs(cents) % 100:02d}"


def parse_dollars(text: str) -> int:
    """Return the cents of `12`, `12.5` or `$12.50`; raise ValueError for anything else."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an amount in dollars and cents (for example 12.50)")
    whole, part = found.groups()
    return int(whole) * 100 + int((part or "0").ljust(2, "0"))


def printable(text: str) -> str:
    """Return the text on one line, with a space in the place of everything that cannot be shown."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
