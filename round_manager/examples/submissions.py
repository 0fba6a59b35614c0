"""Submissions: what a person wrote, checked and stored as an example with the verdict that counts for it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from sqlalchemy import bindparam, or_, select
from sqlalchemy.orm import Session

from common.messages import Message, gettext
from ml_backend.errors import VerdictError
from ml_backend.hashing import json_sha256
from ml_backend.text import normalise
from ml_backend.verdict import Verdict
from round_manager.database.columns import equals_unindexed, is_in, json_text, public_id
from round_manager.database.engine import locks_rows
from round_manager.errors import BadValueError, StaleVerdict, SubmissionRefused
from round_manager.examples.attempts import link_attempts, unclaimed_attempts
from round_manager.models import (
    VALID_SESSIONS,
    Attempt,
    Context,
    Example,
    ExampleStatus,
    ModelVersion,
    Round,
    Source,
    Worker,
    WorkSession,
    spec_of,
)
from round_manager.models.table import table_of
from round_manager.novelty.decisions import decide
from round_manager.policies import first_votes
from round_manager.tasks.rounds import LIVE, pinned_versions
from templates import TaskSpec
from templates.spec import TaskField
from templates.texts import is_blank, too_long

WRITTEN = ("input", "reason", "extra")


class FieldName(str):
    """A field as a parameter of a message: its name in backticks for owners; pages show its title instead."""

    __slots__ = ("name",)

    name: str

    def __new__(cls, name: str) -> Self:
        made = super().__new__(cls, f"`{name}`")
        made.name = name
        return made


@dataclass(frozen=True)
class InputProblem:
    """What is wrong with a field, a label or an answer."""

    text: Message
    is_too_long: bool = False


def field_problem(spec: TaskSpec, fields: Mapping[str, str], explanation: Mapping[str, str]) -> InputProblem | None:
    """Return the first field that is empty, too long, unknown or cannot be stored; None if all are valid."""
    for field in spec.fields:
        if field.role != "span":
            there = explanation if field.role == "reason" else fields
            problem = _text_problem(spec, field, there.get(field.name))
            if problem:
                return problem
    reasons = {field.name for field in spec.with_role("reason")}
    others = {field.name for field in spec.fields if field.role in ("context", "input", "extra")}
    unknown = sorted([*(set(fields) - others), *(set(explanation) - reasons)])
    if unknown:
        text = gettext("%(field)s is not a field of %(task)s", field=FieldName(unknown[0]), task=spec.name)
        return InputProblem(text)
    return None


def target_problem(
    spec: TaskSpec, fields: Mapping[str, str], label: str | None, answer: Mapping[str, Any] | None
) -> InputProblem | None:
    """Return what is wrong with the label, or with the selected answer; None if it is valid."""
    if spec.kind == "classification":
        if answer is not None:
            return InputProblem(gettext("an answer was selected, but %(task)s asks for a label", task=spec.name))
        if label not in spec.label_names:
            known = ", ".join(spec.label_names)
            if label is None:
                return InputProblem(gettext("no label is chosen; it can be %(labels)s", labels=known))
            return InputProblem(gettext("the label is “%(label)s”; it can be %(labels)s", label=label, labels=known))
        return None
    if label is not None:
        return InputProblem(gettext("a label was chosen, but %(task)s asks for an answer", task=spec.name))
    (span,) = spec.with_role("span")
    return answer_problem(answer, fields[spec.model_input[1]], span)


def answer_problem(answer: Mapping[str, Any] | None, passage: str, span: TaskField) -> InputProblem | None:
    """Return what is wrong with an answer that must be a piece of the passage; None if it is valid."""
    field = FieldName(span.name)
    if answer is None:
        return InputProblem(gettext("no answer is selected in the passage (%(field)s)", field=field))
    text, start, end = (answer.get(name) for name in ("text", "start", "end"))
    if not isinstance(text, str) or not text.strip():
        return InputProblem(gettext("the answer that is selected (%(field)s) is empty", field=field))
    if not _is_place(start) or not _is_place(end) or passage[start:end] != text:
        text_elsewhere = gettext("the passage does not have the answer (%(field)s) where it was selected", field=field)
        return InputProblem(text_elsewhere)
    if too_long(span, text):
        return _too_long(span, text)
    return None


def target_of(label: str | None, answer: Mapping[str, Any] | None) -> str | None:
    """Return the target that a verdict on the submission must have."""
    return label if answer is None else str(answer["text"])


def check_verdict(
    spec: TaskSpec, verdict: Verdict, fields: Mapping[str, str], target: str | None, pinned: Sequence[str]
) -> None:
    """Raise StaleVerdict unless the verdict is about exactly this, by exactly the pinned versions."""
    try:
        is_about = verdict.is_about(spec, fields, target)
    except VerdictError as error:
        raise StaleVerdict(f"{error}; judge again") from error
    if not is_about or verdict.fooled is None:
        raise StaleVerdict("the verdict is about other inputs than were submitted; judge again")
    if tuple(one.version for one in verdict.outputs) != tuple(pinned):
        raise StaleVerdict(f"the verdict is not of the versions that the round pins ({', '.join(pinned)}); judge again")


def _text_problem(spec: TaskSpec, field: TaskField, text: str | None) -> InputProblem | None:
    name = FieldName(field.name)
    if text is None or is_blank(text):
        # What the model reads is required even if the pack says otherwise.
        if field.required or field.name in spec.model_input:
            return InputProblem(gettext("%(field)s is empty", field=name))
        return None
    if field.role in WRITTEN and too_long(field, text):
        return _too_long(field, text)
    if field.choices and text not in field.choices:
        known = ", ".join(field.choices)
        return InputProblem(
            gettext("%(field)s is “%(text)s”; it can be %(choices)s", field=name, text=text[:40], choices=known)
        )
    try:
        json_text(text)
    except BadValueError as error:
        return InputProblem(gettext("%(field)s cannot be saved: %(why)s", field=name, why=error.message))
    return None


def _too_long(field: TaskField, text: str) -> InputProblem:
    problem = gettext(
        "%(field)s has %(size)s characters; at most %(most)s are accepted",
        field=FieldName(field.name),
        size=len(text),
        most=field.max_chars,
    )
    return InputProblem(problem, is_too_long=True)


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True)
class Submission:
    """What a person submitted: texts, target and explanation, and where: a Label Studio task, or an item of a page.

    `label_studio_task_id` is the id of our own row.
    """

    fields: Mapping[str, str]
    label: str | None
    answer: Mapping[str, Any] | None
    explanation: Mapping[str, str]
    context_id: int | None
    author_id: int
    source: Source
    submitted_at: datetime
    active_ms: int | None = None
    label_studio_task_id: int | None = None
    session_id: int | None = None
    item: int = 0


@dataclass(frozen=True)
class StoredVerdict:
    """The verdict of an example as its row stores it."""

    id: UUID
    record: Mapping[str, Any]
    model_version_id: int
    confidence: float
    fooled: bool

    @classmethod
    def of_attempt(cls, attempt: Attempt) -> "StoredVerdict":
        """Return the verdict that the worker saw."""
        fooled = bool(attempt.fooled)
        return cls(attempt.public_id, attempt.verdict, attempt.model_version_id, attempt.confidence, fooled)

    @classmethod
    def of_verdict(cls, session: Session, verdict: Verdict) -> "StoredVerdict":
        """Return a verdict that was given on the server."""
        first = verdict.outputs[0]
        version = session.scalars(select(ModelVersion.id).where(ModelVersion.name == first.version)).one()
        return cls(verdict.id, verdict.to_record(), version, first.confidence, bool(verdict.fooled))


def submission_problem(spec: TaskSpec, given: Submission) -> InputProblem | None:
    """Return what is wrong with a field or the target; None if all are valid."""
    fields = given.fields
    return field_problem(spec, fields, given.explanation) or target_problem(spec, fields, given.label, given.answer)


def check_submission(spec: TaskSpec, submission: Submission) -> None:
    """Raise SubmissionRefused if a field or the target is invalid."""
    problem = submission_problem(spec, submission)
    if problem:
        raise SubmissionRefused(problem.text)


def submit(session: Session, round: Round, submission: Submission, verdict: Verdict, *, now: datetime) -> Example:
    """Store a submission from Label Studio as an example, and link the attempts that led to it.

    The verdict must be about exactly this submission and come from exactly the versions that the round pins.
    """
    spec = spec_of(round)
    if round.status not in LIVE:
        raise SubmissionRefused(f"round {round.number} of {spec.name} is {round.status.value} and takes no examples")
    check_submission(spec, submission)
    _check_context(session, round, spec, submission)
    pinned = pinned_versions(session, round)
    check_verdict(spec, verdict, submission.fields, target_of(submission.label, submission.answer), pinned)
    if is_duplicate(session, round, submission):
        raise SubmissionRefused("the author has submitted the same text in this round before")
    attempts = unclaimed_attempts(session, round, submission.label_studio_task_id, submission.submitted_at)
    stored = StoredVerdict.of_verdict(session, verdict)
    example = new_example(round, submission, stored, tries=max(1, len(attempts)), now=now)
    store_example(session, example, attempts)
    decide(session, example)
    return example


def new_example(
    round: Round, submission: Submission, verdict: StoredVerdict, *, tries: int, now: datetime, confirmed: bool = True
) -> Example:
    """Return the row of a new example; one from a worker page is unconfirmed until the marketplace names its author."""
    spec, own_id = spec_of(round), public_id(now)
    # Whether an example that fooled no model is validated follows from its id, so that it can be recomputed.
    drawn = int.from_bytes(hashlib.sha256(own_id.bytes).digest()[:8]) / 2**64
    wanted = verdict.fooled or drawn < spec.validation.sample_non_fooling
    status = ExampleStatus.PENDING if wanted else ExampleStatus.UNCHECKED
    return Example(
        public_id=own_id,
        task_id=round.task_id,
        round_id=round.id,
        context_id=submission.context_id,
        author_id=submission.author_id,
        source=submission.source,
        session_id=submission.session_id,
        item=submission.item,
        fields=dict(submission.fields),
        content_sha256=content_sha256(spec, submission.fields),
        label=submission.label,
        answer=dict(submission.answer) if submission.answer is not None else None,
        explanation=dict(submission.explanation) or None,
        submitted_at=submission.submitted_at,
        active_ms=submission.active_ms,
        tries=tries,
        verdict_id=verdict.id,
        verdict=dict(verdict.record),
        model_version_id=verdict.model_version_id,
        confidence=verdict.confidence,
        fooled=verdict.fooled,
        status=status if confirmed else ExampleStatus.UNCONFIRMED,
        votes_wanted=first_votes(spec.validation) if wanted else 0,
    )


def store_example(session: Session, example: Example, attempts: list[Attempt]) -> Example:
    """Add the example to the session and link the attempts that led to it."""
    session.add(example)
    session.flush()
    link_attempts(attempts, example)
    session.flush()
    return example


def content_sha256(spec: TaskSpec, fields: Mapping[str, str]) -> str:
    """Return a fingerprint of what the model reads that ignores spacing and invisible characters."""
    return json_sha256([normalise(fields[name]) for name in spec.model_input])


def is_duplicate(session: Session, round: Round, submission: Submission) -> bool:
    """Whether the author has submitted the same text in this round before; expired pages do not count.

    The author's row is locked: of two equal submissions at the same time, one sees the other.
    """
    author = {"author": submission.author_id}
    if locks_rows(session):
        session.execute(_LOCK_AUTHOR, author)
    content = content_sha256(spec_of(round), submission.fields)
    same = {**author, "task": round.task_id, "round": round.id, "content": content}
    return session.scalar(_SAME_TEXT, same) is not None


# Built once, and without the mapped classes: each submission of a page runs them.
_WORKERS, _EXAMPLES, _SESSIONS = table_of(Worker), table_of(Example), table_of(WorkSession)
_LOCK_AUTHOR = select(_WORKERS.c.id).where(_WORKERS.c.id == bindparam("author")).with_for_update(key_share=True)
_SAME_TEXT = (
    select(_EXAMPLES.c.id)
    .outerjoin(_SESSIONS, _SESSIONS.c.id == _EXAMPLES.c.session_id)
    .where(
        _EXAMPLES.c.task_id == bindparam("task"),
        _EXAMPLES.c.content_sha256 == bindparam("content"),
        equals_unindexed(_EXAMPLES.c.round_id, bindparam("round")),
        equals_unindexed(_EXAMPLES.c.author_id, bindparam("author")),
        _EXAMPLES.c.status != ExampleStatus.WITHDRAWN,
        or_(_EXAMPLES.c.session_id.is_(None), is_in(_SESSIONS.c.status, VALID_SESSIONS)),
    )
    .limit(1)
)


def _check_context(session: Session, round: Round, spec: TaskSpec, submission: Submission) -> None:
    if submission.context_id is None:
        return
    context = session.get(Context, submission.context_id)
    if context is None or context.task_id != round.task_id:
        raise SubmissionRefused(f"the context of this submission is not one of {spec.name}")
    for field in spec.with_role("context"):
        if submission.fields.get(field.name) != context.fields.get(field.name):
            raise SubmissionRefused(f"`{field.name}` is not what context {context.key} shows")
