"""Queues: unfinished work, counted from unfinished rows only, never from everything in the database."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.orm import Session

from round_manager.crowd.confirmation import is_page_finished
from round_manager.crowd.hit_planning import may_be_posted
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryKind,
    EntryState,
    Hit,
    HitKind,
    HitStatus,
    LabelStudioLink,
    LabelStudioTask,
    LedgerEntry,
    Round,
    SessionStatus,
    Task,
    WorkSession,
)

BEING_PAID = (EntryState.OWED, EntryState.SENT)


@dataclass(frozen=True)
class UnsentCreation:
    """A round with HITs to create that wait to be posted."""

    id: int
    task: str
    number: int
    unsent: int


def undecided_work(session: Session, marketplace: str, task_id: int) -> list[tuple[str, bool]]:
    """Return submitted work that is neither decided nor being paid: external ids, and whether its page was finished."""
    # By the HIT, which has few entries: the ledger has no index on assignments alone.
    being_paid = exists().where(
        LedgerEntry.hit_id == Assignment.hit_id,
        LedgerEntry.assignment_id == Assignment.id,
        LedgerEntry.kind == EntryKind.REWARD,
        LedgerEntry.state.in_(BEING_PAID),
    )
    wanted = (
        select(Assignment.external_id, is_page_finished())
        .join(Hit, Hit.id == Assignment.hit_id)
        .where(Assignment.status == AssignmentStatus.SUBMITTED, *_unfinished(task_id))
        .where(Hit.marketplace == marketplace, ~being_paid)
        .order_by(Assignment.id)
    )
    return [(one, bool(is_finished)) for one, is_finished in session.execute(wanted)]


def unsent_hits(session: Session, marketplace: str) -> int:
    """Return the number of HITs that wait to be posted in rounds that accept them now."""
    return session.scalar(select(func.count()).select_from(Hit).where(*_unsent(marketplace))) or 0


def rounds_to_write_for(session: Session, marketplace: str) -> list[UnsentCreation]:
    """Return the rounds with HITs to create that wait to be posted and can be posted now."""
    create = Hit.kind == HitKind.CREATE
    unsent = select(Hit.round_id, func.count().label("hits")).where(*_unsent(marketplace), create)
    of_round = unsent.group_by(Hit.round_id).subquery()
    wanted = (
        select(Round.id, Task.name, Round.number, of_round.c.hits)
        .join(of_round, of_round.c.round_id == Round.id)
        .join(Task, Task.id == Round.task_id)
        .order_by(Round.id)
    )
    return [UnsentCreation(*row) for row in session.execute(wanted)]


def held_for_a_person(session: Session, task_id: int | None = None) -> int:
    """Return the number of HITs and payments that only a person can settle."""
    hits = select(func.count()).select_from(Hit).where(Hit.finished_at.is_(None), Hit.status == HitStatus.HELD)
    entries = select(func.count()).select_from(LedgerEntry)
    entries = entries.where(LedgerEntry.state == EntryState.SENT, LedgerEntry.held_at.is_not(None))
    if task_id is not None:
        hits, entries = hits.where(Hit.task_id == task_id), entries.where(LedgerEntry.task_id == task_id)
    return (session.scalar(hits) or 0) + (session.scalar(entries) or 0)


def unfinished_hits(session: Session, round: Round) -> dict[HitKind, int]:
    """Return the number of the round's unfinished HITs by kind."""
    wanted = (
        select(Hit.kind, func.count())
        # The addition keeps databases from using the index on rounds; the index on unfinished HITs is much shorter.
        .where(Hit.finished_at.is_(None), Hit.round_id + 0 == round.id, Hit.status != HitStatus.REFUSED)
        .group_by(Hit.kind)
    )
    return {kind: int(number) for kind, number in session.execute(wanted)}


def work_to_decide(session: Session, task_id: int) -> int:
    """Return the number of submitted assignments that are not approved yet."""
    # Counted HIT by HIT, so that no plan starts from all assignments in the database.
    of_hit = select(func.count()).where(Assignment.hit_id == Hit.id, Assignment.status == AssignmentStatus.SUBMITTED)
    return int(session.scalar(select(func.sum(of_hit.scalar_subquery())).where(*_unfinished(task_id))) or 0)


def pages_to_confirm(session: Session, task_id: int) -> int:
    """Return the number of submitted pages that the marketplace has not confirmed yet."""
    waiting = select(func.count()).select_from(WorkSession).join(Hit, Hit.id == WorkSession.hit_id)
    wanted = waiting.where(WorkSession.status == SessionStatus.SUBMITTED, Hit.task_id == task_id)
    return session.scalar(wanted) or 0


def payments_of(session: Session, task_id: int, state: EntryState) -> int:
    """Return the number of the task's payments in an unsettled state."""
    wanted = select(func.count()).where(LedgerEntry.task_id == task_id, LedgerEntry.state == state)
    return session.scalar(wanted) or 0


def unsent_to_label_studio(session: Session, task_id: int) -> int:
    """Return the number of tasks that are planned for Label Studio but not sent yet."""
    wanted = (
        select(func.count())
        .select_from(LabelStudioTask)
        .join(LabelStudioLink, LabelStudioLink.id == LabelStudioTask.link_id)
        .where(LabelStudioTask.external_id.is_(None), LabelStudioLink.task_id == task_id)
    )
    return session.scalar(wanted) or 0


def _unsent(marketplace: str) -> tuple[ColumnElement[bool], ...]:
    here = Hit.marketplace == marketplace
    return here, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_(None), may_be_posted()


def _unfinished(task_id: int) -> tuple[ColumnElement[bool], ...]:
    """Return the condition for a task's unfinished HITs; a HIT with undecided work is one of them."""
    # The addition keeps databases from using other indexes; the index on unfinished HITs is much shorter.
    return Hit.finished_at.is_(None), Hit.task_id + 0 == task_id
