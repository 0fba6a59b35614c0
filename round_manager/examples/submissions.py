"""Submissions: what a person handed in, checked, and kept as an example with the verdict that stands for it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from ml_backend.text import normalise
from ml_backend.verdict import Verdict
from round_manager.database.columns import equals_unindexed, public_id
from round_manager.errors import SubmissionRefused
from round_manager.examples.attempts import link_attempts, unclaimed_attempts
from round_manager.examples.submission_rules import check_verdict, field_problem, target_of, target_problem
from round_manager.models import Context, Example, ExampleStatus, ModelVersion, Round, RoundStatus, Source, Worker
from round_manager.policies import first_votes
from round_manager.specs import spec_of
from round_manager.tasks.rounds import pinned_versions
from templates import TaskSpec

__all__ = ["Submission", "SubmissionRefused", "check_submission", "submit"]

TAKES_WORK = (RoundStatus.OPEN, RoundStatus.VALIDATING)


@dataclass(frozen=True)
class Submission:
    """What a person handed in: texts, target and why; `label_studio_task_id` is our own row's."""

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


def check_submission(spec: TaskSpec, submission: Submission) -> None:
    """Nothing, or a SubmissionRefused with one sentence for the owner."""
    problem = field_problem(spec, submission.fields, submission.explanation) or target_problem(
        spec, submission.fields, submission.label, submission.answer
    )
    if problem:
        raise SubmissionRefused(problem)


def submit(session: Session, round: Round, submission: Submission, verdict: Verdict, *, now: datetime) -> Example:
    """The example that the submission became, with the tries that led to it; all of it or an error.

    The verdict must be about exactly this submission and come from exactly the versions that the round pins.
    """
    spec = spec_of(round)
    if round.status not in TAKES_WORK:
        raise SubmissionRefused(f"round {round.number} of {spec.name} is {round.status.value} and takes no examples")
    check_submission(spec, submission)
    _check_context(session, round, spec, submission)
    pinned = pinned_versions(session, round)
    check_verdict(spec, verdict, submission.fields, target_of(submission.label, submission.answer), pinned)
    content = content_sha256(spec, submission.fields)
    _check_new(session, round, submission, content)
    tries = unclaimed_attempts(session, round, submission.label_studio_task_id, submission.submitted_at)
    own_id = public_id(now)
    wanted = bool(verdict.fooled) or is_sampled(own_id, spec.validation.sample_non_fooling)
    first = verdict.outputs[0]
    example = Example(
        public_id=own_id,
        task_id=round.task_id,
        round_id=round.id,
        context_id=submission.context_id,
        author_id=submission.author_id,
        source=submission.source,
        fields=dict(submission.fields),
        content_sha256=content,
        label=submission.label,
        answer=dict(submission.answer) if submission.answer is not None else None,
        explanation=dict(submission.explanation) or None,
        submitted_at=submission.submitted_at,
        active_ms=submission.active_ms,
        tries=max(1, len(tries)),
        verdict_id=verdict.id,
        verdict=verdict.to_record(),
        model_version_id=session.scalars(select(ModelVersion.id).where(ModelVersion.name == first.version)).one(),
        confidence=first.confidence,
        fooled=bool(verdict.fooled),
        status=ExampleStatus.PENDING if wanted else ExampleStatus.UNCHECKED,
        votes_wanted=first_votes(spec.validation) if wanted else 0,
    )
    session.add(example)
    session.flush()
    link_attempts(tries, example)
    session.flush()
    return example


def content_sha256(spec: TaskSpec, fields: Mapping[str, str]) -> str:
    """A fingerprint of what the model reads, the same however it is spaced, and whatever nobody can see in it."""
    return json_sha256([normalise(fields[name]) for name in spec.model_input])


def _check_context(session: Session, round: Round, spec: TaskSpec, submission: Submission) -> None:
    if submission.context_id is None:
        return
    context = session.get(Context, submission.context_id)
    if context is None or context.task_id != round.task_id:
        raise SubmissionRefused(f"the context that was written for is not one of {spec.name}")
    for field in spec.with_role("context"):
        if submission.fields.get(field.name) != context.fields.get(field.name):
            raise SubmissionRefused(f"`{field.name}` is not what context {context.key} shows")


def _check_new(session: Session, round: Round, submission: Submission, content: str) -> None:
    # One submission of an author at a time: of two equal ones that come at once, one sees the other.
    author = select(Worker.id).where(Worker.id == submission.author_id)
    if session.scalar(author.with_for_update(key_share=True)) is None:
        raise SubmissionRefused("the author is not known")
    same = select(Example.id).where(
        Example.task_id == round.task_id,
        Example.content_sha256 == content,
        equals_unindexed(Example.round_id, round.id),
        equals_unindexed(Example.author_id, submission.author_id),
        Example.status != ExampleStatus.WITHDRAWN,
    )
    if session.scalar(same.limit(1)) is not None:
        raise SubmissionRefused("the author has handed in the same text in this round already")


def is_sampled(own_id: UUID, share: float) -> bool:
    """Whether an example that fooled nobody is checked all the same: by its id, so that anybody can recompute it."""
    place = int.from_bytes(hashlib.sha256(own_id.bytes).digest()[:8]) / 2**64
    return place < share
