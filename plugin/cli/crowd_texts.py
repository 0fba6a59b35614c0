"""Texts that the commands of `outfox crowd` share."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from common.text import count, dollars

if TYPE_CHECKING:
    from round_manager.crowd.collection import CollectionResult
    from round_manager.crowd.payments import PaymentResult
    from round_manager.crowd.reviews import UndecidedWork
    from round_manager.models import HitKind


MOST_SHOWN = 50
# What to do about work that was submitted without its page being finished.
DECIDE = "pay it with `outfox crowd approve ASSIGNMENT…`, or reject it with `outfox crowd reject`"


def when(moment: datetime | None) -> str:
    """Return a time as people read it."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def every_text(seconds: float) -> str:
    """Return `every second` or `every 30 seconds`."""
    return "every second" if seconds == 1 else f"every {seconds:g} seconds"


def asking(kind: "HitKind") -> str:
    """Return what HITs of a kind are for, as in `2 HITs to validate`."""
    from round_manager.crowd.hit_planning import WORDS

    return WORDS[kind]


def more_than(rows: Sequence[object], most: int = MOST_SHOWN) -> str:
    """Return a line about the rows that a table leaves out."""
    return f"… and {len(rows) - most:,} more; use --json to see all" if len(rows) > most else ""


def not_counted_text(by_status: Mapping[str, int]) -> str:
    """Return a note about a round's examples that do not count; empty if there are none."""
    listed = ", ".join(f"{number:,} {status}" for status, number in sorted(by_status.items()))
    return f"; not counted: {listed}" if listed else ""


def page_text(work: "UndecidedWork") -> str:
    """Return the state of the page of a piece of work."""
    return "not finished" if work.page_unfinished else ""


def unfinished_text(number: int) -> str:
    """Return `1 submitted without a finished page`."""
    return f"{number:,} submitted without a finished page"


def unknown_text(collected: "CollectionResult") -> str:
    """Return a note about HITs that the marketplace does not know."""
    if not collected.unknown:
        return ""
    return f"; the marketplace does not know {count(collected.unknown, 'HIT')}, see `outfox crowd status`"


def paid_text(paid: "PaymentResult") -> str:
    """Return how much was paid, and what was not."""
    if not (paid.rewards or paid.bonuses or paid.refused or paid.held or paid.in_doubt or paid.waiting):
        return "nothing was owed"
    parts = [
        f"paid {dollars(paid.cents)}: {count(paid.rewards, 'reward')} and {count(paid.bonuses, 'bonus', 'bonuses')}"
    ]
    parts += [f"{paid.refused} refused"] if paid.refused else []
    parts += [f"{paid.held} held, see `outfox crowd status`"] if paid.held else []
    parts += [f"{paid.in_doubt} in doubt, check with `outfox crowd reconcile`"] if paid.in_doubt else []
    parts += [f"{paid.waiting} still owed, continue with `outfox crowd pay`"] if paid.waiting else []
    return "; ".join(parts)
