"""Intake: one annotation becomes an example, a vote, or a problem that is reported to the owner."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.clock import Clock
from common.errors import Hint
from ml_backend.judge import Judge, JudgeRequest
from round_manager.database.store import Store
from round_manager.errors import BadValueError, SubmissionRefused, VoteRefused
from round_manager.examples.submissions import Submission, check_submission, submit
from round_manager.labelstudio.annotations import (
    changed_at,
    content_sha256,
    is_submitted,
    read_judgement,
    read_submission,
    reason_text,
    signature_of,
    written_text,
)
from round_manager.labelstudio.port import ProjectTask, UnreadableAnnotation, WaitingForRound
from round_manager.labelstudio.tasks import plan_return
from round_manager.models import (
    Context,
    Example,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Origin,
    ProjectKind,
    Round,
    Source,
    Task,
    ensure_worker,
    spec_of,
)
from round_manager.tasks.rounds import live_round, pinned_versions
from round_manager.work.validation_work import cast_vote
from templates import TaskSpec
from templates.contract import judged_fields

MARKETPLACE = "label_studio"
CHANGED = "it was changed in Label Studio after it was read; the first version is kept"

Json = Mapping[str, Any]


class IntakeOutcome(enum.Enum):
    """What an annotation became."""

    NOTHING = "nothing"  # skipped by its author, or already read and unchanged
    EXAMPLE = "example"
    VOTE = "vote"
    PROBLEM = "problem"


def find_annotations(session: Session, link_id: int, numbers: Sequence[int]) -> dict[int | None, LabelStudioAnnotation]:
    """Return the known annotations among these, by their ids in Label Studio."""
    annotation = LabelStudioAnnotation
    known = select(annotation).where(annotation.link_id == link_id, annotation.external_id.in_(numbers))
    return {row.external_id: row for row in session.scalars(known)}


class _AlreadyRead(Exception):
    """Another process has read the annotation since we looked."""


@dataclass(frozen=True)
class _Annotation:
    """An annotation with its task, and what was known of it when we looked."""

    row: LabelStudioTask
    data: Json
    annotation: Json
    known: LabelStudioAnnotation | None
    sha256: str

    @property
    def id(self) -> int:
        return int(self.annotation["id"])

    def check_shown(self, sent: Json) -> None:
        """Raise UnreadableAnnotation if the task's data is not what we sent."""
        other = sorted(name for name, value in sent.items() if self.data.get(name) != value)
        if other:
            raise UnreadableAnnotation(
                f"the task's `{other[0]}` was changed in Label Studio, so its author saw another text"
            )

    def save(
        self,
        session: Session,
        when: datetime,
        *,
        example_id: int | None = None,
        vote_id: int | None = None,
        problem: str | None = None,
    ) -> LabelStudioAnnotation:
        """Record what it became. An example or a vote stays; a later change is recorded as a problem."""
        row = find_annotations(session, self.row.link_id, [self.id]).get(self.id)
        if row is None:
            row = LabelStudioAnnotation(
                link_id=self.row.link_id,
                label_studio_task_id=self.row.id,
                origin=Origin.THEIRS,
                external_id=self.id,
                result_sha256=self.sha256,
                changed_at=when,
            )
            session.add(row)
        row.result_sha256, row.changed_at, row.problem = self.sha256, when, problem
        row.example_id, row.vote_id = row.example_id or example_id, row.vote_id or vote_id
        # The outcome is written to its task again.
        session.get_one(LabelStudioTask, self.row.id).outcome = None
        session.flush()
        return row


@dataclass(frozen=True)
class Intake:
    """Reads the annotations of one project, each in one transaction."""

    store: Store
    task: Task
    link: LabelStudioLink
    judge: Judge
    clock: Clock

    def check_ready(self) -> None:
        """Raise WaitingForRound if submissions cannot be read now; votes always can."""
        if self.link.kind is ProjectKind.CREATE:
            self._round()

    def take(
        self, row: LabelStudioTask, seen: ProjectTask, annotation: Json, known: LabelStudioAnnotation | None
    ) -> IntakeOutcome:
        """Read an annotation and return what it became; WaitingForRound if it has to wait."""
        if not is_submitted(annotation) or (known is not None and known.origin is Origin.OURS):
            return IntakeOutcome.NOTHING
        sha256 = content_sha256(annotation)
        if known is not None and known.result_sha256 == sha256:
            return IntakeOutcome.NOTHING
        one = _Annotation(row, seen.data, annotation, known, sha256)
        if known is not None and (known.example_id is not None or known.vote_id is not None):
            return self._save_problem(one, CHANGED)
        try:
            return self._read_submission(one) if self.link.kind is ProjectKind.CREATE else self._read_judgement(one)
        except (UnreadableAnnotation, SubmissionRefused, VoteRefused, BadValueError) as error:
            return self._save_problem(one, str(error))
        except _AlreadyRead:
            return IntakeOutcome.NOTHING

    def _read_submission(self, one: _Annotation) -> IntakeOutcome:
        round, spec, versions = self._round()
        with self.store.read() as session:
            context = session.get_one(Context, one.row.context_id)
        shown = {field.name: str(context.fields.get(field.name, "")) for field in spec.with_role("context")}
        one.check_shown({**shown, **({} if one.row.label is None else {"target": one.row.label})})
        written, signed = read_submission(spec, shown, one.row.label, one.annotation), signature_of(one.annotation)
        submission = Submission(
            fields={**shown, **written.fields},
            label=written.label,
            answer=written.answer,
            explanation=written.explanation,
            context_id=context.id,
            author_id=0,
            source=Source.LABEL_STUDIO,
            submitted_at=signed.at,
            active_ms=signed.active_ms,
            label_studio_task_id=one.row.id,
        )
        check_submission(spec, submission)
        target = written.label if written.answer is None else str(written.answer["text"])
        # Outside the transaction: the model may have to be loaded first.
        verdict = self.judge.judge(JudgeRequest(spec, round.number, versions, submission.fields, target))
        with self._transaction(one) as session:
            current = live_round(session, self.task.id)
            if current is None or current.id != round.id:
                raise WaitingForRound(f"the round of {self.task.name} changed while its annotations were read")
            author = ensure_worker(session, MARKETPLACE, self._user(signed.user), now=self.clock.now())
            example = submit(session, current, replace(submission, author_id=author.id), verdict, now=self.clock.now())
            one.save(session, signed.at, example_id=example.id)
        return IntakeOutcome.EXAMPLE

    def _read_judgement(self, one: _Annotation) -> IntakeOutcome:
        signed = signature_of(one.annotation)
        with self._transaction(one) as session:
            example = session.get_one(Example, one.row.example_id)
            spec = spec_of(session.get_one(Round, example.round_id))
            fields = {name: str(text) for name, text in example.fields.items()}
            one.check_shown({name: fields[name] for name in judged_fields(spec)})
            judged = read_judgement(spec, fields, one.annotation)
            voter = ensure_worker(session, MARKETPLACE, self._user(signed.user), now=self.clock.now())
            vote = cast_vote(
                session,
                example,
                voter.id,
                source=Source.LABEL_STUDIO,
                voted_at=signed.at,
                label=judged.label,
                answer=judged.answer,
                flag=judged.flag,
                comment=judged.comment,
                active_ms=signed.active_ms,
            )
            one.save(session, signed.at, vote_id=vote.id)
        return IntakeOutcome.VOTE

    def _save_problem(self, one: _Annotation, problem: str) -> IntakeOutcome:
        try:
            when = changed_at(one.annotation)
        except UnreadableAnnotation:
            when = self.clock.now()
        try:
            with self._transaction(one) as session:
                row = one.save(session, when, problem=problem)
                if self.link.kind is ProjectKind.CREATE and row.example_id is None:
                    spec = spec_of(self.task)
                    returned = {"reason": reason_text(spec, problem), "sentence": written_text(spec, one.annotation)}
                    plan_return(session, row, returned, now=self.clock.now())
        except _AlreadyRead:
            return IntakeOutcome.NOTHING
        return IntakeOutcome.PROBLEM

    @contextmanager
    def _transaction(self, one: _Annotation) -> Iterator[Session]:
        """Open a transaction that locks the annotation; raise _AlreadyRead if another process has read it."""
        with self.store.write() as session:
            session.get_one(LabelStudioTask, one.row.id, with_for_update=True)
            now = find_annotations(session, self.link.id, [one.id]).get(one.id)
            if (now and now.result_sha256) != (one.known and one.known.result_sha256):
                raise _AlreadyRead
            yield session

    def _round(self) -> tuple[Round, TaskSpec, tuple[str, ...]]:
        with self.store.read() as session:
            found = live_round(session, self.task.id)
            if found is None:
                hint = Hint("open_round", task=self.task.name)
                raise WaitingForRound(f"{self.task.name} has no open round", hint=hint)
            return found, spec_of(found), pinned_versions(session, found)

    def _user(self, user_id: int) -> str:
        return f"{self.link.url}/users/{user_id}"
