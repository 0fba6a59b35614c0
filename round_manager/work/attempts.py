"""Attempts on worker pages: each question is put to the target once, within the task's limit of attempts.

A page sends what was written, and nothing else. The context and the label come from the session's own item. A verdict
comes from the model, is stored as an attempt, and is found again by exactly the inputs and the target it was given on.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, bindparam, or_, select
from sqlalchemy.orm import Session

from common.messages import gettext, ngettext
from ml_backend.errors import VerdictError
from ml_backend.judge import JudgeRequest
from ml_backend.verdict import INPUTS_HASH, Verdict, inputs_hash
from round_manager.database.columns import equals_unindexed, is_in
from round_manager.errors import DuplicateError, StaleVerdict
from round_manager.examples.attempts import new_attempt
from round_manager.examples.submissions import (
    FieldName,
    InputProblem,
    check_verdict,
    field_problem,
    target_of,
    target_problem,
)
from round_manager.models import (
    VALID_SESSIONS,
    Attempt,
    Context,
    Example,
    ExampleStatus,
    Hit,
    Round,
    Source,
    WorkItem,
    WorkSession,
)
from round_manager.models.rows import insert_row
from round_manager.models.table import table_of
from round_manager.work import errors
from round_manager.work.errors import OtherText
from round_manager.work.sessions import (
    OF_ITEM,
    SessionContext,
    context_of,
    find_session,
    is_item,
    lock_page_alone,
    lock_session,
    no_such_item,
    note_lock,
)
from templates import TaskSpec

# The roles of fields that a verdict is about; the other fields can wait until the example is submitted.
ATTEMPT_ROLES = ("context", "input", "span")
ANSWER_KEYS = ("text", "start", "end")
MARK_DIGITS = 16


@dataclass(frozen=True)
class PageInput:
    """What a worker has on the page: texts by field, and the label or the answer if the worker chooses it."""

    fields: Mapping[str, str]
    label: str | None = None
    answer: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class AttemptInput:
    """What a verdict is about: the fields that the model reads, and the label or the answer that counts."""

    fields: dict[str, str]
    label: str | None
    answer: dict[str, Any] | None

    @property
    def target(self) -> str | None:
        """The target of the verdict."""
        return target_of(self.label, self.answer)


@dataclass(frozen=True)
class CreationItem:
    """One example to write, as it is now; the attempts are those on its present context."""

    row: WorkItem
    spec: TaskSpec
    context: Context
    attempts: tuple[Attempt, ...]
    example: Example | None
    is_written_elsewhere: bool
    # The number of the last attempt, on this context or an earlier one.
    last_number: int

    @property
    def item(self) -> int:
        """Its number in the session."""
        return self.row.item

    @property
    def target(self) -> str | None:
        """The label to write for, if the task sets it."""
        return self.row.label

    @property
    def draft(self) -> Mapping[str, Any]:
        """What the page had in its editor."""
        return self.row.draft

    @property
    def attempts_left(self) -> int:
        """How often the target can still be asked."""
        return max(0, self.spec.work.tries - len(self.attempts))

    @property
    def attempts_missing(self) -> int:
        """How many attempts the task still asks for before the item can be skipped."""
        return max(0, self.spec.work.tries_before_skip - len(self.attempts))

    @property
    def can_skip(self) -> bool:
        """Whether the worker may ask for another context."""
        return self.example is None and (not self.attempts_missing or self.is_written_elsewhere)

    @property
    def mark(self) -> str:
        """A fingerprint of the context and the target; it only shows a page whether they are still the same."""
        return hashlib.sha256(repr((self.row.context_id, self.target)).encode()).hexdigest()[:MARK_DIGITS]

    def check_mark(self, mark: str) -> None:
        """Raise OtherText unless the page shows this context and target.

        Another window of the same worker may have skipped the item, or started again.
        """
        if mark != self.mark:
            raise OtherText(gettext("this example has another text now; here it is"))

    def require_unwritten(self) -> None:
        """Raise AlreadySubmitted if an example was submitted for the item."""
        if self.example is not None:
            raise errors.AlreadySubmitted(gettext("this example is already submitted; go on with the next one"))

    def require_not_written_elsewhere(self) -> None:
        """Raise WrittenElsewhere if the worker has an example on this context by another page."""
        if self.is_written_elsewhere:
            text = gettext(
                "you already submitted an example on this text on another page; skip it here, or return the HIT"
            )
            raise errors.WrittenElsewhere(text, hint=errors.SKIP_ITEM)

    def input_of(self, page: PageInput) -> AttemptInput:
        """Return what a verdict must be about: the item's own context and target, and the worker's texts."""
        inputs = {field.name for field in self.spec.with_role("input")}
        texts = {name: text for name, text in page.fields.items() if name in inputs}
        fields = {**self.context.fields, **texts}
        if self.spec.kind == "classification":
            return AttemptInput(fields, self.target or page.label, None)
        answer = page.answer
        return AttemptInput(fields, None, None if answer is None else {name: answer.get(name) for name in ANSWER_KEYS})

    def attempt_on(self, asked: AttemptInput) -> Attempt | None:
        """Return the attempt on exactly these inputs and this target."""
        try:
            wanted = (inputs_hash(self.spec, asked.fields), asked.target)
        except VerdictError:
            return None
        kept = ((one, (one.verdict.get(INPUTS_HASH), one.verdict.get("target"))) for one in self.attempts)
        return next((one for one, key in kept if key == wanted), None)


# Reads what is on a page; it needs the item, whose texts it finds selected passages in.
ReadInput = Callable[[CreationItem], PageInput]


def creation_items(session: Session, context: SessionContext) -> list[CreationItem]:
    """Return the examples to write in a session."""
    spec, page = context.spec, {"page": context.work.id}
    made: dict[int, list[Attempt]] = {}
    for attempt in session.scalars(_ATTEMPTS_OF_PAGE, page):
        made.setdefault(attempt.item or 0, []).append(attempt)
    return [
        _with_attempts(spec, row, written_on, example, made.get(row.item, ()), elsewhere=elsewhere)
        for row, written_on, example, elsewhere in session.execute(_ITEMS_OF_PAGE, page)
    ]


def creation_item(session: Session, work: WorkSession, item: int) -> tuple[SessionContext, CreationItem]:
    """Return the session with its example to write of that number, as both are now."""
    return _creation_item(session, item, _ITEM_OF_PAGE, work.id)


def find_creation_item(session: Session, page: UUID, item: int) -> tuple[SessionContext, CreationItem]:
    """Return the session of that public id with its example to write of that number; nothing is locked."""
    return _creation_item(session, item, _ITEM_OF_PUBLIC_ID, page)


def _creation_item(
    session: Session, item: int, query: Select[*tuple[Any, ...]], page: int | UUID
) -> tuple[SessionContext, CreationItem]:
    found = session.execute(query, {"page": page, "item": item}).one_or_none() if is_item(item) else None
    if found is None:
        if isinstance(page, UUID):
            find_session(session, page)
        raise no_such_item()
    row, work, hit, round, written_on, example, elsewhere = found
    if written_on is None:
        text = gettext("this HIT asks for judgements, not for texts; load the page again")
        raise errors.PageUnknown(text, hint=errors.RELOAD_PAGE)
    context = context_of(session, work, hit, round)
    made = _attempts_of(session, row)
    return context, _with_attempts(context.spec, row, written_on, example, made, elsewhere=elsewhere)


def load_item(session: Session, spec: TaskSpec, row: WorkItem) -> CreationItem:
    """Return an item with its context, its attempts and its example."""
    context, example, elsewhere = session.execute(_CONTEXT_AND_EXAMPLE, {"id": row.id}).one()
    return _with_attempts(spec, row, context, example, _attempts_of(session, row), elsewhere=elsewhere)


def _attempts_of(session: Session, row: WorkItem) -> Sequence[Attempt]:
    return session.scalars(_ATTEMPTS, {"session_id": row.session_id, "item": row.item}).all()


def _with_attempts(
    spec: TaskSpec,
    row: WorkItem,
    context: Context,
    example: Example | None,
    made: Sequence[Attempt],
    *,
    elsewhere: bool,
) -> CreationItem:
    here = tuple(one for one in made if one.context_id == row.context_id)
    is_elsewhere = elsewhere and example is None and not spec.work.repeat_context
    return CreationItem(row, spec, context, here, example, is_elsewhere, made[-1].number or 0 if made else 0)


def lock_page_item(session: Session, page: UUID, item: int) -> tuple[SessionContext, CreationItem]:
    """Lock the session of that public id and return it with one of its examples to write, as both are now."""
    lock_page_alone(session, page)
    context, found = find_creation_item(session, page, item)
    note_lock(session, context.work)
    return context, found


def lock_item(session: Session, work: WorkSession, item: int) -> tuple[SessionContext, CreationItem]:
    """Lock the session and return it with one of its examples to write, as both are now."""
    return creation_item(session, lock_session(session, work), item)


def judge_request(context: SessionContext, asked: AttemptInput, pinned: Mapping[str, int]) -> JudgeRequest:
    """Return what to ask the round's pinned versions."""
    holder = str(context.work.public_id)
    return JudgeRequest(context.spec, context.open_round.number, tuple(pinned), asked.fields, asked.target, holder)


def check_attempt(context: SessionContext, item: CreationItem, asked: AttemptInput, *, now: datetime) -> None:
    """Raise a WorkRefused unless the target can be asked about this input."""
    context.require_open(now)
    item.require_unwritten()
    item.require_not_written_elsewhere()
    only = context.spec.model_copy(update={"fields": attempt_fields(context.spec)})
    problem = field_problem(only, asked.fields, {}) or target_problem(only, asked.fields, asked.label, asked.answer)
    if problem:
        raise input_error(context.spec, problem)
    if not item.attempts_left:
        used = ngettext(
            "the only attempt for this example is used; submit one of your texts, or skip this one",
            "all %(n)s attempts for this example are used; submit one of your texts, or skip this one",
            context.spec.work.tries,
        )
        raise errors.NoAttemptsLeft(used, hint=errors.SKIP_ITEM)


def record_attempt(
    session: Session,
    context: SessionContext,
    item: CreationItem,
    asked: AttemptInput,
    verdict: Verdict,
    pinned: Mapping[str, int],
    *,
    latency_us: int,
    now: datetime,
) -> Attempt:
    """Store an attempt with its verdict. The session must be locked; everything is checked again.

    `pinned` are the versions that were asked: those of an open round never change. Of two equal attempts at the same
    time, both return the one that is stored.
    """
    context.require_open(now)
    known = item.attempt_on(asked)
    if known is not None:
        return known
    check_attempt(context, item, asked, now=now)
    check_verdict(context.spec, verdict, asked.fields, asked.target, tuple(pinned))
    attempt = new_attempt(
        verdict,
        task_id=context.hit.task_id,
        model_version_id=pinned[verdict.outputs[0].version],
        source=Source.PAGES,
        fields=asked.fields,
        label=asked.label,
        answer=asked.answer,
        latency_us=latency_us,
        now=now,
        round_id=context.open_round.id,
        context_id=item.row.context_id,
        session_id=context.work.id,
        item=item.item,
        number=item.last_number + 1,
        worker_id=context.work.worker_id,
    )
    try:
        insert_row(session, attempt)
    except DuplicateError as error:
        raise StaleVerdict("this verdict is stored for another attempt; judge again") from error
    return attempt


def attempt_fields(spec: TaskSpec) -> tuple[Any, ...]:
    """Return the fields of a task that a verdict is about."""
    return tuple(field for field in spec.fields if field.role in ATTEMPT_ROLES)


def input_error(spec: TaskSpec, problem: InputProblem) -> errors.InvalidInput:
    """Return the error for a problem, with the fields' titles as the page shows them."""
    titles = {field.name: gettext("“%(title)s”", title=field.title) for field in spec.fields}
    text = problem.text.with_params(
        lambda value: titles.get(value.name, value) if isinstance(value, FieldName) else value
    )
    return errors.TextTooLong(text) if problem.is_too_long else errors.InvalidInput(text)


def is_written_elsewhere(session: Session, spec: TaskSpec, row: WorkItem) -> bool:
    """Whether the worker has an example on the item's context by another page, if the task takes only one."""
    if spec.work.repeat_context:
        return False
    return bool(session.scalar(_IS_WRITTEN_ELSEWHERE, {"id": row.id}))


# Built once: each request about an example runs them. Those that return no rows of classes are on the tables
# themselves, which costs half as much.
_IN_ITEM = (
    Attempt.session_id == bindparam("session_id"),
    Attempt.session_id.is_not(None),
    Attempt.item == bindparam("item"),
)
_ATTEMPTS = select(Attempt).where(*_IN_ITEM).order_by(Attempt.number)
_ATTEMPTS_OF_PAGE = (
    select(Attempt)
    .where(Attempt.session_id == bindparam("page"), Attempt.session_id.is_not(None))
    .order_by(Attempt.item, Attempt.number)
)
_ITEMS, _OTHER, _OTHER_PAGE = table_of(WorkItem), table_of(Example).alias(), table_of(WorkSession).alias()
# Two pages can show one context: a newer page takes over what only the worker's own other pages hold.
WRITTEN_ELSEWHERE = (
    select(_OTHER.c.id)
    .outerjoin(_OTHER_PAGE, _OTHER_PAGE.c.id == _OTHER.c.session_id)
    .where(
        _OTHER.c.author_id == _ITEMS.c.worker_id,
        equals_unindexed(_OTHER.c.context_id, _ITEMS.c.context_id),
        or_(_OTHER.c.session_id.is_(None), _OTHER.c.session_id != _ITEMS.c.session_id),
        or_(_OTHER.c.status != ExampleStatus.UNCONFIRMED, is_in(_OTHER_PAGE.c.status, VALID_SESSIONS)),
    )
    .correlate(_ITEMS)
    .exists()
)
_IS_WRITTEN_ELSEWHERE = select(WRITTEN_ELSEWHERE).select_from(_ITEMS).where(_ITEMS.c.id == bindparam("id"))
_CONTEXT_AND_EXAMPLE = (
    select(Context, Example, WRITTEN_ELSEWHERE)
    .select_from(WorkItem)
    .join(Context, Context.id == WorkItem.context_id)
    .outerjoin(Example, OF_ITEM)
    .where(WorkItem.id == bindparam("id"))
)
_ITEMS_OF_PAGE = (
    select(WorkItem, Context, Example, WRITTEN_ELSEWHERE)
    .join(Context, Context.id == WorkItem.context_id)
    .outerjoin(Example, OF_ITEM)
    .where(WorkItem.session_id == bindparam("page"))
    .order_by(WorkItem.item)
)
_ITEM = (
    select(WorkItem, WorkSession, Hit, Round, Context, Example, WRITTEN_ELSEWHERE)
    .join(WorkSession, WorkSession.id == WorkItem.session_id)
    .join(Hit, Hit.id == WorkSession.hit_id)
    .outerjoin(Round, Round.id == Hit.round_id)
    .outerjoin(Context, Context.id == WorkItem.context_id)
    .outerjoin(Example, OF_ITEM)
    .where(WorkItem.item == bindparam("item"))
    .execution_options(populate_existing=True)
)
_ITEM_OF_PAGE = _ITEM.where(WorkItem.session_id == bindparam("page"))
_ITEM_OF_PUBLIC_ID = _ITEM.where(WorkSession.public_id == bindparam("page"))
