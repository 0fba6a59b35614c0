"""Small helpers for text that people read."""


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 HIT`, `1,200 HITs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """Return the text with a capital letter at its start and a full stop at its end."""
    end = "" if text.endswith((".", "!", "?")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}"
