"""Cents as people read them, and what people write as cents: whole numbers all the way."""

import re

_WRITTEN = re.compile(r"\$?([0-9]{1,9})(?:\.([0-9]{1,2}))?")


def dollars(cents: int) -> str:
    """`$1,234.50` for 123450."""
    sign = "-" if cents < 0 else ""
    return f"{sign}${abs(cents) // 100:,}.{abs(cents) % 100:02d}"


def parse_dollars(text: str) -> int:
    """The cents of `12`, `12.5` or `$12.50`; a ValueError for all that is no whole number of cents."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no amount of dollars and whole cents; write for example 12.50")
    whole, part = found.groups()
    return int(whole) * 100 + int((part or "0").ljust(2, "0"))
