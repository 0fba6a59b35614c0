"""An overview of the crowd's work: from our database, and open places from the marketplace."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from crowd.errors import NotOnCrowd
from crowd.port import Crowd, PostedHit
from round_manager.crowd.fair_pay import GroupWage, group_wages
from round_manager.crowd.reviews import DecidedWork, UndecidedWork, decided, undecided
from round_manager.crowd.status import (
    GroupFigures,
    LiveHit,
    LooseEnd,
    PlannedHits,
    group_figures,
    live_hits,
    loose_ends,
    planned,
)
from round_manager.database.store import Store
from round_manager.models import Task
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task, list_tasks

# Up to this many HITs are requested one by one; a listing returns a hundred per call.
FEW_HITS = 50
THREADS = 8


@dataclass(frozen=True)
class OpenPlaces:
    """Places of a HIT group that can be accepted, and that workers have accepted."""

    available: int = 0
    pending: int = 0


@dataclass(frozen=True)
class GroupRow:
    """One HIT group; places are None if the marketplace was not asked, wages are None without approved work."""

    figures: GroupFigures
    places: OpenPlaces | None
    median_minutes: float | None
    median_hourly_cents: int | None
    minimum_hourly_cents: int | None

    @property
    def is_low(self) -> bool:
        """Whether the median pay is below the task's minimum."""
        return (self.median_hourly_cents or 0) < (self.minimum_hourly_cents or 0)


@dataclass(frozen=True)
class CrowdOverview:
    """The crowd's work on one task or on all tasks."""

    groups: list[GroupRow]
    undecided: list[UndecidedWork]
    decided: list[DecidedWork]
    planned: list[PlannedHits]
    in_doubt: list[LooseEnd]
    held: list[LooseEnd]
    refused: list[LooseEnd]
    astray: list[LooseEnd]
    tasks: list[str]
    without_round: list[str]


def find_overview(
    store: Store, marketplace: str, task: str | None, crowd: Crowd | None = None, *, our_pages: bool = False
) -> CrowdOverview:
    """Return the overview; with a crowd, also the open places of its HITs."""
    with store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        one = tasks[0].id if task else None
        figures = group_figures(session, marketplace, one)
        live = live_hits(session, marketplace, one)
        ends = loose_ends(session, marketplace, one)
        waiting = undecided(session, marketplace, one, our_pages=our_pages)
        done = decided(session, marketplace, one)
        unsent = planned(session, marketplace, one)
        wages = [wage for each in tasks for wage in group_wages(session, each)]
        without_round = [each.name for each in tasks if live_round(session, each.id) is None]
    places = None if crowd is None else find_places(crowd, live)
    return CrowdOverview(
        groups=_rows(figures, wages, places),
        undecided=waiting,
        decided=done,
        planned=unsent,
        in_doubt=ends.in_doubt,
        held=ends.held,
        refused=ends.refused,
        astray=ends.astray,
        tasks=_names(tasks),
        without_round=without_round,
    )


def find_places(crowd: Crowd, live: Sequence[LiveHit]) -> dict[str, OpenPlaces]:
    """Return the open places by HIT group, with as few calls as possible."""
    wanted = [one.hit_id for one in live if one.can_be_taken]
    places: dict[str, OpenPlaces] = {}
    for posted in _posted(crowd, wanted):
        had = places.get(posted.group_id, OpenPlaces())
        places[posted.group_id] = OpenPlaces(had.available + posted.available, had.pending + posted.pending)
    return places


def _posted(crowd: Crowd, wanted: Sequence[str]) -> Iterable[PostedHit]:
    if len(wanted) <= FEW_HITS:
        with ThreadPoolExecutor(THREADS) as pool:
            return [one for one in pool.map(lambda hit_id: _find_hit(crowd, hit_id), wanted) if one]
    unseen = set(wanted)
    found = []
    for posted in crowd.hits():
        if posted.hit_id in unseen:
            unseen.remove(posted.hit_id)
            found.append(posted)
        if not unseen:
            break
    return found


def _find_hit(crowd: Crowd, hit_id: str) -> PostedHit | None:
    try:
        return crowd.hit(hit_id)
    except NotOnCrowd:
        return None


def _rows(
    figures: Sequence[GroupFigures], wages: Sequence[GroupWage], places: Mapping[str, OpenPlaces] | None
) -> list[GroupRow]:
    by_group = {(wage.group_id, wage.kind): wage for wage in wages}
    rows = []
    for one in figures:
        wage = by_group.get((one.group_id, one.kind))
        rows.append(
            GroupRow(
                one,
                None if places is None else places.get(one.group_id, OpenPlaces()),
                round(wage.median_seconds / 60, 1) if wage else None,
                wage.median_hourly_cents if wage else None,
                wage.minimum_hourly_cents if wage else None,
            )
        )
    return rows


def _names(tasks: Sequence[Task]) -> list[str]:
    return [task.name for task in tasks]
