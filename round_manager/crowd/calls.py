"""Calls to a marketplace: several at a time, from one process at a time, as few as possible, to the right account."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Self, TypeVar

from sqlalchemy import select

from common.progress import Progress
from crowd.errors import CrowdBusy, CrowdError, CrowdUnavailable, NotOnCrowd
from crowd.port import Crowd, PostedHit
from round_manager.database.store import Store, process_lock
from round_manager.errors import WrongCrowdAccount
from round_manager.models import Hit, HitStatus

THREADS = 8
PAGE = 100
Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def sending(store: Store, crowd: Crowd, progress: Progress) -> Iterator[None]:
    """Stop other processes from sending to the marketplace, or reconciling with it, until the end of the block."""

    def waiting() -> None:
        progress.start(0, "waiting for another process that is posting or paying")

    with process_lock(store, f"crowd-{crowd.name}", waiting):
        yield


class Calls:
    """Makes several calls at a time, and stops after the first one that is not answered.

    Each call has its own retries; a batch must not wait that long for each of its calls.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._unanswered = threading.Event()

    def make(self, items: Sequence[Item], call: Callable[[Item], Result]) -> list[Result | CrowdError]:
        """Return each item's answer, or the CrowdError that its call raised, in the order of the items."""

        def one(item: Item) -> Result | CrowdError:
            if self._unanswered.is_set():
                return CrowdBusy("not sent, because the marketplace does not answer; try again later")
            try:
                return call(item)
            except CrowdUnavailable as error:
                self._unanswered.set()
                return error
            except CrowdError as error:
                return error

        return list(self._pool.map(one, items))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


def find_hits(
    crowd: Crowd, hit_ids: Iterable[str], threads: int = THREADS, *, listed: bool = True
) -> Iterator[tuple[str, PostedHit | None]]:
    """Yield HITs with their state on the marketplace, None for one that it does not know, by few calls.

    A listing returns a hundred HITs per call, and most of them are finished. So the listing is read only while it is
    cheaper: after as many calls as there are HITs left to find, those HITs are requested one by one.
    """
    unseen = dict.fromkeys(hit_ids)
    listing, pages = crowd.hits() if listed else iter(()), 0
    while pages < len(unseen):
        pages += 1
        page = list(islice(listing, PAGE))
        for posted in page:
            if posted.hit_id in unseen:
                del unseen[posted.hit_id]
                yield posted.hit_id, posted
        if len(page) < PAGE:
            break
    with ThreadPoolExecutor(threads) as pool:
        yield from zip(unseen, pool.map(partial(_find_hit, crowd), unseen), strict=True)


def _find_hit(crowd: Crowd, hit_id: str) -> PostedHit | None:
    try:
        return crowd.hit(hit_id)
    except NotOnCrowd:
        return None


# Marketplaces delete HITs some months after they expired.
REMEMBERED = timedelta(days=60)
# One HIT alone may be missing for another reason.
HITS_TO_CHECK = 3


def check_account(store: Store, crowd: Crowd, *, now: datetime) -> None:
    """Raise WrongCrowdAccount if the marketplace knows none of the newest HITs that were posted from this database.

    With another account's key every call succeeds, and every HIT of ours is "unknown". Nothing may follow from that.
    """
    posted = select(Hit.external_id).where(
        Hit.marketplace == crowd.name,
        Hit.external_id.is_not(None),
        Hit.status != HitStatus.DISPOSED,
        Hit.posted_at > now - REMEMBERED,
    )
    with store.read() as session:
        newest = session.scalars(posted.order_by(Hit.id.desc()).limit(HITS_TO_CHECK)).all()
    if not newest or any(_find_hit(crowd, str(hit_id)) for hit_id in newest):
        return
    problem = f"{crowd.name} does not know HIT {newest[0]}, which was posted from this database"
    advice = "use the access key of the account that posted it, or another crowd_name for another marketplace"
    raise WrongCrowdAccount(f"{problem}; {advice}")
