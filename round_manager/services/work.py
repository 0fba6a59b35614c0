"""What a worker's page can do: open a HIT, ask the target, submit, skip, judge, take a quiz, report and finish.

Each function is one use case with one write transaction; asking the target takes one read transaction before the model
is asked and one write transaction after it. A page is identified by the public id of its session. It shows a mark of
the text and target with each call about an example to write, so that it is never held to a text that it does not show.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from common.errors import CodedError
from common.messages import gettext
from ml_backend.judge import Judge
from round_manager.models import (
    Attempt,
    Hit,
    HitKind,
    QuizResult,
    Round,
    SessionStatus,
    Task,
    Worker,
    WorkSession,
    spec_of,
)
from round_manager.novelty.decisions import duplicate_rule, find_repetition
from round_manager.services.context import ServiceContext
from round_manager.work import (
    active_time,
    addresses,
    attempts,
    browsers,
    creation,
    instructions,
    quizzes,
    reports,
    session_start,
    sessions,
    validation_work,
)
from round_manager.work.attempts import CreationItem, ReadInput
from round_manager.work.browsers import PageBrowser
from round_manager.work.errors import HitReassigned, PageUnknown, TimeIsOver, WorkRefused
from round_manager.work.item_cache import ItemCache
from round_manager.work.leases import SWEPT_AT_ONCE
from round_manager.work.sessions import SessionContext
from round_manager.work.validation_work import Judgement, ValidationItem
from templates import TaskSpec
from templates.sections import Duplicates

MICROSECONDS = 1_000_000
LONGEST_REASON = 1_000
_HIT = select(Hit).where(Hit.public_id == bindparam("public_id"))
_HIT_DETAILS = (
    select(Hit, Task, Round)
    .join(Task, Task.id == Hit.task_id)
    .outerjoin(Round, Round.id == Hit.round_id)
    .where(Hit.public_id == bindparam("public_id"))
)


@dataclass(frozen=True)
class HitDetails:
    """A HIT with its task, round and terms of work; `duplicates` is None in a round that decides on none."""

    hit: Hit
    task: Task
    round: Round | None
    spec: TaskSpec
    duplicates: Duplicates | None


@dataclass(frozen=True)
class OpenedPage:
    """A worker's page: its HIT, its session, and the language that the worker chose, if any."""

    details: HitDetails
    work: WorkSession
    language: str | None
    # The version of the HIT's instructions that the worker has read.
    instructions_read: str | None


@dataclass(frozen=True)
class PageState:
    """A session as its page shows it; the items are of one of three kinds."""

    hit: Hit
    spec: TaskSpec
    status: SessionStatus
    now: datetime
    deadline: datetime
    active_ms: int
    creation: tuple[CreationItem, ...] = ()
    validation: tuple[ValidationItem, ...] = ()
    quiz: QuizResult | None = None
    attempts_left: int = 0
    # Nothing was left in the HIT, and it is paid anyway.
    is_empty: bool = False
    # The answers of a quiz that are chosen and not scored yet; None for an open question.
    quiz_draft: tuple[int | None, ...] | None = None
    missing: tuple[int, ...] = ()
    # Why an attempt's text would earn no bonus, by the attempt's id.
    warnings: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AttemptResult:
    """What the target said; `number` counts the attempts on this context, `repeated` ones use no further attempt.

    `warning` says why the text would earn no bonus, if it is not new.
    """

    spec: TaskSpec
    attempt: Attempt
    number: int
    used: int
    repeated: bool
    warning: str | None = None


@dataclass(frozen=True)
class QuizOutcome:
    """The result of a quiz attempt."""

    spec: TaskSpec
    result: QuizResult
    attempts_left: int


def find_hit(context: ServiceContext, hit: UUID) -> HitDetails:
    """Return a HIT for its preview."""
    with context.store.read() as session:
        return _hit(session, hit)


def open_page(
    context: ServiceContext,
    hit: UUID,
    assignment: str,
    worker: str,
    *,
    submit_to: str = "",
    is_proven: bool = True,
    held: Collection[str] | None = None,
    language: str | None = None,
    before_new: Callable[[], None] = lambda: None,
) -> OpenedPage:
    """Return the session of a worker who accepted the HIT; `before_new` may refuse to create one.

    The number of pages is limited if the marketplace did not prove the acceptance. `held` are the other HITs that the
    worker holds, as far as the marketplace names them; without a proof, they are ignored. A `language` is stored as the
    one that the worker chose.
    """
    with context.store.read() as session:
        is_known = session_start.has_session(session, _find_hit(session, hit), assignment, worker)
        is_overdue = sessions.has_overdue(session, now=context.now())
    if is_overdue:
        # Not all of it: after a long stop there may be much, and a worker waits.
        with context.store.write() as session:
            sessions.sweep(session, now=context.now())
    if not is_known:
        before_new()
    with context.store.write() as session:
        details = _hit(session, hit)
        work = session_start.open_session(
            session,
            details.hit,
            assignment,
            worker,
            now=context.now(),
            submit_to=submit_to,
            is_proven=is_proven,
            is_known=is_known,
            held=held if is_proven else None,
        )
        known_language, read = instructions.reader(session, work, details.hit)
        if language is not None and language != known_language:
            session.get_one(Worker, work.worker_id).language = language
        opened = OpenedPage(details, work, language or known_language, read)
    if work.status is SessionStatus.EXPIRED:
        raise TimeIsOver(sessions.OVER)
    if work.status is SessionStatus.UNCONFIRMED:
        raise HitReassigned
    return opened


def record_instructions_read(context: ServiceContext, page: UUID, version: str) -> None:
    """Store that the page's worker has read this version of the instructions."""
    with context.store.write() as session:
        at = sessions.find_page(session, page)
        instructions.record_read(session, at.work, at.hit, version, now=context.now())


def admit_browser(context: ServiceContext, page: UUID, browser: PageBrowser) -> bool:
    """Let a browser use the page, or raise PageInOtherBrowser; return whether it is a guest."""
    now = context.now()
    with context.store.read() as session:
        if browsers.is_own(session, page, browser, now=now):
            return False
    with context.store.write() as session:
        return browsers.admit(session, page, browser, now=now)


def page_state(context: ServiceContext, page: UUID) -> PageState:
    """Return everything that the page shows now."""
    now = context.now()
    with context.store.read() as session:
        at = sessions.find_page(session, page)
        kind, work = at.hit.kind, at.work
        is_over = work.status is SessionStatus.OPEN and now >= work.expires_at
        written = tuple(attempts.creation_items(session, at)) if kind is HitKind.CREATE else ()
        taken = next(reversed(quizzes.results_of(session, work)), None) if kind is HitKind.QUIZ else None
        left = quizzes.attempts_left(session, at) if kind is HitKind.QUIZ else 0
        return PageState(
            hit=at.hit,
            spec=at.spec,
            status=SessionStatus.EXPIRED if is_over else work.status,
            now=now,
            deadline=work.expires_at,
            active_ms=work.active_ms,
            creation=written,
            validation=tuple(validation_work.validation_items(session, at)) if kind is HitKind.VALIDATE else (),
            quiz=taken,
            attempts_left=left,
            is_empty=work.empty_at is not None,
            quiz_draft=quizzes.draft_of(work, taken, left),
            # If the round was closed, workers submit what they have.
            missing=_missing(session, at, written) if at.takes_work else (),
            warnings=_warnings(session, at, written),
        )


def save_page_draft(
    context: ServiceContext, page: UUID, item: int, draft: Mapping[str, Any], *, read_mark: Callable[[], str]
) -> None:
    """Store what is on the page for an item; an example to write must be the one that the page shows."""
    with context.store.write() as session:
        work = sessions.lock_page(session, page)
        if sessions.session_context(session, work).hit.kind is HitKind.CREATE:
            attempts.lock_item(session, work, item)[1].check_mark(read_mark())
        sessions.save_draft(session, work, item, draft, now=context.now())


def ask_target(
    context: ServiceContext,
    judge: Judge,
    page: UUID,
    item: int,
    *,
    mark: str,
    read: ReadInput,
    draft: Mapping[str, Any] | None,
    items: ItemCache | None = None,
    before_asking: Callable[[SessionContext], None] = lambda _at: None,
) -> AttemptResult:
    """Put what is on the page to the target and store the attempt; the same input again uses no further attempt.

    Everything is checked before the model is asked, without a lock, and again in the transaction that stores the
    attempt: another window may have skipped the text meanwhile, or the time may be over. If there is a draft, it is
    stored with the attempt, or alone if the model cannot be asked.
    """
    items = items or ItemCache()
    with context.store.read() as session:
        known = items.find(session, page, item)
        at, shown = known.context, known.item
        shown.check_mark(mark)
        asked = shown.input_of(read(shown))
        earlier = shown.attempt_on(asked)
        if earlier is None:
            attempts.check_attempt(at, shown, asked, now=context.now())
            if draft is not None:
                sessions.check_draft(draft)
        warning = _warning(session, at, shown, asked.fields)
        if earlier is not None:
            return _attempt_result(shown, earlier, repeated=True, warning=warning)
    items.keep(page, known)
    before_asking(at)
    began = time.monotonic()
    try:
        verdict = judge.judge(attempts.judge_request(at, asked, known.pinned))
    except CodedError:
        if draft is not None:
            with suppress(WorkRefused), context.store.write() as session:
                attempts.lock_item(session, at.work, item)[1].check_mark(mark)
                sessions.save_draft(session, at.work, item, draft, now=context.now())
        raise
    latency_us = int((time.monotonic() - began) * MICROSECONDS)
    with context.store.write() as session:
        sessions.lock_page_alone(session, page)
        known = items.find(session, page, item)
        known.item.check_mark(mark)
        attempt = attempts.record_attempt(
            session, known.context, known.item, asked, verdict, known.pinned, latency_us=latency_us, now=context.now()
        )
        if draft is not None:
            sessions.update_draft(session, known.item.row, draft)
    if attempt not in known.item.attempts:
        items.keep(page, known.with_attempt(attempt))
    return _attempt_result(known.item, attempt, repeated=False, warning=warning)


def submit_example(
    context: ServiceContext,
    page: UUID,
    item: int,
    *,
    mark: str,
    read: ReadInput,
    active_ms: int | None = None,
    warn: bool = False,
) -> CreationItem:
    """Store what is on the page as an example, and return the item as it is now; a repeated call changes nothing.

    With `warn`, a text that is not new is refused with EarnsNoBonus, so that the page can ask the worker.
    """
    with context.store.write() as session:
        at, shown = attempts.lock_page_item(session, page, item)
        shown.check_mark(mark)
        now = context.now()
        example = creation.submit_item(session, at, shown, read(shown), now=now, active_ms=active_ms, warn=warn)
        return replace(shown, example=example, is_written_elsewhere=False)


def skip_context(
    context: ServiceContext, page: UUID, item: int, *, mark: str, reason: str = "", active_ms: int | None = None
) -> CreationItem:
    """Give the item another context; a reason becomes a report to the owner."""
    now = context.now()
    with context.store.write() as session:
        work = sessions.find_session(session, page)
        given_up = attempts.creation_item(session, work, item)[1].context.key
        shown = creation.skip(session, work, item, mark=mark, now=now, active_ms=active_ms)
        if reason:
            # The limit on reports must not keep a worker from skipping.
            with suppress(WorkRefused):
                text = f"skipped {given_up}: {reason[:LONGEST_REASON]}"
                reports.report(session, work, item, text, now=now)
        return shown


def judge_example(
    context: ServiceContext,
    page: UUID,
    item: int,
    *,
    read: Callable[[TaskSpec, ValidationItem], Judgement],
    draft: Mapping[str, Any] | None = None,
    active_ms: int | None = None,
) -> tuple[TaskSpec, ValidationItem]:
    """Store a judgement and, if given, the page's draft; return the item as it is now."""
    now = context.now()
    with context.store.write() as session:
        work = sessions.lock_page(session, page)
        at = sessions.session_context(session, work)
        judgement = read(at.spec, validation_work.validation_item(session, at, item))
        validation_work.judge_item(session, work, item, judgement, now=now, active_ms=active_ms)
        if draft is not None:
            sessions.save_draft(session, work, item, draft, now=now)
        return at.spec, validation_work.validation_item(session, at, item)


def take_quiz(context: ServiceContext, page: UUID, answers: Sequence[int]) -> QuizOutcome:
    """Score and store a quiz attempt."""
    with context.store.write() as session:
        at = sessions.session_context(session, sessions.lock_page(session, page))
        result = quizzes.take_quiz(session, at.work, answers, now=context.now())
        return QuizOutcome(at.spec, result, quizzes.attempts_left(session, at))


def save_quiz_draft(context: ServiceContext, page: UUID, answers: Sequence[int | None]) -> None:
    """Store the answers that are chosen so far."""
    with context.store.write() as session:
        quizzes.save_draft(session, sessions.lock_page(session, page), answers, now=context.now())


def report_problem(context: ServiceContext, page: UUID, item: int | None, text: str) -> None:
    """Report a problem with a HIT, or with one of its items, to the owner."""
    with context.store.write() as session:
        work = sessions.lock_page(session, page)
        # The questions of a quiz are not items.
        is_quiz = sessions.session_context(session, work).hit.kind is HitKind.QUIZ
        reports.report(session, work, None if is_quiz else item, text, now=context.now())


def record_active_time(context: ServiceContext, page: UUID, active_ms: int) -> int:
    """Store the active time that a page has counted so far, and return what is believed of it."""
    with context.store.write() as session:
        work = sessions.lock_page(session, page)
        return active_time.record_active_time(session, work, active_ms, now=context.now())


def finish_page(context: ServiceContext, page: UUID) -> WorkSession:
    """Mark the session as submitted and return it; a repeated call changes nothing."""
    with context.store.write() as session:
        return sessions.finish_page(session, page, now=context.now())


def end_overdue_work(context: ServiceContext) -> int:
    """End pages and leases whose time is over, in transactions of limited size; return how many."""
    ended = 0
    while True:
        with context.store.write() as session:
            more = sessions.sweep(session, now=context.now())
        ended += more
        if more < SWEPT_AT_ONCE:
            return ended


def forget_addresses(context: ServiceContext) -> int:
    """Delete the hashes of addresses that are 30 days old, in transactions of limited size; return how many."""
    deleted, now = 0, context.now()
    while True:
        with context.store.read() as session:
            if not addresses.has_old_addresses(session, now=now):
                return deleted
        with context.store.write() as session:
            deleted += addresses.delete_old_addresses(session, now=now)


def _find_hit(session: Session, public_id: UUID) -> Hit:
    hit = session.scalar(_HIT, {"public_id": public_id})
    if hit is None:
        raise _unknown_hit()
    return hit


def _unknown_hit() -> PageUnknown:
    return PageUnknown(gettext("this HIT is not known here; return it and take another one"))


def _hit(session: Session, public_id: UUID) -> HitDetails:
    found = session.execute(_HIT_DETAILS, {"public_id": public_id}).one_or_none()
    if found is None:
        raise _unknown_hit()
    hit, task, round = found
    return HitDetails(hit, task, round, spec_of(round or task), None if round is None else duplicate_rule(round))


def _missing(session: Session, at: SessionContext, written: Sequence[CreationItem]) -> tuple[int, ...]:
    """Return the numbers of the items that are not done, from those to write if they have been read."""
    if at.hit.kind is HitKind.CREATE:
        return tuple(one.item for one in written if one.example is None)
    return tuple(sessions.missing_items(session, at))


def _warnings(session: Session, at: SessionContext, items: Sequence[CreationItem]) -> dict[int, str]:
    """Return why attempts' texts would earn no bonus, by the attempts' ids."""
    found = {one.id: _warning(session, at, item, one.fields) for item in items for one in item.attempts}
    return {number: warning for number, warning in found.items() if warning is not None}


def _warning(session: Session, at: SessionContext, shown: CreationItem, fields: Mapping[str, Any]) -> str | None:
    """Return why a text would earn no bonus; None if it is new, or if its example is submitted or the round over."""
    if not at.takes_work or shown.example is not None:
        return None
    repetition = find_repetition(session, at.open_round, at.spec, at.work.worker_id, fields)
    return None if repetition is None else creation.repetition_warning(repetition)


def _attempt_result(item: CreationItem, attempt: Attempt, *, repeated: bool, warning: str | None) -> AttemptResult:
    ids = [one.id for one in item.attempts]
    if attempt.id not in ids:
        ids.append(attempt.id)
    return AttemptResult(item.spec, attempt, ids.index(attempt.id) + 1, len(ids), repeated, warning)
