"""What people typed, made safe for the terminal of whoever reads it."""

import re

# What moves a terminal's cursor, changes its state or turns its text around; line ends and tabs may stay.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """The text with everything that a terminal would obey written out, as JSON writes it."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
