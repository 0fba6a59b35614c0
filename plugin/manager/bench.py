"""The bench: everything that the manager's steps work with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.clock import Clock
from plugin.crowd import CrowdServices
from plugin.manager.trainings import Trainings
from plugin.round_opening import Opened
from round_manager.archive.archives import Archives
from round_manager.database.store import Store


class Studio(Protocol):
    """The Label Studio that some tasks are connected to; whatever is done there twice does no harm."""

    def tasks(self) -> Sequence[str]:
        """The tasks that are connected to it."""
        ...

    def read(self, task: str) -> str:
        """Reads what people did there, and shows there what the crowd did; what came of it, in words."""
        ...

    def follow(self, task: str) -> str:
        """Has it ask for the round that is live, or for the task while none is; what was moved, in words."""
        ...

    def push(self, task: str) -> str:
        """Sends what there is to write for and to check; what was sent, in words."""
        ...


class Opening(Protocol):
    """Opens a task's next round against the versions that are pinned."""

    def open(self, name: str, versions: Sequence[str], *, who: str, why: str) -> Opened:
        """The round, open; once more changes nothing."""
        ...


@dataclass(frozen=True)
class Bench:
    """A store and all that rounds are run with; without a crowd or a studio, their steps have nothing to do.

    `check_pages` raises where workers would see nothing, and tells whether the pages are ours; `check_backend` raises
    where those would get no verdict for a task's round. `last_round` is the last one that is opened by itself. Where
    HITs show `our_pages`, work whose page was not finished is left to a person.
    """

    store: Store
    clock: Clock
    who: str
    crowd: CrowdServices | None
    studio: Studio | None
    archives: Callable[[], Archives]
    opening: Callable[[], Opening]
    trainings: Trainings
    check_pages: Callable[[], bool]
    check_backend: Callable[[str, int], None]
    last_round: int | None = None
    our_pages: bool = False
