"""Submissions: what a person wrote, checked and stored as an example with the verdict that counts for it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from ml_backend.text import normalise
from ml_backend.verdict import Verdict
from round_manager.database.columns import equals_unindexed, public_id
from round_manager.errors import SubmissionRefused
from round_manager.examples.attempts import link_attempts, unclaimed_attempts
from round_manager.examples.submission_rules import check_verdict, field_problem, target_of, target_problem
from round_manager.models import (
    Attempt,
    Context,
    Example,
    ExampleStatus,
    ModelVersion,
    Round,
    RoundStatus,
    SessionStatus,
    Source,
    Worker,
    WorkSession,
)
from round_manager.policies import first_votes
from round_manager.specs import spec_of
from round_manager.tasks.rounds import pinned_versions
from templates import TaskSpec

TAKES_WORK = (RoundStatus.OPEN, RoundStatus.VALIDATING)
# Sessions that count for their worker. Expired and unconfirmed ones do not: anyone with the link can open a page.
VALID_SESSIONS = (SessionStatus.OPEN, SessionStatus.SUBMITTED, SessionStatus.CONFIRMED)


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


def check_submission(spec: TaskSpec, submission: Submission) -> None:
    """Raise SubmissionRefused if a field or the target is invalid."""
    problem = field_problem(spec, submission.fields, submission.explanation) or target_problem(
        spec, submission.fields, submission.label, submission.answer
    )
    if problem:
        raise SubmissionRefused(problem.text)


def submit(session: Session, round: Round, submission: Submission, verdict: Verdict, *, now: datetime) -> Example:
    """Store a submission from Label Studio as an example, and link the attempts that led to it.

    The verdict must be about exactly this submission and come from exactly the versions that the round pins.
    """
    spec = spec_of(round)
    if round.status not in TAKES_WORK:
        raise SubmissionRefused(f"round {round.number} of {spec.name} is {round.status.value} and takes no examples")
    check_submission(spec, submission)
    _check_context(session, round, spec, submission)
    pinned = pinned_versions(session, round)
    check_verdict(spec, verdict, submission.fields, target_of(submission.label, submission.answer), pinned)
    if lock_author(session, submission.author_id) is None:
        raise SubmissionRefused("the author is not known")
    if is_duplicate(session, round, submission):
        raise SubmissionRefused("the author has submitted the same text in this round before")
    attempts = unclaimed_attempts(session, round, submission.label_studio_task_id, submission.submitted_at)
    stored = StoredVerdict.of_verdict(session, verdict)
    example = new_example(round, submission, stored, tries=max(1, len(attempts)), now=now)
    return store_example(session, example, attempts)


def new_example(
    round: Round, submission: Submission, verdict: StoredVerdict, *, tries: int, now: datetime, confirmed: bool = True
) -> Example:
    """Return the row of a new example; one from a worker page is unconfirmed until the marketplace names its author."""
    spec, own_id = spec_of(round), public_id(now)
    wanted = verdict.fooled or is_sampled(own_id, spec.validation.sample_non_fooling)
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


def lock_author(session: Session, author_id: int) -> int | None:
    """Lock the author's row: of two equal submissions at the same time, one sees the other. None if unknown."""
    return session.scalar(select(Worker.id).where(Worker.id == author_id).with_for_update(key_share=True))


def is_duplicate(session: Session, round: Round, submission: Submission) -> bool:
    """Whether the author has submitted the same text in this round before; expired pages do not count."""
    same = (
        select(Example.id)
        .outerjoin(WorkSession, WorkSession.id == Example.session_id)
        .where(
            Example.task_id == round.task_id,
            Example.content_sha256 == content_sha256(spec_of(round), submission.fields),
            equals_unindexed(Example.round_id, round.id),
            equals_unindexed(Example.author_id, submission.author_id),
            Example.status != ExampleStatus.WITHDRAWN,
            or_(Example.session_id.is_(None), WorkSession.status.in_(VALID_SESSIONS)),
        )
    )
    return session.scalar(same.limit(1)) is not None


def is_sampled(own_id: UUID, share: float) -> bool:
    """Whether an example that fooled no model is validated: decided by its id, so that it can be recomputed."""
    place = int.from_bytes(hashlib.sha256(own_id.bytes).digest()[:8]) / 2**64
    return place < share


def _check_context(session: Session, round: Round, spec: TaskSpec, submission: Submission) -> None:
    if submission.context_id is None:
        return
    context = session.get(Context, submission.context_id)
    if context is None or context.task_id != round.task_id:
        raise SubmissionRefused(f"the context of this submission is not one of {spec.name}")
    for field in spec.with_role("context"):
        if submission.fields.get(field.name) != context.fields.get(field.name):
            raise SubmissionRefused(f"`{field.name}` is not what context {context.key} shows")
