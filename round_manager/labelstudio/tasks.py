"""The tasks that Label Studio is to have: planned once, sent, and known again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, update
from sqlalchemy.orm import Session

from round_manager.examples.votes import TAKES_VOTES
from round_manager.models import (
    Context,
    ContextTally,
    Example,
    ExampleStatus,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    ProjectKind,
    Round,
    RoundStatus,
    Task,
    Vote,
)
from round_manager.tasks.contexts import pack_context
from round_manager.tasks.rounds import live_round
from round_manager.work.context_strategies import RANKS, ContextUsage
from round_manager.work.seeded_order import SeededOrder, order_key
from templates import TaskSpec
from templates.payloads import next_target
from templates.rows import Context as PackContext

ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class Unsent:
    """A task that Label Studio is to get: a context to write for, or an example to check."""

    row: int
    key: str
    label: str | None
    context: PackContext | None
    fields: Mapping[str, Any] | None


def plan_creation(session: Session, link: LabelStudioLink, spec: TaskSpec, *, now: datetime) -> int:
    """A task for each living context that has none to write on here, in the strategy's order; how many are new.

    Once a round is open, a task on which an earlier round's example was written is used up. Of the labels that a
    context allows, the one that was asked for least so far is taken.
    """
    hold_link(session, link)
    live = live_round(session, link.task_id)
    if not _takes(live, ProjectKind.CREATE):
        return 0
    there = session.execute(_tasks_to_write_on(link, live)).all()
    taken = {context_id for context_id, _ in there}
    asked = {name: sum(label == name for _, label in there) for name in spec.label_names}
    known = set(session.scalars(select(LabelStudioTask.key).where(LabelStudioTask.link_id == link.id)))
    new = []
    for context in _in_order(session, link, live, spec):
        if context.id in taken:
            continue
        label = next_target(spec, pack_context(context), asked)
        key = f"context:{context.public_id}:{label or '-'}"
        if live is not None and key in known:
            key = f"{key}:{live.number}"
        new.append(LabelStudioTask(link_id=link.id, key=key, context_id=context.id, label=label, created_at=now))
    session.add_all(new)
    session.flush()
    return len(new)


def _in_order(session: Session, link: LabelStudioLink, live: Round | None, spec: TaskSpec) -> Sequence[Context]:
    """The living contexts, first those that the task's strategy gives out first; equals in the owner's order."""
    of_round = and_(ContextTally.context_id == Context.id, ContextTally.round_id == (live.id if live else None))
    used, fooled = (func.coalesce(count, 0) for count in (ContextTally.used, ContextTally.fooled))
    strategy, salt = spec.rounds.context_strategy, session.get_one(Task, link.task_id).worker_salt
    seed = order_key(salt.encode(), "label studio", link.kind.value, live.number if live else 0)
    # Nobody in Label Studio tells what they are writing on.
    rank = RANKS[strategy](ContextUsage(Context.id, Context.position, used, fooled, leased=0))
    living = (
        select(Context)
        .outerjoin(ContextTally, of_round)
        .where(Context.task_id == link.task_id, Context.retired_at.is_(None))
    )
    first = [SeededOrder(seed).of_column(Context.id)] if strategy == "uniform" else rank
    return session.scalars(living.order_by(*first, Context.position)).all()


def plan_validation(session: Session, link: LabelStudioLink, *, now: datetime) -> int:
    """A task for each vote that a pending example wants and that nobody gave or can give yet; how many are new."""
    hold_link(session, link)
    if not _takes(live_round(session, link.task_id), ProjectKind.VALIDATE):
        return 0
    votes = select(func.count()).select_from(Vote).where(Vote.example_id == Example.id).scalar_subquery()
    tasks = select(func.count()).select_from(LabelStudioTask).where(
        LabelStudioTask.link_id == link.id, LabelStudioTask.example_id == Example.id
    )  # fmt: skip
    free = tasks.where(is_standing(), ~is_used()).scalar_subquery()
    pending = (
        select(Example.id, Example.public_id, Example.votes_wanted - votes - free, tasks.scalar_subquery())
        .join(Round, Round.id == Example.round_id)
        .where(
            Example.task_id == link.task_id,
            Round.status.in_(TAKES_VOTES),
            Example.status == ExampleStatus.PENDING,
        )
        .order_by(Example.id)
    )
    new = [
        LabelStudioTask(
            link_id=link.id, key=f"example:{public_id}:{made + more + 1}", example_id=example_id, created_at=now
        )
        for example_id, public_id, missing, made in session.execute(pending)
        for more in range(max(0, missing))
    ]
    session.add_all(new)
    session.flush()
    return len(new)


def unsent_tasks(session: Session, link: LabelStudioLink) -> list[Unsent]:
    """What Label Studio is to get now and does not have yet, as far as we know; the oldest first."""
    if not _takes(live_round(session, link.task_id), link.kind):
        return []
    waiting = (
        select(LabelStudioTask, Context, Example)
        .outerjoin(Context, Context.id == LabelStudioTask.context_id)
        .outerjoin(Example, Example.id == LabelStudioTask.example_id)
        .outerjoin(Round, Round.id == Example.round_id)
        .where(
            LabelStudioTask.link_id == link.id,
            LabelStudioTask.external_id.is_(None),
            or_(
                Context.id.is_not(None) & Context.retired_at.is_(None),
                (Example.status == ExampleStatus.PENDING) & Round.status.in_(TAKES_VOTES),
            ),
        )
        .order_by(LabelStudioTask.id)
    )
    return [
        Unsent(
            task.id,
            task.key,
            task.label,
            pack_context(context) if context else None,
            example.fields if example else None,
        )
        for task, context, example in session.execute(waiting)
    ]


def _takes(live: Round | None, kind: ProjectKind) -> bool:
    """Whether people get new work of this kind; before a round is open, contexts are sent ahead of it."""
    if live is None:
        return True
    return live.paused_at is None and (kind is ProjectKind.VALIDATE or live.status is RoundStatus.OPEN)


def mark_sent(session: Session, ids: Mapping[int, int]) -> list[int]:
    """Writes down which row has which number there; gives the numbers that came too late for their row."""
    late = []
    for row, number in ids.items():
        empty = (LabelStudioTask.id == row) & LabelStudioTask.external_id.is_(None)
        done = session.execute(
            update(LabelStudioTask).where(empty).values(external_id=number).returning(LabelStudioTask.id)
        )
        if done.first() is None and session.get_one(LabelStudioTask, row, populate_existing=True).external_id != number:
            late.append(number)
    return late


def tasks_known(session: Session, link: LabelStudioLink, seen: Mapping[int, str | None]) -> dict[int, LabelStudioTask]:
    """Our rows of tasks seen there, by their numbers there; `seen` gives each one's key.

    A task that was made twice, or never written down, is known by its key: no work on it is lost.
    """
    keys = [key for key in seen.values() if key is not None]
    mine = LabelStudioTask.link_id == link.id
    rows = session.scalars(
        select(LabelStudioTask).where(
            mine, is_standing(), or_(LabelStudioTask.external_id.in_(list(seen)), LabelStudioTask.key.in_(keys))
        )
    ).all()
    by_number = {row.external_id: row for row in rows if row.external_id is not None}
    by_key = {row.key: row for row in rows}
    found = {number: by_number.get(number) or by_key.get(key or "") for number, key in seen.items()}
    return {number: row for number, row in found.items() if row is not None}


def adopt_tasks(session: Session, link: LabelStudioLink, numbers: Mapping[str, int]) -> int:
    """Tasks that were made there and never written down here, by their keys; how many rows found theirs."""
    found = 0
    keys = list(numbers)
    for first in range(0, len(keys), ROWS_AT_ONCE):
        rows = session.scalars(
            select(LabelStudioTask).where(
                LabelStudioTask.link_id == link.id,
                LabelStudioTask.external_id.is_(None),
                LabelStudioTask.key.in_(keys[first : first + ROWS_AT_ONCE]),
            )
        )
        for row in rows:
            row.external_id = numbers[row.key]
            found += 1
    session.flush()
    return found


def newest_sent(session: Session, link: LabelStudioLink) -> LabelStudioTask | None:
    """The task that was sent last; by it a project is known to be ours."""
    sent = select(LabelStudioTask).where(LabelStudioTask.link_id == link.id, LabelStudioTask.external_id > 0)
    return session.scalar(sent.order_by(LabelStudioTask.external_id.desc()).limit(1))


def submitted_on(session: Session, link: LabelStudioLink, numbers: Sequence[int]) -> dict[int, Example]:
    """The first example that was submitted on each of these tasks, by their numbers there."""
    rows = session.execute(
        select(LabelStudioTask.external_id, Example)
        .join(LabelStudioAnnotation, LabelStudioAnnotation.label_studio_task_id == LabelStudioTask.id)
        .join(Example, Example.id == LabelStudioAnnotation.example_id)
        .where(LabelStudioTask.link_id == link.id, LabelStudioTask.external_id.in_(numbers))
        .order_by(Example.id.desc())
    )
    return {number: example for number, example in rows if number is not None}


def _tasks_to_write_on(link: LabelStudioLink, live: Round | None) -> Select[int | None, str | None]:
    tasks = select(LabelStudioTask.context_id, LabelStudioTask.label).where(
        LabelStudioTask.link_id == link.id, LabelStudioTask.context_id.is_not(None), is_standing()
    )
    if live is None:
        return tasks
    written_before = (
        select(Example.id)
        .join(LabelStudioAnnotation, LabelStudioAnnotation.example_id == Example.id)
        .where(LabelStudioAnnotation.label_studio_task_id == LabelStudioTask.id, Example.round_id != live.id)
    )
    return tasks.where(~written_before.exists())


def hold_link(session: Session, link: LabelStudioLink) -> LabelStudioLink:
    """The link as it is now. One plan at a time: two would both make the missing tasks."""
    return session.get_one(LabelStudioLink, link.id, with_for_update=True, populate_existing=True)


def is_standing() -> ColumnElement[bool]:
    """The task is neither of a project that is gone nor taken down."""
    return or_(LabelStudioTask.external_id.is_(None), LabelStudioTask.external_id > 0)


def is_for_people() -> ColumnElement[bool]:
    """The task is there to be worked on, and does not only show what a crowd worker handed in."""
    return or_(LabelStudioTask.context_id.is_not(None), LabelStudioTask.example_id.is_not(None))


def is_used() -> ColumnElement[bool]:
    """Somebody's annotation of the task became a vote, or nothing."""
    read = select(LabelStudioAnnotation.id).where(
        LabelStudioAnnotation.label_studio_task_id == LabelStudioTask.id,
        or_(LabelStudioAnnotation.vote_id.is_not(None), LabelStudioAnnotation.problem.is_not(None)),
    )
    return read.exists()
