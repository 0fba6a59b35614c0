"""Leases: the context or example that a worker gets next, reserved for them until their session ends.

One process at a time assigns a task's work, so the counts read here are still true when the lease is written. A lease
whose time is over counts for nothing, whether or not it was ended.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Select,
    bindparam,
    func,
    literal,
    select,
    union_all,
    update,
)
from sqlalchemy.orm import Session

from round_manager.database.engine import locks_rows
from round_manager.models import (
    VALID_SESSIONS,
    Context,
    Example,
    ExampleStatus,
    Hit,
    LabelTally,
    Lease,
    LeaseEnd,
    Round,
    Task,
    Vote,
    WorkItem,
    WorkSession,
    spec_of,
)
from round_manager.models.rows import insert_row
from round_manager.models.table import table_of
from round_manager.work.context_strategies import (
    ExcludedContexts,
    ExclusionQueries,
    choose_contexts,
    is_live,
    seed_of,
)
from round_manager.work.established import is_established, votes_kept
from templates import TaskSpec

# The most rows that one call locks and changes.
SWEPT_AT_ONCE = 500
# Examples to judge are chosen from this many of the oldest ones.
PAIR_WINDOW = 50
# For a page that does not exist yet: no session has this id.
NO_SESSION = 0


def lock_task(session: Session, task_id: int) -> None:
    """Lock the task until the transaction ends; no other process assigns its work meanwhile."""
    # Begins the transaction, which is enough in SQLite.
    session.connection()
    if locks_rows(session):
        session.execute(_LOCK_TASK, {"task": task_id})


_LOCK_TASK = select(table_of(Task).c.id).where(table_of(Task).c.id == bindparam("task")).with_for_update(key_share=True)


def lease_contexts(
    session: Session, work: WorkSession, round: Round, spec: TaskSpec, most: int, *, now: datetime
) -> list[int]:
    """Lease up to `most` contexts, those that the task's strategy gives this worker next."""
    excluded = _excluded_contexts(session, work.worker_id, work.id, round, spec)
    seed, strategy = seed_of(session, work, round.task_id), spec.rounds.context_strategy
    found = choose_contexts(session, round, strategy, seed, most, excluded=excluded, now=now)
    found = found or _take_over(session, work, round, spec, most, now)
    for context_id in found:
        lease = Lease(
            context_id=context_id,
            worker_id=work.worker_id,
            session_id=work.id,
            leased_at=now,
            expires_at=work.expires_at,
        )
        insert_row(session, lease)
    return found


def has_context(session: Session, worker_id: int, round: Round, spec: TaskSpec, *, now: datetime) -> bool:
    """Return whether a new page of the worker could lease a context now."""
    excluded = _excluded_contexts(session, worker_id, NO_SESSION, round, spec)
    if choose_contexts(session, round, spec.rounds.context_strategy, b"", 1, excluded=excluded, now=now):
        return True
    held = _held_elsewhere(worker_id, round, spec).limit(1)
    return session.execute(held, _excluding(worker_id, NO_SESSION, round)).first() is not None


def _excluded_contexts(
    session: Session, worker_id: int, session_id: int, round: Round, spec: TaskSpec
) -> ExcludedContexts:
    queries = _EXCLUDED_REPEATING if spec.work.repeat_context else _EXCLUDED
    return ExcludedContexts(session, queries, _excluding(worker_id, session_id, round))


def end_lease(session: Session, work: WorkSession, context_id: int | None, outcome: LeaseEnd, *, now: datetime) -> None:
    """End the session's lease on that context."""
    session.flush()
    session.execute(_END_LEASE, {"page": work.id, "leased": context_id, "now": now, "how": outcome})


_END_LEASE = (
    update(Lease)
    .where(
        Lease.session_id == bindparam("page"),
        Lease.session_id.is_not(None),
        Lease.context_id == bindparam("leased"),
        Lease.ended_at.is_(None),
    )
    .values(ended_at=bindparam("now"), outcome=bindparam("how"))
    .execution_options(synchronize_session=False)
)


def label_counts(session: Session, round: Round, *, now: datetime) -> dict[str, int]:
    """Return how often each label was asked for in the round: by examples, and by items being written now."""
    asked = Counter[str]()
    for label, number in session.execute(_LABELS, {"round": round.id, "task": round.task_id, "now": now}):
        asked[label] += int(number)
    return asked


_LABELS_WRITTEN = select(LabelTally.label, LabelTally.examples).where(LabelTally.round_id == bindparam("round"))
_LABELS_BEING_WRITTEN = (
    select(WorkItem.label, func.count())
    .join(Lease, (Lease.session_id == WorkItem.session_id) & (Lease.context_id == WorkItem.context_id))
    .join(Context, Context.id == WorkItem.context_id)
    .where(Context.task_id == bindparam("task"), WorkItem.label.is_not(None), is_live(bindparam("now")))
    .group_by(WorkItem.label)
)
_LABELS: CompoundSelect[*tuple[Any, ...]] = union_all(_LABELS_WRITTEN, _LABELS_BEING_WRITTEN)


def lease_examples(session: Session, work: WorkSession, round: Round, most: int, *, now: datetime) -> list[Example]:
    """Lease up to `most` pending examples that need a vote and may get this worker's.

    They are among the oldest ones, and those by authors whom this worker has judged least come first: two accounts that
    confirm each other's examples rarely meet.
    """
    wanted = _examples_for(session, work.worker_id, round, now)
    oldest = session.execute(wanted.order_by(Example.id).limit(max(most, PAIR_WINDOW))).all()
    chosen = _least_met(session, work, [(example_id, author) for example_id, author in oldest], most)
    found = list(session.scalars(select(Example).where(Example.id.in_(chosen)).order_by(Example.id)))
    for example in found:
        session.add(
            Lease(
                example_id=example.id,
                author_id=example.author_id,
                worker_id=work.worker_id,
                session_id=work.id,
                leased_at=now,
                expires_at=work.expires_at,
            )
        )
    session.flush()
    return found


def count_examples(session: Session, worker_id: int, round: Round, most: int, *, now: datetime) -> int:
    """Return how many examples, up to `most`, a new page of the worker could lease now."""
    some = _examples_for(session, worker_id, round, now).limit(most).subquery()
    return session.scalar(select(func.count()).select_from(some)) or 0


def _examples_for(session: Session, worker_id: int, round: Round, now: datetime) -> Select[int, int]:
    """Return the query for the examples that need this worker's vote, with their authors."""
    votes = select(func.count()).where(Vote.example_id == Example.id).scalar_subquery()
    leases = select(func.count()).where(Lease.example_id == Example.id, is_live(now)).scalar_subquery()
    voted = select(Vote.id).where(Vote.example_id == Example.id, Vote.worker_id == worker_id)
    return select(Example.id, Example.author_id).where(
        Example.round_id == round.id,
        Example.status == ExampleStatus.PENDING,
        Example.author_id != worker_id,
        Example.votes_wanted - votes - leases > _kept_for_established(session, worker_id, round),
        ~voted.exists(),
        ~_judged_by(worker_id).exists(),
        ~_held_by(worker_id).exists(),
    )


def _kept_for_established(session: Session, worker_id: int, round: Round) -> ColumnElement[int]:
    """Return how many of an example's votes this worker must leave to established validators."""
    if not spec_of(round).validation.established_votes or is_established(session, round, worker_id):
        return literal(0)
    return votes_kept(round)


def _least_met(session: Session, work: WorkSession, oldest: Sequence[tuple[int, int]], most: int) -> list[int]:
    """Return up to `most` of the examples, each time the oldest one by an author whom this worker has met least."""
    met = (
        select(WorkItem.author_id, func.count())
        .where(WorkItem.worker_id == work.worker_id, WorkItem.author_id.in_({author for _, author in oldest}))
        .where(WorkItem.author_id.is_not(None))
        .group_by(WorkItem.author_id)
    )
    times = Counter({author: int(number) for author, number in session.execute(met) if author is not None})
    left, chosen = list(oldest), list[int]()
    while left and len(chosen) < most:
        example = min(left, key=lambda one: times[one[1]])
        left.remove(example)
        times[example[1]] += 1
        chosen.append(example[0])
    return chosen


def _judged_by(worker_id: int) -> Any:
    """Examples that this worker has on another page, or judged on one that may still be confirmed."""
    return (
        select(WorkItem.id)
        .join(WorkSession, WorkSession.id == WorkItem.session_id)
        .where(
            WorkItem.example_id == Example.id,
            WorkItem.example_id.is_not(None),
            WorkItem.worker_id == worker_id,
            WorkSession.status.in_(VALID_SESSIONS),
        )
    )


def _held_by(worker_id: int) -> Any:
    return select(Lease.id).where(
        Lease.example_id == Example.id,
        Lease.example_id.is_not(None),
        Lease.worker_id == worker_id,
        Lease.ended_at.is_(None),
    )


def _take_over(
    session: Session, work: WorkSession, round: Round, spec: TaskSpec, most: int, now: datetime
) -> list[int]:
    """Take over up to `most` contexts that only other pages of this worker hold, the oldest leases first."""
    # Anyone with the link can open pages in a worker's name; their leases must not leave the worker without work.
    excluding = _excluding(work.worker_id, work.id, round)
    held = session.execute(_held_elsewhere(work.worker_id, round, spec).limit(most), excluding).all()
    ended = update(Lease).where(Lease.id.in_([lease_id for lease_id, _ in held]), Lease.ended_at.is_(None))
    session.execute(ended.values(ended_at=now, outcome=LeaseEnd.RETURNED))
    return [context_id for _, context_id in held if context_id is not None]


def _held_elsewhere(worker_id: int, round: Round, spec: TaskSpec) -> Select[int, int | None]:
    """Return the query for leases of other pages of the worker on contexts that they may write on."""
    excluded = _excluded(repeat=spec.work.repeat_context, elsewhere=False)
    return (
        select(Lease.id, Lease.context_id)
        .join(Context, Context.id == Lease.context_id)
        .where(Lease.worker_id == worker_id, Lease.session_id.is_not(None), Lease.ended_at.is_(None))
        .where(Context.task_id == round.task_id, Context.retired_at.is_(None))
        .where(*(Context.id.not_in(one) for one in excluded))
        .order_by(Lease.leased_at, Lease.id)
    )


def _excluding(worker_id: int, session_id: int, round: Round) -> dict[str, object]:
    """Return the parameters of the queries for the contexts that this worker must not get."""
    return {"worker": worker_id, "session": session_id, "task": round.task_id}


def _excluded(*, repeat: bool, elsewhere: bool = True) -> list[Select[int | None]]:
    """Return queries for the contexts that a worker must not get: leased ones and, unless repeating, earlier ones.

    Leases of the worker's other pages count only if `elsewhere` is set.
    """
    worker: BindParameter[Any] = bindparam("worker")
    work: BindParameter[Any] = bindparam("session")
    # An expired lease may never have been shown, and a returned HIT must not block a context.
    had_them = Lease.outcome.in_((LeaseEnd.USED, LeaseEnd.SKIPPED))
    here = Lease.session_id == work
    counts = here if repeat else here | WorkSession.status.in_(VALID_SESSIONS)
    held: ColumnElement[bool] = Lease.ended_at.is_(None)
    if not elsewhere:
        held &= here | Lease.session_id.is_(None)
    leased = (
        select(Lease.context_id)
        .outerjoin(WorkSession, WorkSession.id == Lease.session_id)
        .where(
            Lease.worker_id == worker,
            Lease.context_id.is_not(None),
            held | (had_them & counts),
        )
    )
    # Another page may have taken over a context that this one still shows.
    shown = select(WorkItem.context_id).where(WorkItem.session_id == work, WorkItem.context_id.is_not(None))
    if repeat:
        return [leased, shown]
    written = select(Example.context_id).where(
        Example.author_id == worker,
        Example.task_id == bindparam("task"),
        Example.context_id.is_not(None),
        Example.status != ExampleStatus.UNCONFIRMED,
    )
    return [leased, shown, written]


_EXCLUDED, _EXCLUDED_REPEATING = (ExclusionQueries(*_excluded(repeat=repeat)) for repeat in (False, True))


def end_leases(session: Session, pages: Sequence[int], outcome: LeaseEnd, *, now: datetime) -> None:
    """End all leases of these sessions."""
    live = Lease.session_id.in_(pages) & Lease.session_id.is_not(None) & Lease.ended_at.is_(None)
    session.execute(update(Lease).where(live).values(ended_at=now, outcome=outcome))


def keep_leases(session: Session, work: WorkSession, period: timedelta, *, now: datetime) -> None:
    """Keep a session's live leases for this long from now, or from their start if a clock was set back since."""
    for lease in session.scalars(_LIVE_LEASES, {"page": work.id, "now": now}):
        lease.expires_at = max(now, lease.leased_at) + period
    session.flush()


_LIVE_LEASES = select(Lease).where(
    Lease.session_id == bindparam("page"), Lease.session_id.is_not(None), is_live(bindparam("now"))
)


def make_room(session: Session, hit: Hit, *, now: datetime) -> None:
    """Make room for one more page of the HIT that leases examples: the oldest pages lose their leases.

    No more pages hold leases than the HIT has assignments. A page without leases can continue; its judgements are
    confirmed too.
    """
    # A page can be opened in any worker's name, and the marketplace does not report returned HITs.
    places = select(Lease.id).where(Lease.example_id.is_not(None), Lease.ended_at.is_(None))
    holding = select(WorkSession.id).where(
        WorkSession.hit_id == hit.id,
        places.where(Lease.session_id == WorkSession.id, Lease.session_id.is_not(None)).exists(),
    )
    newest_first = holding.order_by(WorkSession.started_at.desc(), WorkSession.id.desc())
    too_many = list(session.scalars(newest_first.offset(hit.max_assignments - 1)))
    # A lease that its own page has locked now is left for the next time: no transaction waits for two pages.
    given_up = some_rows(session, places.where(Lease.session_id.in_(too_many), Lease.session_id.is_not(None)))
    session.execute(update(Lease).where(Lease.id.in_(given_up)).values(ended_at=now, outcome=LeaseEnd.RETURNED))


def some_rows(session: Session, wanted: Select[int]) -> list[int]:
    """Lock and return the next ids of a query, skipping rows that another transaction holds."""
    # The query's own order comes first: ordered by id alone, SQLite would read every row.
    first = wanted.order_by(wanted.selected_columns[0]).limit(SWEPT_AT_ONCE)
    return list(session.scalars(first.with_for_update(key_share=True, skip_locked=True)))
