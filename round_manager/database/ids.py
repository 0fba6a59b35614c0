"""Ids for what leaves the system: sortable by time, not guessable (UUID version 7, RFC 9562)."""

import secrets
from datetime import datetime, timedelta
from uuid import UUID

from round_manager.database.columns import EPOCH
from round_manager.errors import BadValueError


def public_id(now: datetime) -> UUID:
    """A new id: 48 bits of the time in milliseconds, then 74 random bits."""
    if now.utcoffset() is None:
        raise BadValueError("an id is made from an aware time; take it from the clock")
    milliseconds = (now - EPOCH) // timedelta(milliseconds=1)
    value = (milliseconds & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)
