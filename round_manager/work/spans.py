"""Sets of time, as sorted lists of spans that do not touch each other.

A span is a start and an end in milliseconds since 1970; the end does not belong to it.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from common.database import EPOCH

MILLISECOND = timedelta(milliseconds=1)
Span = tuple[int, int]


def in_ms(moment: datetime) -> int:
    """Return a time in milliseconds since 1970, rounded down."""
    return (moment - EPOCH) // MILLISECOND


def as_time(ms: int) -> datetime:
    """Return the time of a number of milliseconds since 1970."""
    return EPOCH + ms * MILLISECOND


def length_of(spans: Iterable[Span]) -> int:
    """Return the milliseconds in a set."""
    return sum(end - start for start, end in spans)


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return the set of all moments in the spans, which may overlap and come in any order."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def without(spans: Iterable[Span], taken: Sequence[Span]) -> list[Span]:
    """Return the moments of a set that are not in another set."""
    left = []
    for first, last in spans:
        start = first
        for taken_start, taken_end in taken:
            if taken_end <= start or taken_start >= last:
                continue
            if start < taken_start:
                left.append((start, taken_start))
            start = taken_end
        if start < last:
            left.append((start, last))
    return left


def latest(spans: Sequence[Span], ms: int) -> list[Span]:
    """Return the latest moments of a set, at most so many milliseconds."""
    found: list[Span] = []
    for start, end in reversed(spans):
        if ms <= 0:
            break
        found.insert(0, (max(start, end - ms), end))
        ms -= end - start
    return found
