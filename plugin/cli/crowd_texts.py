"""Words that the commands of `outfox crowd` share."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from common.money import dollars
from common.text import count

if TYPE_CHECKING:
    from round_manager.crowd.collection import CollectionResult
    from round_manager.crowd.payments import PaymentResult
    from round_manager.crowd.reviews import UndecidedWork
    from round_manager.models import HitKind


MOST_SHOWN = 50
# What to do about work that was handed in without anything done on its page.
DECIDE = "`outfox crowd approve ASSIGNMENT…` pays for it by name, `outfox crowd reject` does not"


def when(moment: datetime | None) -> str:
    """A time as people read it."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def every_text(seconds: float) -> str:
    """`every second`, `every 30 seconds`."""
    return "every second" if seconds == 1 else f"every {seconds:g} seconds"


def asking(kind: "HitKind") -> str:
    """What HITs of a kind are for, as in `2 HITs to validate`."""
    from round_manager.money.hit_terms import WORDS

    return WORDS[kind]


def more_than(rows: Sequence[object], most: int = MOST_SHOWN) -> str:
    """What to say of rows that were left out of a table."""
    return f"… and {len(rows) - most:,} more; --json shows all" if len(rows) > most else ""


def not_counted_text(by_status: Mapping[str, int]) -> str:
    """What to add of a round's examples that do not count; nothing where there are none."""
    told = ", ".join(f"{number:,} {status}" for status, number in sorted(by_status.items()))
    return f"; not counted: {told}" if told else ""


def page_text(work: "UndecidedWork") -> str:
    """What a table says of the page that the work was to be done on."""
    return "not finished" if work.page_unfinished else ""


def unfinished_text(number: int) -> str:
    """`1 handed in without the page being finished`."""
    return f"{number:,} handed in without the page being finished"


def unknown_text(collected: "CollectionResult") -> str:
    """What to add of HITs that the marketplace does not know."""
    if not collected.unknown:
        return ""
    return f"; {count(collected.unknown, 'HIT')} unknown to the marketplace, `outfox crowd status` lists them"


def paid_text(paid: "PaymentResult") -> str:
    """How much reached workers, and what did not."""
    if not (paid.rewards or paid.bonuses or paid.refused or paid.held or paid.in_doubt or paid.waiting):
        return "nothing was owed"
    parts = [
        f"paid {dollars(paid.cents)}: {count(paid.rewards, 'reward')} and {count(paid.bonuses, 'bonus', 'bonuses')}"
    ]
    parts += [f"{paid.refused} refused"] if paid.refused else []
    parts += [f"{paid.held} held, `outfox crowd status` tells what to do"] if paid.held else []
    parts += [f"{paid.in_doubt} in doubt, `outfox crowd reconcile` asks about them"] if paid.in_doubt else []
    parts += [f"{paid.waiting} still owed, `outfox crowd pay` goes on"] if paid.waiting else []
    return "; ".join(parts)
