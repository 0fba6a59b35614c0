"""Trying: what a worker's page asks the model, each question once, and no more of them than the task allows.

A page says what was written, and nothing else: the context and the target are the session's own, and a verdict comes
from the model, is stored as a try, and is found again by exactly what it was given on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from ml_backend.errors import VerdictError
from ml_backend.verdict import INPUTS_HASH, Verdict, inputs_hash
from round_manager.database.columns import equals_unindexed
from round_manager.errors import DuplicateError, StaleVerdict, WorkRefused
from round_manager.examples.submission_rules import check_verdict, field_problem, target_of, target_problem
from round_manager.models import (
    Attempt,
    Context,
    Example,
    ExampleStatus,
    ModelVersion,
    Source,
    WorkItem,
    WorkSession,
)
from round_manager.tasks.rounds import pinned_versions
from round_manager.work.sessions import VALID_SESSIONS, find_item, lock_for_work, session_context
from templates import TaskSpec

# What a verdict is about; anything else that a task asks for can wait until the example is handed in.
ATTEMPT_ROLES = ("context", "input", "span")
ANSWER_KEYS = ("text", "start", "end")
UNREADABLE = "the page sent something that cannot be read; load it again"


@dataclass(frozen=True)
class PageInput:
    """What a worker has on the page: texts by their fields, and the label or the answer where it is theirs to give."""

    fields: Mapping[str, str]
    label: str | None = None
    answer: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, value: Any) -> "PageInput":
        """What a page sent as JSON, or a WorkRefused for anything else; only its form is looked at."""
        fields = value.get("fields") if isinstance(value, dict) else None
        if not isinstance(fields, dict) or not all(isinstance(text, str) for text in fields.values()):
            raise WorkRefused(UNREADABLE)
        return cls(fields, *read_target(value))


@dataclass(frozen=True)
class AttemptInput:
    """What a verdict is about: all that the model reads and more, and the label or the answer that counts."""

    fields: dict[str, str]
    label: str | None
    answer: dict[str, Any] | None

    @property
    def target(self) -> str | None:
        """What the verdict is held against."""
        return target_of(self.label, self.answer)


@dataclass(frozen=True)
class Question:
    """A try as it is put to the model: everything it reads, the target, and the versions that must answer."""

    task: str
    round: int
    fields: Mapping[str, str]
    target: str | None
    versions: tuple[str, ...]


def read_target(value: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any] | None]:
    """The label and the answer that a page sent as JSON; only their form is looked at."""
    label, answer = value.get("label"), value.get("answer")
    if not isinstance(label, str | None) or not isinstance(answer, dict | None):
        raise WorkRefused(UNREADABLE)
    return label, answer


def earlier_attempt(session: Session, work: WorkSession, item: int, written: PageInput) -> Attempt | None:
    """The try that was made on exactly these inputs and this target in this item; asked again, it uses no try."""
    spec, row = session_context(session, work).spec, writing_item(session, work, item)
    return same_attempt(session, spec, row, attempt_input(session, spec, row, written))


def check_attempt(session: Session, work: WorkSession, item: int, written: PageInput, *, now: datetime) -> Question:
    """What to ask the model, or one sentence that tells why it is not asked."""
    desk = lock_for_work(session, work, now=now)
    row = unwritten_item(session, work, item)
    check_not_written_elsewhere(session, desk.spec, row)
    asked = attempt_input(session, desk.spec, row, written)
    problem = _problem(desk.spec, asked)
    if problem:
        raise WorkRefused(problem)
    most = desk.spec.work.tries
    if len(attempts_of(session, row)) >= most:
        used = "the only try for this example is used" if most == 1 else f"all {most} tries for this example are used"
        cure = "hand in one of your texts, or skip this one"
        raise WorkRefused(f"{used}; {cure}")
    round = desk.open_round
    return Question(desk.spec.name, round.number, asked.fields, asked.target, pinned_versions(session, round))


def record_attempt(
    session: Session,
    work: WorkSession,
    item: int,
    written: PageInput,
    verdict: Verdict,
    *,
    latency_us: int,
    now: datetime,
) -> Attempt:
    """The try with its verdict, stored; of two equal ones that come at once, both get the one that is stored."""
    desk = lock_for_work(session, work, now=now)
    known = earlier_attempt(session, work, item, written)
    if known is not None:
        return known
    question = check_attempt(session, work, item, written, now=now)
    check_verdict(desk.spec, verdict, question.fields, question.target, question.versions)
    row = find_item(session, work, item)
    asked = attempt_input(session, desk.spec, row, written)
    first = verdict.outputs[0]
    attempt = Attempt(
        public_id=verdict.id,
        task_id=desk.hit.task_id,
        round_id=desk.open_round.id,
        context_id=row.context_id,
        source=Source.PAGES,
        session_id=work.id,
        item=item,
        number=(session.scalar(select(func.max(Attempt.number)).where(*_in_item(row))) or 0) + 1,
        worker_id=work.worker_id,
        fields=asked.fields,
        label=asked.label,
        answer=asked.answer,
        verdict=verdict.to_record(),
        model_version_id=session.scalars(select(ModelVersion.id).where(ModelVersion.name == first.version)).one(),
        confidence=first.confidence,
        fooled=verdict.fooled,
        latency_us=latency_us,
        # A clock that is fast must not make tries of the future.
        asked_at=min(verdict.judged_at, now),
    )
    try:
        with session.begin_nested():
            session.add(attempt)
    except DuplicateError as error:
        raise StaleVerdict("this verdict was stored for something else; judge again") from error
    return attempt


def attempts_of(session: Session, row: WorkItem) -> list[Attempt]:
    """The tries that were made on the item's context, the first one first."""
    made = select(Attempt).where(*_in_item(row), Attempt.context_id == row.context_id)
    return list(session.scalars(made.order_by(Attempt.number)))


def same_attempt(session: Session, spec: TaskSpec, row: WorkItem, asked: AttemptInput) -> Attempt | None:
    """The try on exactly these inputs and this target, by what was stored of it."""
    try:
        inputs = inputs_hash(spec, asked.fields)
    except VerdictError:
        return None
    for one in attempts_of(session, row):
        if (one.verdict.get(INPUTS_HASH), one.verdict.get("target")) == (inputs, asked.target):
            return one
    return None


def attempt_input(session: Session, spec: TaskSpec, row: WorkItem, written: PageInput) -> AttemptInput:
    """What a verdict on the page must be about: the session's own context and target, and the worker's own texts."""
    context = session.get_one(Context, row.context_id)
    inputs = {field.name for field in spec.with_role("input")}
    fields = {**context.fields, **{name: text for name, text in written.fields.items() if name in inputs}}
    if spec.kind == "classification":
        return AttemptInput(fields, row.label or written.label, None)
    answer = written.answer
    return AttemptInput(fields, None, None if answer is None else {name: answer.get(name) for name in ANSWER_KEYS})


def writing_item(session: Session, work: WorkSession, item: int) -> WorkItem:
    """The session's item of that number, where it is one to write."""
    row = find_item(session, work, item)
    if row.context_id is None:
        raise WorkRefused("this HIT asks for judgements, not for texts; load the page again")
    return row


def unwritten_item(session: Session, work: WorkSession, item: int) -> WorkItem:
    """The item to write, where nothing was handed in for it."""
    row = writing_item(session, work, item)
    if example_of(session, row) is not None:
        raise WorkRefused("this example is handed in already; go on with the next one")
    return row


def example_of(session: Session, row: WorkItem) -> Example | None:
    """What was handed in for the item."""
    handed_in = select(Example).where(Example.session_id == row.session_id, Example.item == row.item)
    return session.scalar(handed_in.where(Example.session_id.is_not(None)))


def check_not_written_elsewhere(session: Session, spec: TaskSpec, row: WorkItem) -> None:
    """Nothing, or a WorkRefused where the worker cannot hand in on the item's context any more."""
    if is_written_elsewhere(session, spec, row):
        text = "on another page of yours an example on this text is handed in already"
        raise WorkRefused(f"{text}; skip it here, or return the HIT")


def is_written_elsewhere(session: Session, spec: TaskSpec, row: WorkItem) -> bool:
    """Whether the worker has an example on the item's context by another page, where the task takes only one."""
    if spec.work.repeat_context:
        return False
    # Two pages can show one context: the newer one takes over what only the worker's own other pages hold.
    other = (
        select(Example.id)
        .outerjoin(WorkSession, WorkSession.id == Example.session_id)
        .where(
            Example.author_id == row.worker_id,
            equals_unindexed(Example.context_id, row.context_id or 0),
            or_(Example.session_id.is_(None), Example.session_id != row.session_id),
            or_(Example.status != ExampleStatus.UNCONFIRMED, WorkSession.status.in_(VALID_SESSIONS)),
        )
    )
    return session.scalar(other.limit(1)) is not None


def _problem(spec: TaskSpec, asked: AttemptInput) -> str | None:
    only = spec.model_copy(update={"fields": tuple(field for field in spec.fields if field.role in ATTEMPT_ROLES)})
    return field_problem(only, asked.fields, {}) or target_problem(only, asked.fields, asked.label, asked.answer)


def _in_item(row: WorkItem) -> tuple[Any, ...]:
    return Attempt.session_id == row.session_id, Attempt.session_id.is_not(None), Attempt.item == row.item
