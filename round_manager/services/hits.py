"""Use cases of HITs: quote, plan, supply and expire. Posting planned HITs is `ConnectedCrowd.poster`."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, select

from common.errors import Hint
from common.progress import NoProgress, Progress
from crowd.errors import CrowdError, NotOnCrowd
from round_manager.crowd import hit_planning
from round_manager.crowd.calls import Calls
from round_manager.crowd.collection import CollectionResult
from round_manager.crowd.hit_posting import PostingResult
from round_manager.crowd.status import LiveHit, live_hits, planned
from round_manager.errors import HitNotFound
from round_manager.loop import quote as quotes
from round_manager.loop.quote import Quote
from round_manager.loop.supply import MOST_BATCHES, Supply, plan_recruits, supply_round, wanted_supply
from round_manager.loop.supply_facts import unneeded_hits
from round_manager.models import Hit, HitKind, HitStatus, Round, Task, spec_of
from round_manager.money.budget import check_budget, figures
from round_manager.services.context import Actor, ConnectedCrowd, ServiceContext
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task

EXPIRED = "expired with all of the task's HITs"
BATCH = 64


@dataclass(frozen=True)
class WaitingHits:
    """HITs that were planned and may not be posted: on the whole marketplace, and of the same task and kind."""

    all: int
    same: int


@dataclass(frozen=True)
class UnsentCreation:
    """A round with HITs to create that wait to be posted."""

    id: int
    task: str
    number: int
    unsent: int


@dataclass(frozen=True)
class ExpiryPlan:
    """HITs to expire with their reserved money, and planned HITs to cancel with theirs."""

    hits: tuple[LiveHit, ...]
    reserved_cents: int
    cancelled: int
    cancelled_cents: int


@dataclass(frozen=True)
class ExpiryResult:
    """What expiring did; `reserved_cents` stays reserved for work that was accepted or submitted."""

    expired: int
    cancelled: int
    released_cents: int
    reserved_cents: int
    collected: CollectionResult


def waiting_hits(context: ServiceContext, crowd: ConnectedCrowd, task: str, kind: HitKind | None) -> WaitingHits:
    """Return how many HITs of earlier runs may still have to be posted."""
    with context.store.read() as session:
        find_task(session, task)
        plans = planned(session, crowd.name)
    same = (one for one in plans if (one.task, one.kind) == (task, kind))
    return WaitingHits(sum(one.unsent + one.in_doubt for one in plans), sum(one.unsent + one.in_doubt for one in same))


def creation_rounds(context: ServiceContext, crowd: ConnectedCrowd, *, also: str | None = None) -> dict[str, int]:
    """Return the live rounds by task that creation HITs are planned for, and the one of the task `also`."""
    with context.store.read() as session:
        names = {one.task for one in planned(session, crowd.name) if one.kind is HitKind.CREATE}
        names |= {also} if also else set()
        rounds = {name: live_round(session, find_task(session, name).id) for name in sorted(names)}
    return {name: live.number for name, live in rounds.items() if live}


def unsent_hits(context: ServiceContext, crowd: ConnectedCrowd) -> int:
    """Return the number of HITs that wait to be posted in rounds that accept them now."""
    with context.store.read() as session:
        return session.scalar(select(func.count()).select_from(Hit).where(*_unsent(crowd.name))) or 0


def rounds_to_write_for(context: ServiceContext, crowd: ConnectedCrowd) -> list[UnsentCreation]:
    """Return the rounds with HITs to create that wait to be posted and can be posted now."""
    unsent = select(Hit.round_id, func.count().label("hits")).where(*_unsent(crowd.name), Hit.kind == HitKind.CREATE)
    of_round = unsent.group_by(Hit.round_id).subquery()
    wanted = (
        select(Round.id, Task.name, Round.number, of_round.c.hits)
        .join(of_round, of_round.c.round_id == Round.id)
        .join(Task, Task.id == Round.task_id)
        .order_by(Round.id)
    )
    with context.store.read() as session:
        return [UnsentCreation(*row) for row in session.execute(wanted)]


def quote_hits(
    context: ServiceContext,
    crowd: ConnectedCrowd,
    task: str,
    kind: HitKind,
    *,
    hits: int,
    assignments: int,
    account_cents: int,
    hours: int | None = None,
) -> Quote:
    """Return the price of HITs for the task's open round; raise if the budget or the account does not cover it."""
    now = context.now()
    with context.store.dry_run() as session:
        found = find_task(session, task)
        live = quotes.open_round_of(session, found)
        request = quotes.request_for(live, kind, hits, assignments, hours, now=now)
        made = quotes.quote(session, found, live, request, crowd.crowd, account_cents, now=now)
        check_budget(session, found, live, made.cost.total_cents)
    made.check_account()
    return made


def plan_hits(context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, quote: Quote) -> int:
    """Plan the quoted HITs and reserve their money; return how many."""
    with context.store.read() as session:
        task = find_task(session, quote.task)
    if quote.needs_qualification:
        crowd.access.qualification(task)
    with context.store.write() as session:
        live = quotes.open_round_of(session, task)
        return len(hit_planning.plan_hits(session, live, quote.request, crowd.crowd, now=context.now()))


def needed_supply(context: ServiceContext, crowd: ConnectedCrowd, task: str) -> Supply:
    """Return the HITs that the task's live round needs now."""
    with context.store.read() as session:
        live = live_round(session, find_task(session, task).id)
        return wanted_supply(session, live, crowd.crowd, now=context.now()) if live else Supply()


def plan_supply(context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, task: str) -> Supply:
    """Plan the HITs that the task's live round needs, and reserve their money; nothing is sent."""
    if not needed_supply(context, crowd, task):
        return Supply()
    with context.store.read() as session:
        found = find_task(session, task)
        live = live_round(session, found.id)
    if live is None:
        return Supply()
    if spec_of(live).quiz is not None:
        crowd.access.qualification(found)
    supply = Supply()
    for _ in range(MOST_BATCHES):
        with context.store.write() as session:
            more, _ = supply_round(session, session.get_one(Round, live.id), crowd.crowd, now=context.now())
        supply += more
        if not more:
            break
    return supply


def recruit_workers(
    context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, task: str, people: int
) -> PostingResult:
    """Post quiz HITs until this many people have passed the quiz or can take it."""
    with context.store.read() as session:
        found = find_task(session, task)
    crowd.access.qualification(found)
    with context.store.write() as session:
        plan_recruits(session, found, crowd.crowd, people, now=context.now())
    return crowd.poster.run()


def plan_expiry(
    context: ServiceContext,
    actor: Actor,
    crowd: ConnectedCrowd,
    task: str,
    *,
    hit_ids: Sequence[str] = (),
    kind: HitKind | None = None,
) -> ExpiryPlan:
    """Return what expiring these HITs would do; without HITs, all of the task or of the kind. Nothing is changed."""
    posted = {one.hit_id: one for one in _live_hits(context, crowd, task) if one.can_be_taken}
    unknown = [one for one in hit_ids if one not in posted]
    if unknown:
        hint = Hint("show_crowd_status", task=task)
        raise HitNotFound(f"{task} has no HIT {unknown[0]} that workers can accept", hint=hint)
    chosen = [one for one in posted.values() if (not hit_ids or one.hit_id in hit_ids) and kind in (None, one.kind)]
    cancelled = (0, 0) if hit_ids else _cancel_planned(context, actor, crowd, task, kind, dry_run=True)
    return ExpiryPlan(tuple(chosen), sum(one.reserved_cents for one in chosen), *cancelled)


def expire_hits(
    context: ServiceContext,
    actor: Actor,
    crowd: ConnectedCrowd,
    task: str,
    plan: ExpiryPlan,
    *,
    kind: HitKind | None = None,
    cancel: bool = False,
    progress: Progress | None = None,
) -> ExpiryResult:
    """Expire HITs and collect, so that the money of empty places is released; with `cancel`, also cancel planned HITs.

    Workers who accepted a HIT may finish it and are paid.
    """
    shown = progress or NoProgress()
    cancelled, freed = _cancel_planned(context, actor, crowd, task, kind, dry_run=False) if cancel else (0, 0)
    ids = [one.hit_id for one in plan.hits]
    shown.start(len(ids), "expiring HITs")
    with Calls() as calls:
        for first in range(0, len(ids), BATCH):
            some = ids[first : first + BATCH]
            _raise_failure(calls.make(some, crowd.crowd.expire))
            shown.advance(len(some))
    shown.finish()
    collected = crowd.collector.run(shown)
    left = sum(one.reserved_cents for one in _live_hits(context, crowd, task) if one.hit_id in ids)
    return ExpiryResult(len(ids), cancelled, plan.reserved_cents - left + freed, left, collected)


def find_unneeded(context: ServiceContext, crowd: ConnectedCrowd, task: str) -> list[str]:
    """Return the ids of the live round's HITs that are no longer needed."""
    with context.store.read() as session:
        live = live_round(session, find_task(session, task).id)
        return unneeded_hits(session, live, crowd.name, now=context.now()) if live else []


def expire_unneeded(context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, task: str) -> int:
    """Expire the live round's HITs that are no longer needed; return how many."""
    ids = find_unneeded(context, crowd, task)
    if ids:
        with Calls() as calls:
            answers = calls.make(ids, crowd.crowd.expire)
        # This marks HITs that are missing on the marketplace, and finishes HITs without workers.
        crowd.collector.hinted(ids)
        _raise_failure(answers)
    return len(ids)


def _raise_failure(answers: Sequence[CrowdError | None]) -> None:
    for answer in answers:
        # The collection that follows marks HITs that the marketplace does not know.
        if answer is not None and not isinstance(answer, NotOnCrowd):
            raise answer


def _live_hits(context: ServiceContext, crowd: ConnectedCrowd, task: str) -> list[LiveHit]:
    with context.store.read() as session:
        return live_hits(session, crowd.name, find_task(session, task).id)


def _cancel_planned(
    context: ServiceContext, actor: Actor, crowd: ConnectedCrowd, task: str, kind: HitKind | None, *, dry_run: bool
) -> tuple[int, int]:
    """Cancel HITs that were planned and never sent; return how many, and the money that this releases."""
    with context.store.dry_run() if dry_run else context.store.write() as session:
        found = find_task(session, task)
        before = figures(session, found, lock=True)
        hits = hit_planning.cancel_planned(
            session, crowd.name, found, kind, actor=actor.name, reason=EXPIRED, now=context.now()
        )
        session.flush()
        return hits, before.reserved_cents - figures(session, found).reserved_cents


def _unsent(marketplace: str) -> tuple[ColumnElement[bool], ...]:
    here = Hit.marketplace == marketplace
    return here, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_(None), hit_planning.may_be_posted()
