"""The tasks that Label Studio should have: planned once, sent, and recognised by their keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Select, String, and_, cast, func, literal, or_, select, update
from sqlalchemy.orm import Session, aliased

from round_manager.labelstudio.port import LabelStudio, id_pages
from round_manager.labelstudio.projects import lock_link
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
from round_manager.tasks.rounds import LIVE, live_round
from round_manager.work.context_strategies import RANKS, ContextUsage, SeededOrder, order_key
from templates import TaskSpec
from templates.payloads import next_target
from templates.rows import Context as PackContext

ROWS_AT_ONCE = 500
TASKS_PER_PAGE = 500
_RETURNED = "returned:"


@dataclass(frozen=True)
class Unsent:
    """A task to send to Label Studio: a context to write for, or an example to check."""

    row: int
    key: str
    label: str | None
    context: PackContext | None
    fields: Mapping[str, Any] | None
    returned: Mapping[str, str] | None = None


def plan_creation(session: Session, link: LabelStudioLink, spec: TaskSpec, *, now: datetime) -> int:
    """Plan a task for each active context that has none to write on, in the strategy's order; return how many.

    Once a round is open, a task that an earlier round's example was written on is used up. Of the labels that a
    context allows, the one requested least so far is chosen.
    """
    lock_link(session, link)
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
    """Return the active contexts in the order of the task's strategy, then in the owner's order."""
    of_round = and_(ContextTally.context_id == Context.id, ContextTally.round_id == (live.id if live else None))
    used, fooled = (func.coalesce(count, 0) for count in (ContextTally.used, ContextTally.fooled))
    strategy, salt = spec.rounds.context_strategy, session.get_one(Task, link.task_id).worker_salt
    seed = order_key(salt.encode(), "label studio", link.kind.value, live.number if live else 0)
    # Label Studio does not report which tasks are being worked on.
    rank = RANKS[strategy](ContextUsage(Context.id, Context.position, used, fooled, leased=0))
    living = (
        select(Context)
        .outerjoin(ContextTally, of_round)
        .where(Context.task_id == link.task_id, Context.retired_at.is_(None))
    )
    first = [SeededOrder(seed).of_column(Context.id)] if strategy == "uniform" else rank
    return session.scalars(living.order_by(*first, Context.position)).all()


def plan_validation(session: Session, link: LabelStudioLink, *, now: datetime) -> int:
    """Plan a task for each missing vote of a pending example that no open task asks for; return how many."""
    lock_link(session, link)
    if not _takes(live_round(session, link.task_id), ProjectKind.VALIDATE):
        return 0
    votes = select(func.count()).select_from(Vote).where(Vote.example_id == Example.id).scalar_subquery()
    tasks = select(func.count()).select_from(LabelStudioTask).where(
        LabelStudioTask.link_id == link.id, LabelStudioTask.example_id == Example.id
    )  # fmt: skip
    free = tasks.where(is_active(), ~is_answered()).scalar_subquery()
    pending = (
        select(Example.id, Example.public_id, Example.votes_wanted - votes - free, tasks.scalar_subquery())
        .join(Round, Round.id == Example.round_id)
        .where(
            Example.task_id == link.task_id,
            Round.status.in_(LIVE),
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


def plan_return(
    session: Session, refused: LabelStudioAnnotation, returned: Mapping[str, str], *, now: datetime
) -> None:
    """Plan a task that returns a refused submission with its text and the reason; once for each annotation."""
    task, key = session.get_one(LabelStudioTask, refused.label_studio_task_id), returned_key(refused)
    mine = (LabelStudioTask.link_id == refused.link_id, LabelStudioTask.key == key)
    known = session.scalar(select(LabelStudioTask).where(*mine))
    if known is None:
        known = LabelStudioTask(
            link_id=task.link_id, key=key, context_id=task.context_id, label=task.label, created_at=now
        )
        session.add(known)
    known.returned = dict(returned)
    session.flush()


def returned_key(refused: LabelStudioAnnotation) -> str:
    """Return the key of the task that returns a refused submission."""
    return f"{_RETURNED}{refused.id}"


def needless_returns(session: Session, link: LabelStudioLink) -> Sequence[LabelStudioTask]:
    """Return the tasks that return a submission which was corrected in its place, unless someone worked on them."""
    task, refused, read = LabelStudioTask, aliased(LabelStudioAnnotation), aliased(LabelStudioAnnotation)
    corrected = select(refused.id).where(
        refused.link_id == link.id,
        refused.example_id.is_not(None),
        task.key == literal(_RETURNED) + cast(refused.id, String),
    )
    worked_on = select(read.id).where(read.label_studio_task_id == task.id)
    found = select(task).where(
        task.link_id == link.id, task.returned.is_not(None), is_active(), corrected.exists(), ~worked_on.exists()
    )
    return session.scalars(found.order_by(task.id)).all()


def unsent_tasks(session: Session, link: LabelStudioLink) -> list[Unsent]:
    """Return the planned tasks that are not known to be in Label Studio; oldest first."""
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
                (Example.status == ExampleStatus.PENDING) & Round.status.in_(LIVE),
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
            task.returned,
        )
        for task, context, example in session.execute(waiting)
    ]


def _takes(live: Round | None, kind: ProjectKind) -> bool:
    """Whether new work of this kind is sent; before a round is open, contexts are sent in advance."""
    if live is None:
        return True
    return live.paused_at is None and (kind is ProjectKind.VALIDATE or live.status is RoundStatus.OPEN)


def mark_sent(session: Session, ids: Mapping[int, int]) -> list[int]:
    """Record the task ids of rows; return the ids whose row already had another one."""
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
    """Return our rows of tasks in Label Studio, by their ids there; `seen` maps each id to the task's key.

    A task that was created twice, or never recorded, is recognised by its key, so that no work on it is lost.
    """
    keys = [key for key in seen.values() if key is not None]
    mine = LabelStudioTask.link_id == link.id
    rows = session.scalars(
        select(LabelStudioTask).where(
            mine, is_active(), or_(LabelStudioTask.external_id.in_(list(seen)), LabelStudioTask.key.in_(keys))
        )
    ).all()
    by_number = {row.external_id: row for row in rows if row.external_id is not None}
    by_key = {row.key: row for row in rows}
    found = {number: by_number.get(number) or by_key.get(key or "") for number, key in seen.items()}
    return {number: row for number, row in found.items() if row is not None}


def adopt_tasks(session: Session, link: LabelStudioLink, numbers: Mapping[str, int]) -> int:
    """Record tasks that were created in Label Studio but never recorded, by their keys; return how many."""
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


def find_task_ids(label_studio: LabelStudio, link: LabelStudioLink, keys: set[str]) -> dict[str, int]:
    """Look up the ids of the tasks with these keys; leave out those that Label Studio does not have."""
    found: dict[str, int] = {}
    for page in id_pages(partial(label_studio.tasks_after, link.project), TASKS_PER_PAGE):
        for task in page.tasks:
            if task.key in keys:
                found.setdefault(task.key, task.id)
        if len(found) == len(keys):
            break
    return found


def newest_sent(session: Session, link: LabelStudioLink) -> LabelStudioTask | None:
    """Return the task that was sent last, which identifies a project as ours."""
    sent = select(LabelStudioTask).where(LabelStudioTask.link_id == link.id, LabelStudioTask.external_id > 0)
    return session.scalar(sent.order_by(LabelStudioTask.external_id.desc()).limit(1))


def count_sent(session: Session, link: LabelStudioLink) -> int:
    """Return the number of tasks for people that exist in Label Studio."""
    sent = select(func.count()).select_from(LabelStudioTask)
    return session.scalars(
        sent.where(LabelStudioTask.link_id == link.id, LabelStudioTask.external_id > 0, is_for_people())
    ).one()


def submitted_on(session: Session, link: LabelStudioLink, numbers: Sequence[int]) -> dict[int, Example]:
    """Return the first example that was submitted on each of these tasks, by their ids in Label Studio."""
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
        LabelStudioTask.link_id == link.id, LabelStudioTask.context_id.is_not(None), is_active()
    )
    if live is None:
        return tasks
    written_before = (
        select(Example.id)
        .join(LabelStudioAnnotation, LabelStudioAnnotation.example_id == Example.id)
        .where(LabelStudioAnnotation.label_studio_task_id == LabelStudioTask.id, Example.round_id != live.id)
    )
    return tasks.where(~written_before.exists())


def is_active() -> ColumnElement[bool]:
    """The task was not deleted, nor was its project."""
    return or_(LabelStudioTask.external_id.is_(None), LabelStudioTask.external_id > 0)


def is_for_people() -> ColumnElement[bool]:
    """The task is for people to work on; it is not an uploaded crowd submission."""
    return or_(LabelStudioTask.context_id.is_not(None), LabelStudioTask.example_id.is_not(None))


def is_answered() -> ColumnElement[bool]:
    """An annotation of the task became a vote, or could not be read."""
    read = select(LabelStudioAnnotation.id).where(
        LabelStudioAnnotation.label_studio_task_id == LabelStudioTask.id,
        or_(LabelStudioAnnotation.vote_id.is_not(None), LabelStudioAnnotation.problem.is_not(None)),
    )
    return read.exists()
