"""Rounds that were played to the end: filled with examples, votes and attempts that are the same on every database."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self
from uuid import UUID

from sqlalchemy.orm import Session

from common.clock import Clock
from common.database import EPOCH
from ml_backend.hashing import json_sha256
from round_manager.archive.storage import Archives
from round_manager.database.triggers import create_statements, drop_statements
from round_manager.examples.submissions import content_sha256
from round_manager.models import Attempt, Example, ExampleStatus, ModelVersion, Round, Source, Task, Vote, ensure_worker
from round_manager.models.guards import ROUNDS
from round_manager.novelty.decisions import decide
from round_manager.services.archives import Frozen, freeze_round
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.rounds import open_round
from tests.campaign.base import DAY
from tests.campaign.label_studio import LabelStudioWork
from tests.fakes.clock import NOON

SALT = "5a17" * 16
WORKERS = 6
DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED, ExampleStatus.WITHDRAWN)
STATUSES = (*(ExampleStatus.VERIFIED,) * 5, ExampleStatus.DISPUTED, ExampleStatus.UNCHECKED, ExampleStatus.WITHDRAWN)


def text_of(number: int) -> str:
    """Return a unique text with characters that are easily corrupted."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return f'The {digest[:12]} was "{digest[12:24]}",\n\t{digest[24:36]} 🙂 \\\\ said {digest[36:48]}.'


class ClosedRounds(LabelStudioWork):
    """Fills and closes rounds, and freezes them."""

    def fill_and_close(self, *, policy: dict[str, Any] | None = None, **changes: Any) -> Self:
        """Fill the open round and close it; `policy` changes how it is to be split."""
        self.fill(**changes)
        self.mark_closed(at=NOON + 90 * DAY)
        if policy is not None:
            self._change_policy(policy)
        return self

    def fill(
        self,
        *,
        examples: int = 40,
        author: Callable[[int], int] = lambda number: number % WORKERS,
        text: Callable[[int], str] = text_of,
        statuses: Sequence[ExampleStatus] = STATUSES,
        backwards: bool = False,
        decided: bool = False,
    ) -> Self:
        """Fill the open round with examples, votes and attempts.

        With `decided`, it is decided which texts are new; otherwise all of them are.
        """
        round_number = self.round.number
        with self.store.write() as session:
            session.get_one(Task, self.task.id).worker_salt = SALT
            names = [f"A{number:03}" for number in range(WORKERS)]
            # The same names in either order, so that only the ids differ.
            order = reversed(names) if backwards else names
            people = {name: ensure_worker(session, "mturk", name, now=NOON) for name in order}
            workers = [people[name].id for name in names]
            for number in reversed(range(examples)) if backwards else range(examples):
                status = statuses[number % len(statuses)]
                example = self._example(round_number, number, workers[author(number)], text(number), status)
                session.add(example)
                session.flush()
                if decided:
                    decide(session, example)
                self._cast_votes(session, number, example, workers, backwards=backwards)
                session.add(self._attempt(round_number, number, example))
        return self

    def next_closed_round(self, **changes: Any) -> Self:
        """Open, fill and close the next round; return the campaign in it."""
        with self.store.write() as session:
            version = session.get_one(ModelVersion, 1)
            task = session.get_one(Task, self.task.id)
            opened = open_round(session, task, [version], now=NOON + 50 * DAY, actor="ada", reason="a test")
        return replace(self, round_id=opened.id).fill_and_close(**changes)

    def freeze(self, archives: Archives, clock: Clock | None = None) -> Frozen:
        """Freeze the round."""
        context, number = ServiceContext(self.store, clock or self.clock), self.round.number
        return freeze_round(context, Actor("ada"), self.spec.name, archives, number=number, reason="a test")

    def add_late_attempt(self, session: Session, number: int = 4_000, **changes: Any) -> Attempt:
        """Store an attempt that arrives after the round was closed; it has no author."""
        round = session.get_one(Round, self.round_id)
        late = self._attempt(round.number, number, session.get_one(Example, 1))
        late.worker_id = late.example_id = None
        for name, value in changes.items():
            setattr(late, name, value)
        session.add(late)
        session.flush()
        return late

    def forget_duplicates(self) -> None:
        """Make the round one that was opened before there were terms about duplicates."""
        self._change_terms({name: value for name, value in self.round.spec.items() if name != "duplicates"})

    def _change_policy(self, policy: dict[str, Any]) -> None:
        spec = self.round.spec
        self._change_terms({**spec, "rounds": {**spec["rounds"], **policy}})

    def _change_terms(self, spec: dict[str, Any]) -> None:
        """A round's terms are fixed while it is open; here they are as if they had always been so."""
        guard = next(one for one in ROUNDS if one.name == "guard_round_terms")
        with self.store.write() as session:
            dialect = session.get_bind().dialect.name
            row = session.get_one(Round, self.round_id)
            for statement in drop_statements(guard, dialect):
                session.connection().exec_driver_sql(statement)
            row.spec, row.spec_sha256 = spec, json_sha256(spec)
            session.flush()
            for statement in create_statements(guard, dialect):
                session.connection().exec_driver_sql(statement)

    def _example(self, round: int, number: int, author: int, text: str, status: ExampleStatus) -> Example:
        (written,) = self.spec.with_role("input")
        submission = self.submission(fields=self.fields(**{written.name: text}), author_id=author)
        verdict = self.verdict(submission)
        answer = dict(submission.answer) if submission.answer else None
        verified, disputed = status is ExampleStatus.VERIFIED, status is ExampleStatus.DISPUTED
        return Example(
            public_id=_id(1, round, number),
            task_id=self.task.id,
            round_id=self.round_id,
            context_id=self.context.id,
            author_id=author,
            source=Source.PAGES,
            fields=dict(submission.fields),
            content_sha256=content_sha256(self.spec, submission.fields),
            label=submission.label,
            answer=answer,
            explanation=dict(submission.explanation) or None,
            submitted_at=NOON + timedelta(seconds=number),
            active_ms=1_000 * number,
            tries=1 + number % 3,
            verdict=verdict.to_record(),
            model_version_id=1,
            confidence=verdict.outputs[0].confidence,
            fooled=bool(verdict.fooled),
            status=status,
            votes_wanted=2,
            gold_label=submission.label if verified else (self._other(answer)["label"] if disputed else None),
            gold_answer=answer if verified else (self._other(answer)["answer"] if disputed else None),
            decided_at=NOON + DAY if status in DECIDED else None,
        )

    def _other(self, answer: dict[str, Any] | None) -> dict[str, Any]:
        """Return the vote of a validator who disagrees with the author."""
        if answer is None:
            return {"label": self.spec.label_names[2], "answer": None}
        word = self.context.fields["passage"].split()[0]
        return {"label": None, "answer": {"text": word, "start": 0, "end": len(word)}}

    def _cast_votes(
        self, session: Session, number: int, example: Example, workers: list[int], *, backwards: bool
    ) -> None:
        """Cast enough votes for a decision: two that agree with the author, or three that do not; some are flagged."""
        agree = {"label": example.label, "answer": example.answer}
        flag = {"flag": 'It says "nothing"', "comment": "Really\\nnothing."}
        judged: list[dict[str, Any]] = []
        if example.status is ExampleStatus.VERIFIED:
            judged = [agree, agree, *([flag] if number % 4 == 3 else [])]
        elif example.status is ExampleStatus.DISPUTED:
            judged = [self._other(example.answer)] * 3
        others = [worker for worker in workers if worker != example.author_id]
        given = list(enumerate(zip(others, judged, strict=False)))
        for place, (worker, said) in reversed(given) if backwards else given:
            at = NOON + timedelta(hours=1, seconds=place // 2)
            vote = Vote(example_id=example.id, author_id=example.author_id, worker_id=worker, source=Source.PAGES,
                        voted_at=at, active_ms=700, **said)  # fmt: skip
            session.add(vote)
            session.flush()

    def _attempt(self, round: int, number: int, example: Example) -> Attempt:
        return Attempt(
            public_id=_id(2, round, number),
            task_id=self.task.id,
            round_id=self.round_id,
            context_id=self.context.id,
            source=Source.PAGES,
            worker_id=example.author_id if number % 2 else None,
            example_id=example.id if number % 2 else None,
            fields=dict(example.fields),
            label=example.label,
            answer=example.answer,
            verdict=dict(example.verdict),
            model_version_id=1,
            confidence=example.confidence,
            fooled=example.fooled,
            latency_us=3_700 + number,
            # Two at a time, so that their ids decide.
            asked_at=NOON + timedelta(seconds=number // 2),
        )


def _id(kind: int, round: int, number: int) -> UUID:
    milliseconds = int((NOON - EPOCH) / timedelta(milliseconds=1)) + number
    return UUID(int=milliseconds << 80 | 0x7 << 76 | round << 20 | kind << 16 | number)
