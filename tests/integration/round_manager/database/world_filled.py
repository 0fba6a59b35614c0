"""The rest of the world: a valid row in every table."""

from typing import Any

from round_manager.database.columns import public_id
from round_manager.models import (
    AuditEntry,
    Block,
    DataToken,
    EntryKind,
    Evaluation,
    GoldItem,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Lease,
    ManagerStep,
    Origin,
    ProjectKind,
    Qualification,
    QualificationGrant,
    QuizResult,
    SessionStatus,
    TrainingJob,
    WorkItem,
    WorkSession,
)
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.world import HOUR, World, digest


def fill_world(world: World) -> World:
    """The same world with a row in every table."""
    with world.write() as session:

        def add(row: Any) -> int:
            session.add(row)
            session.flush()
            return int(row.id)

        page = session.get_one(WorkSession, world.session)
        page.status, page.submitted_at, page.assignment_id = SessionStatus.CONFIRMED, NOON, world.assignment
        own_page = add(
            WorkSession(
                public_id=public_id(NOON),
                hit_id=world.hit,
                worker_id=world.voter,
                claimed_assignment="AS2",
                draft={},
                started_at=NOON,
                expires_at=NOON + HOUR,
            )
        )
        add(world.new_attempt(session_id=world.session, worker_id=world.author))
        vote = add(world.new_vote(session_id=own_page))
        span: dict[str, Any] = {"leased_at": NOON, "expires_at": NOON + HOUR}
        add(Lease(context_id=world.context, worker_id=world.voter, **span))
        add(Lease(example_id=world.example, author_id=world.author, worker_id=world.voter, **span))
        gold = add(GoldItem(task_id=world.task, key="g1", fields={"text": "good"}, label="positive", created_at=NOON))
        mine: dict[str, Any] = {"session_id": own_page, "worker_id": world.voter}
        add(WorkItem(item=0, example_id=world.example, author_id=world.author, **mine))
        add(WorkItem(item=1, gold_id=gold, expected_label="positive", **mine))
        add(
            QuizResult(
                **mine,
                task_id=world.task,
                number=1,
                answers={"given": [0]},
                right_answers=1,
                questions=1,
                passed=True,
                taken_at=NOON,
            )
        )
        add(world.new_entry("reward", assignment_id=world.assignment, worker_id=world.author))
        add(world.new_entry("bonus", kind=EntryKind.BONUS, example_id=world.example, worker_id=world.author))
        skill = add(
            Qualification(task_id=world.task, marketplace="mturk", name="quiz", external_id="Q1", created_at=NOON)
        )
        add(QualificationGrant(qualification_id=skill, worker_id=world.voter, score=100, granted_at=NOON))
        for task in (None, world.task):
            add(Block(worker_id=world.author, task_id=task, reason="spam", blocked_by="owner", blocked_at=NOON))
        add(
            Evaluation(
                model_version_id=world.model,
                dataset="seed held-out",
                dataset_sha256=digest("held-out"),
                row_count=160,
                metric="accuracy",
                performance=0.83,
                details={},
                code_version="0.1.0",
                measured_at=NOON,
            )
        )
        add(
            TrainingJob(
                task_id=world.task,
                round_id=world.round,
                mode="head",
                started_by="owner@here",
                host="here",
                pid=7,
                started_at=NOON,
                beat_at=NOON,
            )
        )
        trouble: dict[str, Any] = {"error": "no answer", "failing_since": NOON, "failures": 1, "next_try_at": NOON}
        add(ManagerStep(name="pay", ran_at=NOON, ran_by="owner@here", **trouble))
        add(DataToken(task_id=world.task, key="k1", sha256=digest("token"), created_at=NOON, expires_at=NOON))
        about: dict[str, Any] = {"subject": "round", "subject_id": world.round, "round_id": world.round}
        who: dict[str, Any] = {"actor": "owner", "action": "opened", "reason": "the budget is there"}
        add(AuditEntry(at=NOON, task_id=world.task, **about, **who))
        link = add(LabelStudioLink(task_id=world.task, kind=ProjectKind.CREATE, url="http://127.0.0.1:8080", project=1))
        shown = add(
            LabelStudioTask(link_id=link, key="c1:positive", context_id=world.context, external_id=11, created_at=NOON)
        )
        add(
            LabelStudioAnnotation(
                link_id=link,
                label_studio_task_id=shown,
                origin=Origin.OURS,
                key="example:1",
                external_id=21,
                result_sha256=digest("result"),
                changed_at=NOON,
                vote_id=vote,
            )
        )
    return world
