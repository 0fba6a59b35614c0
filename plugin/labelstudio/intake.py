"""The intake: one annotation becomes an example, a vote, or a problem that its owner can read."""

import enum
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from common.clock import Clock
from ml_backend.judge import Judge
from plugin.errors import PluginError
from plugin.labelstudio.errors import NoRound, Unreadable
from plugin.labelstudio.reading import (
    changed_at,
    content_sha256,
    is_submitted,
    read_judged,
    read_written,
    signed_by,
)
from plugin.labelstudio.studio import TaskSeen
from round_manager.database.store import Store
from round_manager.errors import BadValueError, SubmissionRefused, VoteRefused
from round_manager.examples.submissions import Submission, check_submission, submit
from round_manager.examples.votes import cast_vote
from round_manager.labelstudio.mirror import hold_annotation, keep_annotation
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
)
from round_manager.specs import spec_of
from round_manager.tasks.rounds import live_round, pinned_versions
from round_manager.workers import ensure_worker
from templates import TaskSpec
from templates.contract import judged_fields

MARKETPLACE = "label_studio"
CHANGED = "it was changed in Label Studio after it was read; what was read first stays"

Json = Mapping[str, Any]


class Outcome(enum.Enum):
    """What an annotation became."""

    NOTHING = "nothing"  # skipped by its author, or read before and unchanged since
    EXAMPLE = "example"
    VOTE = "vote"
    PROBLEM = "problem"


class _ReadByAnother(PluginError):
    """Somebody else read the annotation since we looked."""

    code = "__read_by_another"


@dataclass(frozen=True)
class _One:
    """An annotation with its task, and what was known of it when we looked."""

    row: LabelStudioTask
    data: Json
    annotation: Json
    known: LabelStudioAnnotation | None
    sha256: str

    @property
    def number(self) -> int:
        return int(self.annotation["id"])

    def check_shown(self, sent: Json) -> None:
        """Unreadable where people were shown something else than was sent."""
        other = sorted(name for name, value in sent.items() if self.data.get(name) != value)
        if other:
            raise Unreadable(f"the task's `{other[0]}` was changed in Label Studio, so its people saw something else")

    def keep(self, session: Any, when: datetime, **became: Any) -> None:
        keep_annotation(session, self.row, self.number, self.sha256, changed_at=when, **became)


@dataclass(frozen=True)
class Intake:
    """Takes the annotations of one project, each in one transaction."""

    store: Store
    task: Task
    link: LabelStudioLink
    judge: Judge
    clock: Clock

    def check_ready(self) -> None:
        """NoRound where what people wrote cannot be taken now; votes can always be."""
        if self.link.kind is ProjectKind.CREATE:
            self._round()

    def take(
        self, row: LabelStudioTask, seen: TaskSeen, annotation: Json, known: LabelStudioAnnotation | None
    ) -> Outcome:
        """What an annotation of a task became, as the task stands there now; NoRound where it has to wait."""
        if not is_submitted(annotation) or (known is not None and known.origin is Origin.OURS):
            return Outcome.NOTHING
        sha256 = content_sha256(annotation)
        if known is not None and known.result_sha256 == sha256:
            return Outcome.NOTHING
        if known is not None and (known.example_id is not None or known.vote_id is not None):
            return self._keep_problem(_One(row, seen.data, annotation, known, sha256), CHANGED)
        one = _One(row, seen.data, annotation, known, sha256)
        try:
            return self._take_written(one) if self.link.kind is ProjectKind.CREATE else self._take_judged(one)
        except (Unreadable, SubmissionRefused, VoteRefused, BadValueError) as error:
            return self._keep_problem(one, str(error))
        except _ReadByAnother:
            return Outcome.NOTHING

    def _take_written(self, one: _One) -> Outcome:
        round_id, spec, versions = self._round()
        with self.store.read() as session:
            context = session.get_one(Context, one.row.context_id)
        shown = {field.name: str(context.fields.get(field.name, "")) for field in spec.with_role("context")}
        one.check_shown({**shown, **({} if one.row.label is None else {"target": one.row.label})})
        written, signed = read_written(spec, shown, one.row.label, one.annotation), signed_by(one.annotation)
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
        # Outside the transaction: a model may have to be loaded first.
        verdict = self.judge.judge(spec, versions, submission.fields, target)
        with self._turn(one) as session:
            current = live_round(session, self.task.id)
            if current is None or current.id != round_id:
                raise NoRound(f"the round of {self.task.name} changed while its work was read")
            author = ensure_worker(session, MARKETPLACE, self._user(signed.user), now=self.clock.now())
            example = submit(session, current, replace(submission, author_id=author.id), verdict, now=self.clock.now())
            one.keep(session, signed.at, example_id=example.id)
        return Outcome.EXAMPLE

    def _take_judged(self, one: _One) -> Outcome:
        signed = signed_by(one.annotation)
        with self._turn(one) as session:
            example = session.get_one(Example, one.row.example_id)
            spec = spec_of(session.get_one(Round, example.round_id))
            fields = {name: str(text) for name, text in example.fields.items()}
            one.check_shown({name: fields[name] for name in judged_fields(spec)})
            judged = read_judged(spec, fields, one.annotation)
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
            one.keep(session, signed.at, vote_id=vote.id)
        return Outcome.VOTE

    def _keep_problem(self, one: _One, problem: str) -> Outcome:
        try:
            when = changed_at(one.annotation)
        except Unreadable:
            when = self.clock.now()
        try:
            with self._turn(one) as session:
                one.keep(session, when, problem=problem)
        except _ReadByAnother:
            return Outcome.NOTHING
        return Outcome.PROBLEM

    @contextmanager
    def _turn(self, one: _One) -> Iterator[Any]:
        """A transaction in which nobody else reads this annotation, and nobody has since we looked."""
        with self.store.write() as session:
            now = hold_annotation(session, one.row, one.number)
            if (now and now.result_sha256) != (one.known and one.known.result_sha256):
                raise _ReadByAnother("another process has just read it")
            yield session

    def _round(self) -> tuple[int, TaskSpec, tuple[str, ...]]:
        with self.store.read() as session:
            found = live_round(session, self.task.id)
            if found is None:
                raise NoRound(f"{self.task.name} has no open round; `outfox round open {self.task.name}` opens one")
            return found.id, spec_of(found), pinned_versions(session, found)

    def _user(self, number: int) -> str:
        return f"{self.link.url}/users/{number}"
