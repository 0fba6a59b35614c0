"""Amounts of money: whole cents in code, dollars where people read or type them."""

import re

_WRITTEN = re.compile(r"\$?([0-9]{1,9})(?:\.([0-9]{1,2}))?")


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
