"""The access keys of requesters, remembered for a moment: every call needs one, and they hardly ever change."""

import time
from collections.abc import Callable

from sqlalchemy import select

from mturk.marketplace.market import Market
from mturk.marketplace.tables import AccessKey, Requester

FRESH_SECONDS = 30.0


class KeyRing:
    """Finds access keys; one that was taken from the database is used up to half a minute longer."""

    def __init__(self, market: Market, seconds: Callable[[], float] = time.monotonic) -> None:
        self._market = market
        self._seconds = seconds
        self._found: dict[str, tuple[float, str, Requester]] = {}

    def secret(self, key_id: str) -> str | None:
        """The secret of a key; None when nobody has it."""
        known = self._find(key_id)
        return known[1] if known else None

    def requester(self, key_id: str) -> Requester:
        """Whose key it is."""
        known = self._find(key_id)
        if known is None:
            raise LookupError("nobody has this access key")
        return known[2]

    def _find(self, key_id: str) -> tuple[float, str, Requester] | None:
        known = self._found.get(key_id)
        if known is not None and self._seconds() - known[0] < FRESH_SECONDS:
            return known
        with self._market.glance() as session:
            found = session.execute(
                select(AccessKey.secret, Requester)
                .join(Requester, Requester.id == AccessKey.requester_id)
                .where(AccessKey.id == key_id)
            ).one_or_none()
        if found is None:
            # Not remembered: whoever guesses keys must not fill our memory.
            self._found.pop(key_id, None)
            return None
        known = self._found[key_id] = (self._seconds(), found[0], found[1])
        return known
