"""Creating: the examples that a worker writes in a session, from the context they get to the text they hand in."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from common.text import count
from round_manager.database.columns import equals_unindexed, public_id
from round_manager.errors import NothingToDo, OtherText, SubmissionRefused, WorkRefused
from round_manager.examples.attempts import link_attempts
from round_manager.examples.submissions import Submission, check_submission, content_sha256, is_sampled
from round_manager.models import (
    Attempt,
    Context,
    Example,
    ExampleStatus,
    LeaseEnd,
    Round,
    Source,
    Worker,
    WorkItem,
    WorkSession,
)
from round_manager.policies import first_votes
from round_manager.tasks.contexts import pack_context
from round_manager.work.attempts import (
    AttemptInput,
    PageInput,
    attempt_input,
    attempts_of,
    check_not_written_elsewhere,
    example_of,
    is_written_elsewhere,
    same_attempt,
    unwritten_item,
    writing_item,
)
from round_manager.work.leases import end_lease, label_counts, lease_contexts, lock_task
from round_manager.work.sessions import (
    VALID_SESSIONS,
    SessionContext,
    add_item_time,
    items_of,
    lock_for_work,
    lock_session,
    session_context,
)
from templates import TaskSpec
from templates.payloads import next_target

DIGITS = 16


@dataclass(frozen=True)
class CreationItem:
    """One example to write, as its page shows it; the tries are those on this context."""

    item: int
    context: Context
    target: str | None
    draft: Mapping[str, Any]
    tries: tuple[Attempt, ...]
    tries_left: int
    can_skip: bool
    example: Example | None


def assign_contexts(session: Session, desk: SessionContext, *, now: datetime) -> None:
    """The items that the session lacks, each with a context of its own; the task's turn must be taken."""
    work = desk.work
    there = {row.item for row in items_of(session, work)}
    lacking = [item for item in range(desk.spec.work.examples_per_hit) if item not in there]
    found = _contexts(session, desk, len(lacking), now)
    if not found and not there:
        raise NothingToDo("you have written on everything that there is in this task; return the HIT, please")
    session.add_all(
        WorkItem(session_id=work.id, worker_id=work.worker_id, item=item, context_id=context_id, label=label)
        for item, (context_id, label) in zip(lacking, found, strict=False)
    )
    session.flush()


def creation_items(session: Session, work: WorkSession) -> list[CreationItem]:
    """Everything that the creation page shows."""
    spec = session_context(session, work).spec
    return [_shown(session, spec, row) for row in items_of(session, work)]


def skip(
    session: Session, work: WorkSession, item: int, *, now: datetime, active_ms: int | None = None
) -> CreationItem:
    """The item with another context, once enough tries were made on this one, or another page has written on it.

    `active_ms` is what the page has counted so far; the time on the text that is given up is no example's.
    """
    lock_task(session, session_context(session, work).hit.task_id)
    desk = lock_for_work(session, work, now=now)
    row = unwritten_item(session, work, item)
    made, needed = len(attempts_of(session, row)), desk.spec.work.tries_before_skip
    if made < needed and not is_written_elsewhere(session, desk.spec, row):
        often = count(needed, "time")
        raise WorkRefused(f"try at least {often} before you skip this one; that is {needed - made} more")
    given_up = row.context_id
    found = _contexts(session, desk, 1, now)
    if not found:
        raise NothingToDo("there is nothing else that you have not had; go on with this one, or return the HIT")
    ((row.context_id, row.label),) = found
    row.draft = {}
    add_item_time(session, desk.work, row, active_ms, now=now)
    end_lease(session, desk.work, given_up, LeaseEnd.SKIPPED, now=now)
    session.flush()
    return _shown(session, desk.spec, row)


def submit_item(
    session: Session, work: WorkSession, item: int, written: PageInput, *, now: datetime, active_ms: int | None = None
) -> Example:
    """The example, with the verdict that its worker saw on exactly this text; once more gives the same one.

    It is unconfirmed until the marketplace says who wrote it. `active_ms` is what the page has counted so far.
    """
    held = lock_session(session, work)
    spec, row = session_context(session, held).spec, writing_item(session, held, item)
    asked = attempt_input(session, spec, row, written)
    extra = _of_role(spec, written, "extra")
    reasons = {name: text for name, text in _of_role(spec, written, "reason").items() if text.strip()}
    known = example_of(session, row)
    if known is not None:
        same = (known.fields, known.label, known.answer) == (asked.fields | extra, asked.label, asked.answer)
        if same and (known.explanation or {}) == reasons:
            return known
        raise WorkRefused("something else was handed in for this example already; go on with the next one")
    desk = lock_for_work(session, held, now=now)
    _check_names(spec, written)
    tries = attempts_of(session, row)
    example = _example(session, desk, row, asked, extra, reasons, now)
    example.tries, example.active_ms = len(tries), add_item_time(session, held, row, active_ms, now=now)
    session.add(example)
    session.flush()
    link_attempts(tries, example)
    end_lease(session, held, row.context_id, LeaseEnd.USED, now=now)
    session.flush()
    return example


def _example(
    session: Session,
    desk: SessionContext,
    row: WorkItem,
    asked: AttemptInput,
    extra: Mapping[str, str],
    reasons: Mapping[str, str],
    now: datetime,
) -> Example:
    spec, round, fields = desk.spec, desk.open_round, {**asked.fields, **extra}
    submission = Submission(
        fields, asked.label, asked.answer, reasons, row.context_id, row.worker_id, Source.PAGES, submitted_at=now
    )
    try:
        check_submission(spec, submission)
    except SubmissionRefused as error:
        raise WorkRefused(str(error)) from error
    attempt = _verdict_on(session, spec, row, asked)
    content = content_sha256(spec, fields)
    _check_new(session, round, row.worker_id, content)
    check_not_written_elsewhere(session, spec, row)
    own_id = public_id(now)
    wanted = bool(attempt.fooled) or is_sampled(own_id, spec.validation.sample_non_fooling)
    return Example(
        public_id=own_id,
        task_id=round.task_id,
        round_id=round.id,
        context_id=row.context_id,
        author_id=row.worker_id,
        source=Source.PAGES,
        session_id=row.session_id,
        item=row.item,
        fields=fields,
        content_sha256=content,
        label=asked.label,
        answer=asked.answer,
        explanation=dict(reasons) or None,
        submitted_at=now,
        verdict_id=attempt.public_id,
        verdict=attempt.verdict,
        model_version_id=attempt.model_version_id,
        confidence=attempt.confidence,
        fooled=bool(attempt.fooled),
        status=ExampleStatus.UNCONFIRMED,
        votes_wanted=first_votes(spec.validation) if wanted else 0,
    )


def _verdict_on(session: Session, spec: TaskSpec, row: WorkItem, asked: AttemptInput) -> Attempt:
    attempt = same_attempt(session, spec, row, asked)
    if attempt is None:
        raise WorkRefused("the model has not been asked about exactly this text; ask it, then hand it in")
    made, needed = len(attempts_of(session, row)), spec.work.tries_before_skip
    if not attempt.fooled and made < needed:
        often = count(needed, "time")
        text = f"the model was right; try at least {often} before you hand in a text that does not fool it"
        raise WorkRefused(f"{text}; that is {needed - made} more")
    return attempt


def _check_names(spec: TaskSpec, written: PageInput) -> None:
    asked_for = {field.name for field in spec.fields if field.role in ("input", "extra", "reason")}
    for name in written.fields:
        if name not in asked_for:
            raise WorkRefused(f"`{name[:40]}` is nothing that this page asks for; load it again")


def _of_role(spec: TaskSpec, written: PageInput, role: str) -> dict[str, str]:
    names = [field.name for field in spec.with_role(role)]
    return {name: written.fields[name] for name in names if name in written.fields}


def _check_new(session: Session, round: Round, author_id: int, content: str) -> None:
    # One submission of an author at a time: of two equal ones that come at once, one sees the other.
    session.execute(select(Worker.id).where(Worker.id == author_id).with_for_update(key_share=True))
    same = (
        select(Example.id)
        .outerjoin(WorkSession, WorkSession.id == Example.session_id)
        .where(
            Example.task_id == round.task_id,
            Example.content_sha256 == content,
            equals_unindexed(Example.round_id, round.id),
            equals_unindexed(Example.author_id, author_id),
            Example.status != ExampleStatus.WITHDRAWN,
            or_(Example.session_id.is_(None), WorkSession.status.in_(VALID_SESSIONS)),
        )
    )
    if session.scalar(same.limit(1)) is not None:
        raise WorkRefused("you have handed in the same text already; write another one")


def _contexts(session: Session, desk: SessionContext, most: int, now: datetime) -> list[tuple[int, str | None]]:
    """Contexts that are set aside for the session, each with the label to write for where the task sets it."""
    asked = label_counts(session, desk.open_round, now=now)
    leased = lease_contexts(session, desk.work, desk.open_round, desk.spec, most, now=now)
    rows = [session.get_one(Context, one) for one in leased]
    return [(row.id, next_target(desk.spec, pack_context(row), asked)) for row in rows]


def _shown(session: Session, spec: TaskSpec, row: WorkItem) -> CreationItem:
    tries, example = attempts_of(session, row), example_of(session, row)
    left = max(0, spec.work.tries - len(tries))
    is_tried = len(tries) >= spec.work.tries_before_skip
    can_skip = example is None and (is_tried or is_written_elsewhere(session, spec, row))
    context = session.get_one(Context, row.context_id)
    return CreationItem(row.item, context, row.label, row.draft, tuple(tries), left, can_skip, example)


def mark_of(item: CreationItem) -> str:
    """The mark of an example to write; it tells a page nothing but whether it is still the same."""
    return _mark(item.context.id, item.target)


def check_mark(session: Session, work: WorkSession, item: int, mark: str) -> None:
    """The item is the one that the page shows, and stays it until the transaction ends; else an OtherText."""
    lock_session(session, work)
    row = writing_item(session, work, item)
    _compare(mark, _mark(row.context_id, row.label))


def check_shown(item: CreationItem, mark: str) -> None:
    """The item as it was read is the one that the page shows; else an OtherText."""
    _compare(mark, mark_of(item))


def _compare(mark: str, wanted: str) -> None:
    if mark != wanted:
        raise OtherText("this example has another text now; here it is")


def _mark(context_id: int | None, target: str | None) -> str:
    return hashlib.sha256(repr((context_id, target)).encode()).hexdigest()[:DIGITS]
