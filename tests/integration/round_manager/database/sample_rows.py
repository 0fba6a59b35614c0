"""Valid rows in a store, from which tests try to reach wrong states."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from round_manager.database.columns import public_id
from round_manager.database.store import Store
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    Attempt,
    Context,
    EntryKind,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    HitStatus,
    LedgerEntry,
    ModelVersion,
    Round,
    RoundModel,
    RoundStatus,
    Source,
    Task,
    Vote,
    Worker,
    WorkSession,
)
from tests.fakes.clock import NOON

HOUR = timedelta(hours=1)


def digest(text: str) -> str:
    """A SHA-256 to put into rows."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class SampleRows:
    """The ids of what is there, and makers of more of it."""

    store: Store
    task: int
    model: int
    round: int
    context: int
    author: int
    voter: int
    hit: int
    assignment: int
    session: int
    example: int

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction of the store."""
        with self.store.write() as session:
            yield session

    @contextmanager
    def undone(self) -> Iterator[Session]:
        """A transaction that reads back what it wrote, and leaves no trace."""
        with self.store.write() as session:
            yield session
            session.rollback()

    def new_example(self, **changes: Any) -> Example:
        """A valid example that is not submitted yet."""
        row: dict[str, Any] = {
            "public_id": public_id(NOON),
            "task_id": self.task,
            "round_id": self.round,
            "context_id": self.context,
            "author_id": self.author,
            "source": Source.LABEL_STUDIO,
            "fields": {"text": "Not bad at all 🙂"},
            "content_sha256": digest("text"),
            "label": "positive",
            "submitted_at": NOON,
            "verdict": {"label": "negative", "probabilities": {"negative": 0.75, "positive": 0.25}},
            "model_version_id": self.model,
            "confidence": 0.75,
            "fooled": True,
            "status": ExampleStatus.PENDING,
        }
        return Example(**{**row, **changes})

    def new_attempt(self, **changes: Any) -> Attempt:
        """A valid attempt."""
        row: dict[str, Any] = {
            "public_id": public_id(NOON),
            "task_id": self.task,
            "round_id": self.round,
            "source": Source.PAGES,
            "fields": {"text": "fine"},
            "label": "positive",
            "verdict": {"label": "negative"},
            "model_version_id": self.model,
            "confidence": 0.5,
            "fooled": True,
            "latency_us": 3_700,
            "asked_at": NOON,
        }
        return Attempt(**{**row, **changes})

    def new_vote(self, **changes: Any) -> Vote:
        """A valid vote on the sample's example."""
        row: dict[str, Any] = {
            "example_id": self.example,
            "author_id": self.author,
            "worker_id": self.voter,
            "source": Source.PAGES,
            "label": "positive",
            "voted_at": NOON,
        }
        return Vote(**{**row, **changes})

    def new_entry(self, key: str = "entry", **changes: Any) -> LedgerEntry:
        """A valid reservation of 54 cents for the sample's HIT."""
        row: dict[str, Any] = {
            "key": key,
            "task_id": self.task,
            "round_id": self.round,
            "kind": EntryKind.REWARD,
            "cents": 45,
            "fee_cents": 9,
            "hit_id": self.hit,
            "reserved_at": NOON,
        }
        return LedgerEntry(**{**row, **changes})

    def new_hit(self, key: str, **changes: Any) -> Hit:
        """A valid HIT that is not posted yet."""
        return new_hit(key, **{"task_id": self.task, "round_id": self.round, **changes})

    def move_round(self, session: Session, status: RoundStatus, at: datetime = NOON) -> Round:
        """Bring the sample's round to a later status, step by step."""
        found = session.get_one(Round, self.round)
        if found.status is RoundStatus.OPEN and status is not RoundStatus.OPEN:
            found.status, found.validating_at = RoundStatus.VALIDATING, at
            session.flush()
        if found.status is RoundStatus.VALIDATING and status is RoundStatus.CLOSED:
            found.status, found.closed_at = RoundStatus.CLOSED, at
            session.flush()
        return found


def new_task(name: str, **changes: Any) -> Task:
    """A valid task with a budget of 1,000 cents."""
    row: dict[str, Any] = {
        "name": name,
        "folder": f"templates/{name}",
        "spec": {"name": name},
        "spec_sha256": digest(name),
        "worker_salt": digest("salt"),
        "budget_cents": 1_000,
        "created_at": NOON,
    }
    return Task(**{**row, **changes})


def new_model(task: int, name: str, **changes: Any) -> ModelVersion:
    """A valid model version."""
    row: dict[str, Any] = {
        "task_id": task,
        "name": name,
        "uri": f"models/{name}",
        "sha256": digest(name),
        "files": {"model.safetensors": digest("weights")},
        "data": {"seed": digest("seed")},
        "data_sha256": digest("data"),
        "settings": {"mode": "head"},
        "metrics": {"accuracy": 0.82},
        "code_version": "0.1.0",
        "created_at": NOON,
    }
    return ModelVersion(**{**row, **changes})


def new_round(task: int, number: int, **changes: Any) -> Round:
    """A valid draft round with a budget of 500 cents."""
    row: dict[str, Any] = {
        "task_id": task,
        "number": number,
        "spec": {"name": "sentiment"},
        "spec_sha256": digest("spec"),
        "target_fooling": 200,
        "budget_cents": 500,
        "created_at": NOON,
    }
    return Round(**{**row, **changes})


def new_hit(key: str, task_id: int, round_id: int | None, **changes: Any) -> Hit:
    """A valid HIT that is not posted yet."""
    row: dict[str, Any] = {
        "public_id": public_id(NOON),
        "key": key,
        "task_id": task_id,
        "round_id": round_id,
        "kind": HitKind.CREATE,
        "marketplace": "mturk",
        "reward_cents": 45,
        "max_assignments": 3,
        "assignment_seconds": 1_200,
        "created_at": NOON,
    }
    return Hit(**{**row, **changes})


def add_sample_rows(store: Store) -> SampleRows:
    """One of everything, valid."""
    with store.write() as session:

        def add(row: Any) -> int:
            session.add(row)
            session.flush()
            return int(row.id)

        task = add(new_task("sentiment", created_at=NOON - HOUR))
        model = add(new_model(task, "sentiment-1"))
        round_id = add(new_round(task, 1))
        session.add(RoundModel(round_id=round_id, model_version_id=model, task_id=task, rank=0))
        session.flush()
        opened = session.get_one(Round, round_id)
        opened.status, opened.opened_at = RoundStatus.OPEN, NOON
        context = add(
            Context(public_id=public_id(NOON), task_id=task, key="c1", position=0, fields={"prompt": "It rained."},
                    extra={}, created_at=NOON)
        )  # fmt: skip
        author = add(Worker(marketplace="mturk", external_id="A1", first_seen_at=NOON))
        voter = add(Worker(marketplace="mturk", external_id="A2", first_seen_at=NOON))
        posted = {"status": HitStatus.ASSIGNABLE, "external_id": "H1", "posted_at": NOON}
        hit = add(new_hit("hit-1", task, round_id, **posted))
        assignment = add(
            Assignment(hit_id=hit, worker_id=author, marketplace="mturk", external_id="AS1",
                       status=AssignmentStatus.SUBMITTED, accepted_at=NOON, submitted_at=NOON)
        )  # fmt: skip
        page = add(
            WorkSession(public_id=public_id(NOON), hit_id=hit, worker_id=author, claimed_assignment="AS1", draft={},
                        started_at=NOON, expires_at=NOON + HOUR)
        )  # fmt: skip
        empty = SampleRows(store, task, model, round_id, context, author, voter, hit, assignment, page, 0)
        example = add(empty.new_example(source=Source.PAGES, session_id=page, verdict_id=public_id(NOON)))
    return SampleRows(store, task, model, round_id, context, author, voter, hit, assignment, page, example)
