"""Counts as people read them."""


def count(number: int, one: str, many: str = "") -> str:
    """`1 HIT`, `1,200 HITs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
