"""The work on a marketplace, from our database: HIT groups, planned HITs and loose ends; and its open places."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Integer, Subquery, and_, case, cast, exists, func, literal, or_, select
from sqlalchemy.orm import Session, aliased

from crowd.port import Crowd
from round_manager.crowd.calls import find_hits
from round_manager.crowd.fair_pay import DueTopUps, GroupWage, group_wages
from round_manager.crowd.reviews import DecidedWork, UndecidedWork, decided, undecided
from round_manager.database.store import Store
from round_manager.models import Assignment, EntryState, Hit, HitKind, HitStatus, LedgerEntry, Task, Worker
from round_manager.money.bonuses import SUBMITTED
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task, list_tasks

CAN_BE_TAKEN = (HitStatus.ASSIGNABLE, HitStatus.UNASSIGNABLE)


@dataclass(frozen=True)
class GroupFigures:
    """A HIT group; `unfilled` counts the places of unfinished HITs without a submission."""

    group_id: str
    task: str
    kind: HitKind
    reward_cents: int
    hits: int
    unfinished: int
    unfilled: int
    undecided: int
    approved: int
    rejected: int
    posted_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class PlannedHits:
    """Planned HITs of one kind: never sent, or sent without an answer (`in_doubt`)."""

    task: str
    kind: HitKind
    unsent: int
    in_doubt: int
    cents: int


@dataclass(frozen=True)
class LooseEnd:
    """A HIT or a payment that needs attention; `what` is `HIT` or the kind of payment.

    `key` is ours; `hit_id` is the marketplace's, if there is one.
    """

    key: str
    what: str
    task: str
    cents: int
    assignment_id: str
    worker_id: str
    since: datetime
    why: str
    hit_id: str = ""


@dataclass(frozen=True)
class LooseEnds:
    """In doubt: reconciliation settles it. Held: a person decides. Refused: by the marketplace, the newest first.

    Astray: posted HITs that the marketplace does not know, or whose work cannot be recorded here.
    """

    in_doubt: list[LooseEnd]
    held: list[LooseEnd]
    refused: list[LooseEnd]
    astray: list[LooseEnd]


@dataclass(frozen=True)
class LiveHit:
    """A HIT that workers can still accept, or that has money reserved."""

    hit_id: str
    group_id: str
    kind: HitKind
    can_be_taken: bool
    reserved_cents: int


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
    median_minutes: float | None = None
    median_hourly_cents: int | None = None
    minimum_hourly_cents: int | None = None

    @property
    def is_low(self) -> bool:
        """Whether the median pay is below the task's minimum."""
        return (self.median_hourly_cents or 0) < (self.minimum_hourly_cents or 0)


@dataclass(frozen=True)
class CrowdOverview(LooseEnds):
    """The crowd's work on one task or on all tasks."""

    groups: list[GroupRow]
    undecided: list[UndecidedWork]
    decided: list[DecidedWork]
    planned: list[PlannedHits]
    tasks: list[str]
    without_round: list[str]
    # The top-ups that wait for the owner, by task.
    to_approve: Mapping[str, DueTopUps] = field(default_factory=dict)


def find_overview(
    store: Store, marketplace: str, task: str | None, crowd: Crowd | None = None, *, our_pages: bool = False
) -> CrowdOverview:
    """Return the overview; with a crowd, also the open places of its HITs."""
    with store.read() as session:
        tasks = [find_task(session, task)] if task else list_tasks(session)
        here = (session, marketplace, tasks[0].id if task else None)
        wages = [wage for each in tasks for wage in group_wages(session, each)]
        figures, live = group_figures(*here), live_hits(*here)
        found = CrowdOverview(
            **vars(loose_ends(*here)),
            groups=[],
            undecided=undecided(*here, our_pages=our_pages),
            decided=decided(*here),
            planned=planned(*here),
            tasks=[each.name for each in tasks],
            without_round=[each.name for each in tasks if live_round(session, each.id) is None],
        )
    return replace(found, groups=_rows(figures, wages, None if crowd is None else find_places(crowd, live)))


def find_places(crowd: Crowd, live: Sequence[LiveHit]) -> dict[str, OpenPlaces]:
    """Return the open places by HIT group, with as few calls as possible."""
    places: dict[str, OpenPlaces] = {}
    for _, posted in find_hits(crowd, [one.hit_id for one in live if one.can_be_taken]):
        if posted is not None:
            had = places.get(posted.group_id, OpenPlaces())
            places[posted.group_id] = OpenPlaces(had.available + posted.available, had.pending + posted.pending)
    return places


def _rows(
    figures: Sequence[GroupFigures], wages: Sequence[GroupWage], places: Mapping[str, OpenPlaces] | None
) -> list[GroupRow]:
    by_group = {(wage.group_id, wage.kind): wage for wage in wages}
    rows = []
    for one in figures:
        wage = by_group.get((one.group_id, one.kind))
        pay = (round(wage.median_seconds / 60, 1), wage.median_hourly_cents, wage.minimum_hourly_cents) if wage else ()
        rows.append(GroupRow(one, None if places is None else places.get(one.group_id, OpenPlaces()), *pay))
    return rows


def group_figures(session: Session, marketplace: str, task_id: int | None = None) -> list[GroupFigures]:
    """Return every posted HIT group, the newest first."""
    # Undecided, approved and rejected work.
    counts = [func.count().filter(Assignment.status == status).label(status.value) for status in SUBMITTED]
    mine = select(Assignment.hit_id, *counts).where(Assignment.marketplace == marketplace)
    work = mine.group_by(Assignment.hit_id).subquery()
    done = [func.coalesce(work.c[status.value], 0) for status in SUBMITTED]
    unfilled = case((Hit.finished_at.is_(None), Hit.max_assignments - done[0] - done[1] - done[2]), else_=0)
    wanted = (
        select(
            Hit.group_id,
            Task.name,
            Hit.kind,
            Hit.reward_cents,
            func.count(),
            func.count().filter(Hit.finished_at.is_(None)),
            *(cast(func.sum(count), Integer) for count in (unfilled, *done)),
            func.max(Hit.posted_at),
            func.max(Hit.expires_at),
        )
        .join(Task, Task.id == Hit.task_id)
        .outerjoin(work, work.c.hit_id == Hit.id)
        .where(*_of(marketplace, task_id), Hit.external_id.is_not(None))
        .group_by(Hit.group_id, Task.name, Hit.kind, Hit.reward_cents)
        .order_by(func.max(Hit.posted_at).desc(), Hit.group_id)
    )
    rows: Iterable[Any] = session.execute(wanted)
    return [GroupFigures(*row) for row in rows]


def planned(session: Session, marketplace: str, task_id: int | None = None) -> list[PlannedHits]:
    """Return the HITs that were planned and not posted, with their reserved money."""
    reserved = _reserved()
    unsent, in_doubt = func.count().filter(Hit.sent_at.is_(None)), func.count().filter(Hit.sent_at.is_not(None))
    wanted = (
        select(Task.name, Hit.kind, unsent, in_doubt, cast(func.coalesce(func.sum(reserved.c.cents), 0), Integer))
        .join(Task, Task.id == Hit.task_id)
        .outerjoin(reserved, reserved.c.hit_id == Hit.id)
        .where(*_of(marketplace, task_id), Hit.status == HitStatus.PLANNED)
        .group_by(Task.name, Hit.kind)
        .order_by(Task.name, Hit.kind)
    )
    return [PlannedHits(*row) for row in session.execute(wanted)]


def loose_ends(session: Session, marketplace: str, task_id: int | None = None) -> LooseEnds:
    """Return HITs and payments that are in doubt, held, refused or astray, the newest first."""
    here = _of(marketplace, task_id)
    unheard = (*here, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_not(None))
    unsettled = (*here, LedgerEntry.state == EntryState.SENT, LedgerEntry.held_at.is_(None))
    astray = (*here, Hit.external_id.is_not(None), Hit.finished_at.is_(None), Hit.last_error.is_not(None))
    lost = (*here, LedgerEntry.state == EntryState.REFUSED, _not_replaced())
    return LooseEnds(
        in_doubt=_hits(session, unheard) + _payments(session, unsettled),
        held=_hits(session, (*here, Hit.status == HitStatus.HELD))
        + _payments(session, (*here, LedgerEntry.held_at.is_not(None))),
        refused=sorted(
            _hits(session, (*here, Hit.status == HitStatus.REFUSED)) + _payments(session, lost),
            key=lambda one: one.since,
            reverse=True,
        ),
        astray=_hits(session, astray),
    )


def live_hits(session: Session, marketplace: str, task_id: int | None = None) -> list[LiveHit]:
    """Return posted HITs that can still get work or release money, the newest first."""
    reserved = _reserved()
    can_be_taken = and_(Hit.status.in_(CAN_BE_TAKEN), Hit.finished_at.is_(None))
    cents = cast(func.coalesce(reserved.c.cents, 0), Integer)
    wanted = (
        select(func.coalesce(Hit.external_id, ""), func.coalesce(Hit.group_id, ""), Hit.kind, can_be_taken, cents)
        .outerjoin(reserved, reserved.c.hit_id == Hit.id)
        .where(*_of(marketplace, task_id), Hit.external_id.is_not(None), or_(can_be_taken, cents > 0))
        .order_by(Hit.id.desc())
    )
    return [LiveHit(*row) for row in session.execute(wanted)]


def _of(marketplace: str, task_id: int | None) -> tuple[ColumnElement[bool], ...]:
    here = (Hit.marketplace == marketplace,)
    return here if task_id is None else (*here, Hit.task_id == task_id)


def _reserved() -> Subquery:
    total = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents).label("cents")
    entries = select(LedgerEntry.hit_id, total).where(LedgerEntry.state == EntryState.RESERVED)
    return entries.group_by(LedgerEntry.hit_id).subquery()


def _hits(session: Session, which: Sequence[ColumnElement[bool]]) -> list[LooseEnd]:
    reserved = _reserved()
    cents = cast(func.coalesce(reserved.c.cents, 0), Integer)
    since, why = func.coalesce(Hit.sent_at, Hit.created_at), func.coalesce(Hit.last_error, "")
    wanted = (
        select(Hit.key, literal("HIT"), Task.name, cents, literal(""), literal(""), since, why, Hit.external_id)
        .join(Task, Task.id == Hit.task_id)
        .outerjoin(reserved, reserved.c.hit_id == Hit.id)
        .where(*which)
        .order_by(Hit.id.desc())
    )
    return [LooseEnd(*row[:-1], hit_id=row[-1] or "") for row in session.execute(wanted)]


def _payments(session: Session, which: Sequence[ColumnElement[bool]]) -> list[LooseEnd]:
    entry = LedgerEntry
    since, why = func.coalesce(entry.sent_at, entry.reserved_at), func.coalesce(entry.held_reason, entry.last_error, "")
    cents, people = entry.cents + entry.fee_cents, (Assignment.external_id, Worker.external_id)
    wanted = (
        select(entry.key, entry.kind, Task.name, cents, *people, since, why)
        .join(Hit, Hit.id == entry.hit_id)
        .join(Task, Task.id == entry.task_id)
        .join(Assignment, Assignment.id == entry.assignment_id)
        .join(Worker, Worker.id == entry.worker_id)
        .where(*which)
        .order_by(entry.id.desc())
    )
    return [LooseEnd(*row) for row in session.execute(wanted)]


def _not_replaced() -> ColumnElement[bool]:
    """Return the condition that a refused payment was not replaced by another entry."""
    other = aliased(LedgerEntry)
    same = (other.assignment_id == LedgerEntry.assignment_id, other.kind == LedgerEntry.kind)
    return ~exists().where(*same, other.cents == LedgerEntry.cents, other.state != EntryState.REFUSED)
