"""A task to work on in tests: HITs, sessions, a model that answers, and a marketplace that confirms."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import count
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from crowd.port import AssignmentState, SubmittedAssignment
from ml_backend.judge import JudgeRequest
from ml_backend.verdict import Verdict, judge
from round_manager.crowd.confirmation import confirm_sessions, store_works
from round_manager.database.columns import public_id
from round_manager.database.store import Store
from round_manager.learning.versions import register_version
from round_manager.models import (
    Assignment,
    Attempt,
    AuditEntry,
    Context,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    HitStatus,
    Lease,
    ModelVersion,
    Round,
    RoundStatus,
    Source,
    Task,
    Vote,
    Worker,
    WorkItem,
    WorkSession,
    ensure_worker,
)
from round_manager.services.context import ServiceContext
from round_manager.services.work import ask_target
from round_manager.tasks.rounds import open_round
from round_manager.tasks.tasks import create_task
from round_manager.work.attempts import (
    CreationItem,
    PageInput,
    check_attempt,
    creation_items,
    lock_item,
    record_attempt,
)
from round_manager.work.creation import submit_item
from round_manager.work.session_start import open_session
from round_manager.work.sessions import find_session, finish, session_context
from round_manager.work.validation_work import Judgement, ValidationItem, judge_item, validation_items
from templates import Pack, TaskSpec, find_pack
from tests.fakes.clock import SettableClock
from tests.fakes.target import FakeTarget
from tests.integration.round_manager.stage import manifest_for

MARKET = "fake"
MINUTE = timedelta(minutes=1)


@dataclass
class Floor:
    """One task with an open round, and its workers."""

    store: Store
    clock: SettableClock
    spec: TaskSpec
    task: Task
    round: Round
    version: str
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def services(self) -> ServiceContext:
        return ServiceContext(self.store, self.clock)

    @contextmanager
    def write(self) -> Iterator[Session]:
        with self.store.write() as session:
            yield session

    def hit(self, kind: HitKind = HitKind.CREATE, **changes: Any) -> Hit:
        """A HIT that stands on the marketplace."""
        number = next(self.numbers)
        row: dict[str, Any] = {
            "public_id": public_id(self.now),
            "key": f"h-{number}",
            "task_id": self.task.id,
            "round_id": self.round.id,
            "kind": kind,
            "status": HitStatus.ASSIGNABLE,
            "marketplace": MARKET,
            "external_id": f"H{number}",
            "reward_cents": 45,
            "max_assignments": 1,
            "assignment_seconds": 20 * 60,
            "created_at": self.now,
            "posted_at": self.now,
        }
        hit = Hit(**{**row, **changes})
        with self.write() as session:
            session.add(hit)
        return hit

    def open(
        self, worker: str = "W1", *, hit: Hit | None = None, kind: HitKind = HitKind.CREATE, assignment: str = ""
    ) -> WorkSession:
        """The page of a worker on a HIT, by default a new one."""
        chosen = hit or self.hit(kind)
        with self.write() as session:
            row = session.get_one(Hit, chosen.id)
            return open_session(session, row, assignment or f"AS-{chosen.key}", worker, now=self.now)

    def validating(self, worker: str = "V1") -> WorkSession:
        return self.open(worker, kind=HitKind.VALIDATE)

    def written(self, work: WorkSession, text: str, item: int = 0, **changes: Any) -> PageInput:
        """A page on which that was written, for the label or the answer that the task wants."""
        (field_name,) = [one.name for one in self.spec.with_role("input")][:1]
        target: dict[str, Any] = {}
        if self.spec.kind == "qa":
            target["answer"] = self.last_word(self.context(work, item))
        elif self.spec.target.set_by == "annotator":
            target["label"] = self.spec.label_names[1]
        return PageInput({field_name: text, **changes.pop("fields", {})}, **{**target, **changes})

    def context(self, work: WorkSession, item: int = 0) -> Context:
        return self.items(work)[item].context

    def last_word(self, context: Context) -> dict[str, Any]:
        passage = str(context.fields["passage"])
        text = passage.split()[-1]
        start = passage.rindex(text)
        return {"text": text, "start": start, "end": start + len(text)}

    def judge(self, request: JudgeRequest) -> Verdict:
        """The model answers with the label that the text names, else with the first."""
        answer = FakeTarget(self.spec, self.version).predict([dict(request.fields)])[0]
        return judge(self.spec, request.fields, [(self.version, answer)], request.target, now=self.now)

    def request(self, work: WorkSession, written: PageInput, item: int = 0) -> JudgeRequest:
        """What the model would be asked, after every check."""
        with self.write() as session:
            at, shown = lock_item(session, work, item)
            return check_attempt(session, at, shown, shown.input_of(written), now=self.now)

    def record(self, work: WorkSession, written: PageInput, verdict: Verdict, item: int = 0) -> Attempt:
        """Store the attempt with this verdict."""
        with self.write() as session:
            at, shown = lock_item(session, work, item)
            return record_attempt(session, at, shown, shown.input_of(written), verdict, latency_us=900, now=self.now)

    def ask(self, work: WorkSession, text: str | PageInput, item: int = 0) -> Attempt:
        """An attempt as the page makes it."""
        written = self.written(work, text, item) if isinstance(text, str) else text
        to_write = [one.item for one in self.rows(WorkItem, WorkItem.session_id == work.id) if one.context_id]
        mark = self.items(work)[item].mark if item in to_write else ""
        result = ask_target(self.services, self, work.public_id, item, mark=mark, read=lambda _item: written, draft={})
        return result.attempt

    def hand_in(
        self, work: WorkSession, text: str | PageInput, item: int = 0, *, active_ms: int | None = None
    ) -> Example:
        written = self.written(work, text, item) if isinstance(text, str) else text
        with self.write() as session:
            at, shown = lock_item(session, work, item)
            return submit_item(session, at, shown, written, now=self.now, active_ms=active_ms)

    def items(self, work: WorkSession) -> list[CreationItem]:
        """The examples to write in a session."""
        with self.store.read() as session:
            return shown_items(session, work)

    def fooling(self, work: WorkSession, item: int = 0, note: str = "") -> str:
        """A text that the model reads as something else than was asked for."""
        target = self.items(work)[item].target
        others = [name for name in self.spec.label_names if name != target]
        return f"This is {others[0] if others else 'new'} {note}{work.id}.{item}"

    def write_all(self, work: WorkSession, note: str = "") -> list[Example]:
        """Every item of the session, with a text that fools the model."""
        items = [one.item for one in self.items(work)]
        done = []
        for item in items:
            text = self.fooling(work, item, note)
            self.ask(work, text, item)
            done.append(self.hand_in(work, text, item))
        return done

    def finish(self, work: WorkSession) -> WorkSession:
        with self.write() as session:
            return finish(session, work, now=self.now)

    def confirm(self, work: WorkSession, worker: str | None = None) -> Assignment:
        """The marketplace shows that the assignment was handed in by the worker, or by another one."""
        with self.write() as session:
            known = select(Assignment).where(Assignment.external_id == work.claimed_assignment)
            row = session.scalar(known)
            if row is None:
                hit = session.get_one(Hit, work.hit_id)
                who = worker or self.name_of(session, work)
                shown = SubmittedAssignment(
                    work.claimed_assignment, str(hit.external_id), who, AssignmentState.SUBMITTED, self.now, self.now,
                    None, None, "", {},
                )  # fmt: skip
                store_works(session, {hit: [shown]}, now=self.now)
                return session.scalars(known).one()
            confirm_sessions(session, [row], now=self.now)
            return row

    @staticmethod
    def name_of(session: Session, work: WorkSession) -> str:
        return session.get_one(Worker, work.worker_id).external_id

    def judge_all(self, work: WorkSession, judgement: Judgement) -> None:
        with self.write() as session:
            for one in judged_items(session, work):
                judge_item(session, work, one.item, judgement, now=self.now)

    def pending(self, author: str = "AUTHOR", *, wanted: int = 2, **changes: Any) -> Example:
        """A pending example by an author."""
        text = f"A sentence of {author}, number {next(self.numbers)}."
        with self.write() as session:
            who = ensure_worker(session, MARKET, author, now=self.now)
            model = session.scalars(select(ModelVersion.id).where(ModelVersion.name == self.version)).one()
            fields = dict.fromkeys(self.spec.model_input, text)
            row: dict[str, Any] = {
                "public_id": public_id(self.now),
                "task_id": self.task.id,
                "round_id": self.round.id,
                "author_id": who.id,
                "source": Source.LABEL_STUDIO,
                "fields": fields,
                "content_sha256": "0" * 64,
                "label": self.spec.label_names[1] if self.spec.labels else None,
                "answer": None if self.spec.labels else {"text": text[:1], "start": 0, "end": 1},
                "submitted_at": self.now,
                "verdict": {},
                "model_version_id": model,
                "confidence": 0.75,
                "fooled": True,
                "status": ExampleStatus.PENDING,
                "votes_wanted": wanted,
            }
            example = Example(**{**row, **changes})
            session.add(example)
        return example

    def rows(self, kind: type[Any], *conditions: Any) -> list[Any]:
        with self.store.read() as session:
            return list(session.scalars(select(kind).where(*conditions).order_by(kind.id)))

    def one(self, row: Any) -> Any:
        """The row as the database has it now."""
        with self.store.read() as session:
            return session.get_one(type(row), row.id)

    def votes(self) -> list[Vote]:
        return self.rows(Vote)

    def audit(self, action: str) -> list[AuditEntry]:
        return self.rows(AuditEntry, AuditEntry.action == action)

    def live_leases(self) -> list[Lease]:
        return self.rows(Lease, Lease.ended_at.is_(None), Lease.expires_at > self.now)

    def close_round(self) -> None:
        for status, column in ((RoundStatus.VALIDATING, "validating_at"), (RoundStatus.CLOSED, "closed_at")):
            with self.write() as session:
                row = session.get_one(Round, self.round.id)
                row.status = status
                setattr(row, column, self.now)


def shown_items(session: Session, work: WorkSession) -> list[CreationItem]:
    """The examples to write in a session."""
    return creation_items(session, session_context(session, find_session(session, work.public_id)))


def judged_items(session: Session, work: WorkSession) -> list[ValidationItem]:
    """The examples to judge in a session."""
    return validation_items(session, session_context(session, find_session(session, work.public_id)))


@cache
def pack_of(name: str) -> Pack:
    """A built-in pack, read once for all tests."""
    return find_pack(name)


def lay_floor(store: Store, name: str = "sentiment", *, contexts: int = 8, **terms: dict[str, Any]) -> Floor:
    """The floor of a pack whose terms are changed: parts of the spec by name, with their new values."""
    clock = SettableClock()
    built_in = pack_of(name)
    parts = {part: getattr(built_in.spec, part).model_copy(update=values) for part, values in terms.items()}
    pack = replace(built_in, spec=built_in.spec.model_copy(update=parts))
    # As if the owner's file had only the first few contexts.
    pack.__dict__["contexts"] = built_in.contexts[:contexts]
    # Gold items are mixed in with examples; tests that need some say which.
    pack.__dict__["seed"] = ()
    now = clock.now()
    with store.write() as session:
        task = create_task(session, pack, now=now)
        manifest = manifest_for(pack.spec)
        version = register_version(session, task, manifest, f"models/{manifest.version}", now=now)
        opened = open_round(session, task, [version], now=now, actor="owner@here", reason="a test")
    return Floor(store, clock, pack.spec, task, opened, version.name)
