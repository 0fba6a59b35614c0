"""Whether the marketplace that answers us is the one, and the account the one, that our HITs were posted with.

With another account's key every call succeeds, and every HIT of ours is "unknown": nothing may follow from that.
"""

from datetime import datetime, timedelta

from sqlalchemy import select

from mturk.crowd import Crowd
from mturk.errors import UnknownToCrowd
from round_manager.errors import CrowdWorkError
from round_manager.models import Hit, HitStatus
from round_manager.store import Store

# A marketplace forgets HITs some months after they are over.
REMEMBERED = timedelta(days=60)


def check_account(store: Store, crowd: Crowd, *, now: datetime) -> None:
    """Asks for the newest HIT that was posted from here; nothing, or an error that says what is wrong."""
    standing = select(Hit.external_id).where(
        Hit.marketplace == crowd.name,
        Hit.external_id.is_not(None),
        Hit.status != HitStatus.DISPOSED,
        Hit.posted_at > now - REMEMBERED,
    )
    with store.read() as session:
        newest = session.scalar(standing.order_by(Hit.id.desc()).limit(1))
    if newest is None:
        return
    try:
        crowd.hit(newest)
    except UnknownToCrowd as error:
        told = f"{crowd.name} does not know HIT {newest}, which was posted from here"
        cure = "use the access key of the account that posted it, or give another marketplace another crowd_name"
        raise CrowdWorkError(f"{told}; {cure}") from error
