"""The browser that a page belongs to: with a worker's ids alone, another person cannot read or change their page.

A page in another site's frame gets no cookies. Its script keeps a random key in the browser's storage and sends it with
each call. The first browser that calls becomes the page's own; only a fingerprint of its key is stored.

Where the marketplace proves an acceptance, a worker who opens the HIT there again brings a newer proof, and the page
moves to that browser. Where it proves nothing, another browser may be the worker's second device or an attacker. It
waits until the page's own browser has been quiet for a while, and is then let in as a guest: it can work on what is
not done yet, but sees nothing that was typed in the other browser and replaces none of it.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from round_manager.models import WorkSession
from round_manager.models.table import table_of
from round_manager.work import errors
from round_manager.work.addresses import remember_address
from round_manager.work.sessions import lock_page

# Pages that are used call at least every 15 seconds.
QUIET = timedelta(minutes=5)
# The last call is stored no more often than this.
SEEN_EVERY = timedelta(seconds=30)


@dataclass(frozen=True)
class PageBrowser:
    """A browser that calls for a page; `proven_at` is when the marketplace proved that its worker holds the HIT.

    `address` is the keyed hash of its address, if it has one.
    """

    fingerprint: str
    proven_at: datetime | None = None
    address: str | None = field(default=None, repr=False)


def fingerprint(page: UUID, key: str) -> str:
    """Return what is stored of a browser's key: another value for each page, so that pages cannot be linked by it."""
    return hmac.digest(key.encode(), page.bytes, hashlib.sha256).hex()


def is_own(session: Session, page: UUID, browser: PageBrowser, *, now: datetime) -> bool:
    """Whether the page belongs to this browser, which called recently; nothing has to be stored then."""
    found = session.execute(_LAST_CALL, {"page": page}).one_or_none()
    if found is None:
        return False
    own, seen = found
    return own == browser.fingerprint and seen is not None and now - seen < SEEN_EVERY


_LAST_CALL = select(table_of(WorkSession).c.browser, table_of(WorkSession).c.browser_seen_at).where(
    table_of(WorkSession).c.public_id == bindparam("page")
)


def admit(session: Session, page: UUID, browser: PageBrowser, *, now: datetime) -> bool:
    """Let a browser in, or raise PageInOtherBrowser; return whether it is a guest.

    The address of the page's own browser is stored as a hash.
    """
    work = lock_page(session, page)
    if work.browser == browser.fingerprint:
        work.browser_seen_at = now
    elif work.browser is None or _is_newer(work, browser.proven_at):
        work.browser, work.bound_at, work.browser_seen_at = browser.fingerprint, browser.proven_at or now, now
    elif browser.proven_at is None and now - (work.browser_seen_at or now) >= QUIET:
        return True
    else:
        raise errors.PageInOtherBrowser
    # A guest may not be the worker, so its address is not stored.
    remember_address(session, work, browser.address, now=now)
    session.flush()
    return False


def _is_newer(work: WorkSession, proven_at: datetime | None) -> bool:
    return proven_at is not None and (work.bound_at is None or proven_at > work.bound_at)
