"""Offers: whether a HIT holds work for a worker, before they accept it on a marketplace that asks.

An offer promises nothing: others may take the work meanwhile. It says no where opening the page would fail, so that no
worker accepts a HIT that they cannot open, or that holds nothing for them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from crowd.inquiries import HitOffer
from round_manager.models import Hit, HitKind, Round, SessionStatus, Task, Worker, WorkSession, spec_of
from round_manager.money.bonuses import most_bonuses
from round_manager.tasks.groups import may_work
from round_manager.work.errors import HitUnavailable, NothingToDo, NotInGroup, TooManyHits, WorkerBlocked
from round_manager.work.leases import count_examples, has_context
from round_manager.work.quizzes import may_take
from round_manager.work.session_start import find_worker, hit_problem
from templates import TaskSpec

# No worker has this id: one whom we have not seen yet has written and judged nothing.
STRANGER = 0


@dataclass(frozen=True)
class HeldHits:
    """The HITs of a task that a worker has accepted; `unopened` are those whose page they have not opened yet."""

    ids: tuple[str, ...]
    unopened: tuple[HitKind, ...]


def make_offers(
    session: Session,
    marketplace: str,
    worker_id: str,
    hit_ids: Collection[str],
    held_ids: Collection[str],
    *,
    now: datetime,
) -> dict[str, HitOffer]:
    """Return the offers of those HITs that are known here; HITs with the same content have the same one."""
    hits = _hits(session, marketplace, {*hit_ids, *held_ids})
    wanted = [hits[hit_id] for hit_id in hit_ids if hit_id in hits]
    held = [hits[hit_id] for hit_id in held_ids if hit_id in hits]
    known: dict[tuple[int | None, int, HitKind], HitOffer] = {}
    found = {}
    for hit in wanted:
        problem = hit_problem(session, hit)
        key = (hit.round_id, hit.task_id, hit.kind)
        if problem is not None:
            found[str(hit.external_id)] = HitOffer(is_available=False, code=HitUnavailable.code)
            continue
        if key not in known:
            known[key] = _offer(session, hit, worker_id, held, now)
        found[str(hit.external_id)] = known[key]
    return found


def _offer(session: Session, hit: Hit, worker_id: str, held: Sequence[Hit], now: datetime) -> HitOffer:
    try:
        worker = find_worker(session, hit, worker_id)
    except WorkerBlocked as error:
        return HitOffer(is_available=False, code=error.code)
    round = None if hit.round_id is None else session.get_one(Round, hit.round_id)
    spec = spec_of(round or session.get_one(Task, hit.task_id))
    bonus = spec.pay.fooled_bonus_cents * most_bonuses(spec, hit.kind)
    if not may_work(session, hit.round_id, worker):
        return HitOffer(is_available=False, code=NotInGroup.code)
    mine = _held_of_task(session, hit.task_id, worker, held)
    if len(mine.ids) >= spec.work.hits_at_once:
        return HitOffer(is_available=False, code=TooManyHits.code, bonus_cents=bonus, finish=mine.ids)
    if not _holds_work(session, hit, round, spec, worker.id if worker else STRANGER, mine, now):
        return HitOffer(is_available=False, code=NothingToDo.code, bonus_cents=bonus)
    return HitOffer(is_available=True, bonus_cents=bonus)


def _holds_work(
    session: Session, hit: Hit, round: Round | None, spec: TaskSpec, worker: int, held: HeldHits, now: datetime
) -> bool:
    if round is None or hit.kind is HitKind.QUIZ:
        return may_take(session, worker, hit.task_id, spec)
    if hit.kind is HitKind.CREATE:
        return has_context(session, worker, round, spec, now=now)
    # What the worker accepted already needs its share first: accepting many HITs makes none of them empty.
    needed = held.unopened.count(HitKind.VALIDATE) * spec.work.validations_per_hit
    return count_examples(session, worker, round, needed + 1, now=now) > needed


def _held_of_task(session: Session, task_id: int, worker: Worker | None, held: Sequence[Hit]) -> HeldHits:
    mine = [hit for hit in held if hit.task_id == task_id]
    opened: set[int] = set()
    if mine and worker is not None:
        pages = select(WorkSession.hit_id).where(
            WorkSession.worker_id == worker.id,
            WorkSession.hit_id.in_([hit.id for hit in mine]),
            WorkSession.status == SessionStatus.OPEN,
        )
        opened = set(session.scalars(pages))
    return HeldHits(
        tuple(str(hit.external_id) for hit in mine), tuple(hit.kind for hit in mine if hit.id not in opened)
    )


def _hits(session: Session, marketplace: str, ids: Collection[str]) -> dict[str, Hit]:
    rows = session.scalars(select(Hit).where(Hit.marketplace == marketplace, Hit.external_id.in_(ids)))
    return {str(hit.external_id): hit for hit in rows}
