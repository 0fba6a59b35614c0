"""Calls to a marketplace: side by side in one process, and by one process at a time."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TypeVar

from sqlalchemy import select

from common.progress import Progress
from crowd.errors import CrowdBusy, CrowdError, CrowdUnavailable, NotOnCrowd
from crowd.port import Crowd
from round_manager.database.locks import process_lock
from round_manager.database.store import Store
from round_manager.errors import CrowdWorkError
from round_manager.models import Hit, HitStatus

THREADS = 8
Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def sending(store: Store, crowd: Crowd, progress: Progress) -> Iterator[None]:
    """Nobody else sends to the marketplace, or looks up what was sent, until the end of the block."""

    def waiting() -> None:
        progress.start(0, "waiting for another process that posts or pays")

    with process_lock(store, f"crowd-{crowd.name}", waiting):
        yield


class Calls:
    """Makes many calls at a time, and none any more once one of them found nobody there.

    A call waits as long as its patience lasts; a batch must not wait that long for each of its own.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._silent = threading.Event()

    def make(self, items: Sequence[Item], call: Callable[[Item], Result]) -> list[Result | CrowdError]:
        """What each item's call brought, or the CrowdError that it ended in, in the items' order."""

        def one(item: Item) -> Result | CrowdError:
            if self._silent.is_set():
                return CrowdBusy("not tried, because the marketplace does not answer; try again later")
            try:
                return call(item)
            except CrowdUnavailable as error:
                self._silent.set()
                return error
            except CrowdError as error:
                return error

        return list(self._pool.map(one, items))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()


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
