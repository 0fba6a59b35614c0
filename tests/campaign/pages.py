"""Work on the workers' pages: HITs that are taken, pages that are filled in, and the crowd's confirmation."""

import hashlib
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from crowd.port import AssignmentState, SubmittedAssignment
from ml_backend.judge import JudgeRequest
from ml_backend.verdict import Verdict, judge
from round_manager.crowd.confirmation import confirm_sessions, store_works
from round_manager.database.columns import public_id
from round_manager.examples.submissions import content_sha256
from round_manager.models import (
    Assignment,
    Attempt,
    Context,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    HitStatus,
    Lease,
    ModelVersion,
    Source,
    Vote,
    Worker,
    WorkItem,
    WorkSession,
    ensure_worker,
)
from round_manager.services import work as work_services
from round_manager.tasks.rounds import pinned_models
from round_manager.work.attempts import (
    CreationItem,
    PageInput,
    check_attempt,
    creation_items,
    judge_request,
    lock_item,
    record_attempt,
)
from round_manager.work.creation import submit_item
from round_manager.work.session_start import open_session
from round_manager.work.sessions import find_session, session_context
from round_manager.work.validation_work import Judgement, ValidationItem, judge_item, validation_items
from tests.campaign.base import MARKET
from tests.campaign.examples import ExampleInputs
from tests.fakes.target import FakeTarget


class PageWork(ExampleInputs):
    """Opens pages, writes and judges on them, and has the marketplace confirm them. It is the pages' Judge."""

    def add_hit(self, kind: HitKind = HitKind.CREATE, **changes: Any) -> Hit:
        """Store a HIT as if it had been posted."""
        number = next(self.numbers)
        row: dict[str, Any] = {
            "public_id": public_id(self.now),
            "key": f"h-{number}",
            "task_id": self.task.id,
            "round_id": self.round_id,
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
        with self.store.write() as session:
            session.add(hit)
        return hit

    def open_page(
        self, worker: str = "W1", *, hit: Hit | None = None, kind: HitKind = HitKind.CREATE, assignment: str = ""
    ) -> WorkSession:
        """Open the page of a worker on a HIT, by default a new one."""
        chosen = hit or self.add_hit(kind)
        work_services.end_overdue_work(self.services)
        with self.store.write() as session:
            row = session.get_one(Hit, chosen.id)
            return open_session(session, row, assignment or f"AS-{chosen.key}", worker, now=self.now)

    def open_validation_page(self, worker: str = "V1") -> WorkSession:
        return self.open_page(worker, kind=HitKind.VALIDATE)

    def finds_nothing(self, worker: str = "V1") -> bool:
        """Open a new validation page of a worker, and return whether there is nothing for them to judge."""
        page = self.open_validation_page(worker)
        return page.empty_at is not None and not self.rows(WorkItem, WorkItem.session_id == page.id)

    def page_input(self, work: WorkSession, text: str, item: int = 0, **changes: Any) -> PageInput:
        """Return a page with this text, for the label or the answer that the task wants."""
        field_name = self.spec.with_role("input")[0].name
        target: dict[str, Any] = {}
        if self.spec.kind == "qa":
            target["answer"] = self.last_word(self.context_of(work, item))
        elif self.spec.target.set_by == "annotator":
            target["label"] = self.spec.label_names[1]
        return PageInput({field_name: text, **changes.pop("fields", {})}, **{**target, **changes})

    def context_of(self, work: WorkSession, item: int = 0) -> Context:
        return self.items(work)[item].context

    def judge(self, request: JudgeRequest) -> Verdict:
        """Judge with a model that predicts the label that the text names, else the first."""
        answer = FakeTarget(self.spec, self.version).predict([dict(request.fields)])[0]
        return judge(self.spec, request.fields, [(self.version, answer)], request.target, now=self.now)

    def judge_request(self, work: WorkSession, written: PageInput, item: int = 0) -> JudgeRequest:
        """Return what the model would be asked, after every check."""
        with self.store.write() as session:
            at, shown = lock_item(session, work, item)
            asked = shown.input_of(written)
            check_attempt(at, shown, asked, now=self.now)
            return judge_request(at, asked, pinned_models(session, at.open_round))

    def record_attempt(self, work: WorkSession, written: PageInput, verdict: Verdict, item: int = 0) -> Attempt:
        """Store the attempt with this verdict."""
        with self.store.write() as session:
            at, shown = lock_item(session, work, item)
            asked, pinned = shown.input_of(written), pinned_models(session, at.open_round)
            return record_attempt(session, at, shown, asked, verdict, pinned, latency_us=900, now=self.now)

    def ask_target(self, work: WorkSession, text: str | PageInput, item: int = 0) -> Attempt:
        """Make an attempt as the page makes it."""
        written = self.page_input(work, text, item) if isinstance(text, str) else text
        to_write = [one.item for one in self.rows(WorkItem, WorkItem.session_id == work.id) if one.context_id]
        mark = self.items(work)[item].mark if item in to_write else ""
        result = work_services.ask_target(
            self.services,
            self,
            work.public_id,
            item,
            mark=mark,
            read=lambda _item: written,
            draft={},
            items=self.item_cache,
        )
        return result.attempt

    def submit_example(
        self,
        work: WorkSession,
        text: str | PageInput,
        item: int = 0,
        *,
        active_ms: int | None = None,
        warn: bool = False,
    ) -> Example:
        """Submit an item as the page does, after the attempt with the same text."""
        written = self.page_input(work, text, item) if isinstance(text, str) else text
        with self.store.write() as session:
            at, shown = lock_item(session, work, item)
            return submit_item(session, at, shown, written, now=self.now, active_ms=active_ms, warn=warn)

    def items(self, work: WorkSession) -> list[CreationItem]:
        """Return the examples to write in a session."""
        with self.store.read() as session:
            return items_to_write(session, work)

    def page_text(self, work: WorkSession, item: int = 0, note: str = "", *, fooling: bool = True) -> str:
        """Return a text that the model reads as another label than was asked for, or as that one."""
        target = self.items(work)[item].target
        others = [name for name in self.spec.label_names if name != target]
        label = (others[0] if others else "new") if fooling else target
        # Most of it differs from all other texts, which would be duplicates otherwise.
        digest = hashlib.sha256(f"{work.id}.{item}".encode()).hexdigest()[:48]
        return f"This is {label} {note}{digest}"

    def write_examples(self, work: WorkSession, note: str = "", *, fooling: bool = True) -> list[Example]:
        """Write and submit every item of the session."""
        done = []
        for item in [one.item for one in self.items(work)]:
            text = self.page_text(work, item, note, fooling=fooling)
            self.ask_target(work, text, item)
            done.append(self.submit_example(work, text, item))
        return done

    def finish_page(self, work: WorkSession) -> WorkSession:
        return work_services.finish_page(self.services, work.public_id)

    def confirm(self, work: WorkSession, worker: str | None = None) -> Assignment:
        """Collect the page's assignment from the marketplace: submitted by the worker, or by another one."""
        with self.store.write() as session:
            known = select(Assignment).where(Assignment.external_id == work.claimed_assignment)
            row = session.scalar(known)
            if row is None:
                hit = session.get_one(Hit, work.hit_id)
                name = worker or session.get_one(Worker, work.worker_id).external_id
                shown = SubmittedAssignment(
                    work.claimed_assignment, str(hit.external_id), name, AssignmentState.SUBMITTED, self.now, self.now,
                    None, None, "", {},
                )  # fmt: skip
                store_works(session, {hit: [shown]}, now=self.now)
                return session.scalars(known).one()
            confirm_sessions(session, [row], now=self.now)
            return row

    def judge_all(self, work: WorkSession, judgement: Judgement) -> None:
        """Judge every item of a validation page alike."""
        with self.store.write() as session:
            for one in items_to_judge(session, work):
                judge_item(session, work, one.item, judgement, now=self.now)

    def add_example(self, author: str = "AUTHOR", *, wanted: int = 2, **changes: Any) -> Example:
        """Store a pending example by an author."""
        text = f"A sentence of {author}, number {next(self.numbers)}."
        with self.store.write() as session:
            model = session.scalars(select(ModelVersion.id).where(ModelVersion.name == self.version)).one()
            row: dict[str, Any] = {
                "public_id": public_id(self.now),
                "task_id": self.task.id,
                "round_id": self.round_id,
                "author_id": ensure_worker(session, MARKET, author, now=self.now).id,
                "source": Source.LABEL_STUDIO,
                "fields": dict.fromkeys(self.spec.model_input, text),
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
            row |= changes
            row["content_sha256"] = content_sha256(self.spec, row["fields"])
            example = Example(**row)
            session.add(example)
        return example

    def add_verified(self, number: int, *, fooled: bool = True) -> None:
        """Store this many validated examples."""
        decided: dict[str, Any] = {"status": ExampleStatus.VERIFIED, "gold_label": "positive", "decided_at": self.now}
        for _ in range(number):
            self.add_example(fooled=fooled, wanted=0, **decided)

    def votes(self) -> list[Vote]:
        return self.rows(Vote)

    def live_leases(self) -> list[Lease]:
        return self.rows(Lease, Lease.ended_at.is_(None), Lease.expires_at > self.now)


def items_to_write(session: Session, work: WorkSession) -> list[CreationItem]:
    """Return the examples to write in a session."""
    return creation_items(session, session_context(session, find_session(session, work.public_id)))


def items_to_judge(session: Session, work: WorkSession) -> list[ValidationItem]:
    """Return the examples to judge in a session."""
    return validation_items(session, session_context(session, find_session(session, work.public_id)))
