"""Whether the marketplace that answers us is the one, and the account the one, that our HITs were posted with.

With another account's key every call succeeds, and every HIT of ours is "unknown": nothing may follow from that.
"""

from datetime import datetime, timedelta

from sqlalchemy import select

from crowd.errors import NotOnCrowd
from crowd.port import Crowd
from round_manager.database.store import Store
from round_manager.errors import CrowdWorkError
from round_manager.models import Hit, HitStatus

# A marketplace forgets HITs some months after they are over.
REMEMBERED = timedelta(days=60)
# One HIT alone may be gone for a reason of its own.
ASKED_FOR = 3


def check_account(store: Store, crowd: Crowd, *, now: datetime) -> None:
    """Asks for the newest HITs that were posted from here until one is known; an error where none is."""
    standing = select(Hit.external_id).where(
        Hit.marketplace == crowd.name,
        Hit.external_id.is_not(None),
        Hit.status != HitStatus.DISPOSED,
        Hit.posted_at > now - REMEMBERED,
    )
    with store.read() as session:
        newest = session.scalars(standing.order_by(Hit.id.desc()).limit(ASKED_FOR)).all()
    if not newest or any(_is_known(crowd, str(hit_id)) for hit_id in newest):
        return
    told = f"{crowd.name} does not know HIT {newest[0]}, which was posted from here"
    cure = "use the access key of the account that posted it, or give another marketplace another crowd_name"
    raise CrowdWorkError(f"{told}; {cure}")


def _is_known(crowd: Crowd, hit_id: str) -> bool:
    try:
        crowd.hit(hit_id)
    except NotOnCrowd:
        return False
    return True
