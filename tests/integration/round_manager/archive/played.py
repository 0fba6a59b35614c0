"""Completed and closed rounds, identical on every database."""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from common.clock import Clock
from common.database import EPOCH
from ml_backend.hashing import json_sha256
from round_manager.archive.storage import Archives
from round_manager.database.store import Store
from round_manager.examples.submissions import content_sha256
from round_manager.models import (
    Attempt,
    Example,
    ExampleStatus,
    ModelVersion,
    Round,
    RoundStatus,
    Source,
    Task,
    Vote,
    ensure_worker,
)
from round_manager.services.archives import Frozen, freeze_round
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.rounds import open_round
from tests.fakes.clock import NOON, SettableClock
from tests.integration.round_manager.stage import Stage, set_stage

SALT = "5a17" * 16
WORKERS = 6
DAY = timedelta(days=1)
DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED, ExampleStatus.WITHDRAWN)
STATUSES = (*(ExampleStatus.VERIFIED,) * 5, ExampleStatus.DISPUTED, ExampleStatus.UNCHECKED, ExampleStatus.WITHDRAWN)


@dataclass(frozen=True)
class Played:
    """A closed round, and how to freeze it."""

    store: Store
    stage: Stage
    round_id: int
    number: int

    def freeze(self, archives: Archives, clock: Clock | None = None) -> Frozen:
        """Freeze the round."""
        context, task = ServiceContext(self.store, clock or SettableClock()), self.stage.task.name
        return freeze_round(context, Actor("ada"), task, archives, number=self.number, reason="a test")

    def play_next(self, **changes: Any) -> "Played":
        """The next round of the same task, closed too."""
        with self.store.write() as session:
            version = session.get_one(ModelVersion, 1)
            task = session.get_one(Task, self.stage.task.id)
            opened = open_round(session, task, [version], now=NOON + 50 * DAY, actor="ada", reason="a test")
        return _play(self.store, dataclasses.replace(self.stage, round=opened), **changes)

    def row(self) -> Round:
        """The round as it is stored now."""
        with self.store.read() as session:
            return session.get_one(Round, self.round_id)


def play(store: Store, name: str = "sentiment", *, policy: dict[str, Any] | None = None, **changes: Any) -> Played:
    """A closed round; `policy` changes how it is to be split."""
    stage = set_stage(store, name, "first", "second")
    with store.write() as session:
        session.get_one(Task, stage.task.id).worker_salt = SALT
    return _play(store, stage, policy=policy, **changes)


def text_of(number: int) -> str:
    """Return a unique text with characters that are easily corrupted."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return f'The {digest[:12]} was "{digest[12:24]}",\n\t{digest[24:36]} 🙂 \\\\ said {digest[36:48]}.'


def _play(
    store: Store,
    stage: Stage,
    *,
    policy: dict[str, Any] | None = None,
    examples: int = 40,
    author: Callable[[int], int] = lambda number: number % WORKERS,
    text: Callable[[int], str] = text_of,
    statuses: Sequence[ExampleStatus] = STATUSES,
    backwards: bool = False,
) -> Played:
    with store.write() as session:
        names = [f"A{number:03}" for number in range(WORKERS)]
        # The same names in either order, so that only the ids differ.
        people = {n: ensure_worker(session, "mturk", n, now=NOON) for n in (reversed(names) if backwards else names)}
        workers = [people[name].id for name in names]
        order = range(examples)
        for number in reversed(order) if backwards else order:
            example = _example(stage, number, workers[author(number)], text(number), statuses[number % len(statuses)])
            session.add(example)
            session.flush()
            _votes(session, stage, number, example, workers, backwards=backwards)
            session.add(_attempt(stage, number, example))
    round_id = stage.round.id
    for status, at in ((RoundStatus.VALIDATING, "validating_at"), (RoundStatus.CLOSED, "closed_at")):
        with store.write() as session:
            row = session.get_one(Round, round_id)
            row.status = status
            setattr(row, at, NOON + 90 * DAY)
    if policy is not None:
        _change_policy(store, round_id, policy)
    return Played(store, stage, round_id, stage.round.number)


def _change_policy(store: Store, round_id: int, policy: dict[str, Any]) -> None:
    """A round's terms are fixed while it is open; here they are as if they had always been so."""
    from round_manager.database.triggers import create_statements, drop_statements
    from round_manager.models.guards import ROUNDS

    guard = next(one for one in ROUNDS if one.name == "guard_round_terms")
    with store.write() as session:
        dialect = session.get_bind().dialect.name
        row = session.get_one(Round, round_id)
        for statement in drop_statements(guard, dialect):
            session.connection().exec_driver_sql(statement)
        row.spec = {**row.spec, "rounds": {**row.spec["rounds"], **policy}}
        row.spec_sha256 = json_sha256(row.spec)
        session.flush()
        for statement in create_statements(guard, dialect):
            session.connection().exec_driver_sql(statement)


def _id(kind: int, stage: Stage, number: int) -> UUID:
    milliseconds = int((NOON - EPOCH) / timedelta(milliseconds=1)) + number
    return UUID(int=milliseconds << 80 | 0x7 << 76 | stage.round.number << 20 | kind << 16 | number)


def _written(stage: Stage, author: int, text: str) -> Any:
    (own,) = stage.spec.with_role("input")
    return stage.submission(fields=stage.fields(**{own.name: text}), author_id=author)


def _example(stage: Stage, number: int, author: int, text: str, status: ExampleStatus) -> Example:
    submission = _written(stage, author, text)
    verdict = stage.verdict(submission)
    answer = dict(submission.answer) if submission.answer else None
    verified, disputed = status is ExampleStatus.VERIFIED, status is ExampleStatus.DISPUTED
    return Example(
        public_id=_id(1, stage, number),
        task_id=stage.task.id,
        round_id=stage.round.id,
        context_id=stage.context.id,
        author_id=author,
        source=Source.PAGES,
        fields=dict(submission.fields),
        content_sha256=content_sha256(stage.spec, submission.fields),
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
        gold_label=submission.label if verified else (_other(stage, answer)["label"] if disputed else None),
        gold_answer=answer if verified else (_other(stage, answer)["answer"] if disputed else None),
        decided_at=NOON + DAY if status in DECIDED else None,
    )


def _other(stage: Stage, answer: dict[str, Any] | None) -> dict[str, Any]:
    """Return the vote of a validator who disagrees with the author."""
    if answer is None:
        return {"label": stage.spec.label_names[2], "answer": None}
    word = stage.context.fields["passage"].split()[0]
    return {"label": None, "answer": {"text": word, "start": 0, "end": len(word)}}


def _votes(
    session: Session, stage: Stage, number: int, example: Example, workers: list[int], *, backwards: bool
) -> None:
    """Cast enough votes for a decision: two that agree with the author, or three that do not; a few also get a flag."""
    agree = {"label": example.label, "answer": example.answer}
    flag = {"flag": 'It says "nothing"', "comment": "Really\\nnothing."}
    judged: list[dict[str, Any]] = []
    if example.status is ExampleStatus.VERIFIED:
        judged = [agree, agree, *([flag] if number % 4 == 3 else [])]
    elif example.status is ExampleStatus.DISPUTED:
        judged = [_other(stage, example.answer)] * 3
    others = [worker for worker in workers if worker != example.author_id]
    given = list(enumerate(zip(others, judged, strict=False)))
    for place, (worker, said) in reversed(given) if backwards else given:
        at = NOON + timedelta(hours=1, seconds=place // 2)
        vote = Vote(example_id=example.id, author_id=example.author_id, worker_id=worker, source=Source.PAGES,
                    voted_at=at, active_ms=700, **said)  # fmt: skip
        session.add(vote)
        session.flush()


def _attempt(stage: Stage, number: int, example: Example) -> Attempt:
    return Attempt(
        public_id=_id(2, stage, number),
        task_id=stage.task.id,
        round_id=stage.round.id,
        context_id=stage.context.id,
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


def late_attempt(session: Session, played: Played, number: int = 4_000, **changes: Any) -> Attempt:
    """Store an attempt that arrives after the round was closed; it has no author."""
    late = _attempt(played.stage, number, session.get_one(Example, 1))
    late.worker_id = late.example_id = None
    for name, value in changes.items():
        setattr(late, name, value)
    session.add(late)
    session.flush()
    return late
