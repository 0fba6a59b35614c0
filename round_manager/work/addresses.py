"""The addresses that worker pages are used from, as keyed hashes: evidence that accounts belong together.

An address is never stored. Its hash can be computed only with the server's secret; it is the same on all days and for
all workers, because accounts that share an address use it at different times. It is deleted after 30 days, and is part
of no archive, export or page.
"""

import hashlib
import hmac
from collections import defaultdict
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from itertools import combinations

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session

from round_manager.models import Hit, PageAddress, Round, SessionStatus, WorkSession
from round_manager.work.leases import SWEPT_AT_ONCE

KEPT_FOR = timedelta(days=30)
# The purpose that the key is derived for, so that no other use of the secret gives the same hashes.
PURPOSE = b"outfox.page-address.1"
# A page moves between few networks.
MOST_PER_PAGE = 8
# An address of more workers than this is a campus, a mobile network or a proxy, and says nothing about them.
MOST_SHARING = 5
# Of an IPv6 address, the part that belongs to one customer; people change the rest at will.
CUSTOMER_BITS = 64


class AddressHasher:
    """Hashes client addresses with a key that is derived from the server's secret."""

    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), PURPOSE, hashlib.sha256)

    def hash(self, address: str) -> str | None:
        """Return the hash of an address; None if it is not an address or says nothing about a client."""
        network = network_of(address)
        return None if network is None else hmac.digest(self._key, network.encode(), hashlib.sha256).hex()


def network_of(address: str) -> str | None:
    """Return what identifies a client: an IPv4 address, or the first half of an IPv6 address."""
    try:
        found = ip_address(address.strip())
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or IPv6Address(int(found))  # Without the zone of a link.
    # A proxy or a test on this machine is not a client.
    if found.is_loopback or found.is_unspecified or found.is_link_local or found.is_multicast:
        return None
    if isinstance(found, IPv6Address):
        return str(IPv6Network((found, CUSTOMER_BITS), strict=False))
    return str(IPv4Network(found))


def remember_address(session: Session, work: WorkSession, address: str | None, *, now: datetime) -> None:
    """Store the hash of an address with a page, once; the page must be locked."""
    if address is None or session.get(PageAddress, (work.id, address)) is not None:
        return
    known = select(func.count()).where(PageAddress.session_id == work.id)
    if (session.scalar(known) or 0) < MOST_PER_PAGE:
        session.add(PageAddress(session_id=work.id, address=address, stored_at=now))


def has_old_addresses(session: Session, *, now: datetime) -> bool:
    """Return whether hashes were stored 30 days ago or earlier."""
    return bool(session.scalar(select(exists().where(PageAddress.stored_at <= now - KEPT_FOR))))


def delete_old_addresses(session: Session, *, now: datetime) -> int:
    """Delete hashes that were stored 30 days ago or earlier, of a limited number of pages; return how many."""
    is_old = PageAddress.stored_at <= now - KEPT_FOR
    oldest = select(PageAddress.session_id).where(is_old).order_by(PageAddress.stored_at).limit(SWEPT_AT_ONCE)
    old = delete(PageAddress).where(PageAddress.session_id.in_(oldest), is_old)
    return len(session.scalars(old.returning(PageAddress.session_id)).all())


def shared_addresses(session: Session, round: Round) -> dict[tuple[int, int], int]:
    """Return the pairs of workers who used the same addresses on confirmed pages of the round, and how many.

    Addresses of many workers are left out. Only confirmed pages count: anyone can open a page in another's name.
    """
    used = (
        select(PageAddress.address, WorkSession.worker_id)
        .join(WorkSession, WorkSession.id == PageAddress.session_id)
        .join(Hit, Hit.id == WorkSession.hit_id)
        .where(Hit.round_id == round.id, WorkSession.status == SessionStatus.CONFIRMED)
        .distinct()
    )
    workers: dict[str, set[int]] = defaultdict(set)
    for address, worker_id in session.execute(used):
        workers[address].add(worker_id)
    found: dict[tuple[int, int], int] = defaultdict(int)
    for sharing in workers.values():
        if len(sharing) <= MOST_SHARING:
            for one, other in combinations(sorted(sharing), 2):
                found[one, other] += 1
    return dict(found)
