"""Sample rows in the other tables, so that every table has one."""

from typing import Any

from round_manager.database.columns import public_id
from round_manager.models import (
    AuditEntry,
    Block,
    Board,
    BoardSnapshot,
    CreditedSpan,
    DataToken,
    EntryKind,
    Evaluation,
    ExcludedModel,
    GoldExample,
    GoldItem,
    GoldShowing,
    GroupMember,
    InstructionsRead,
    KnownText,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Lease,
    ManagerStep,
    ModelSubmission,
    Origin,
    PageAddress,
    ProjectKind,
    Qualification,
    QualificationGrant,
    QuizResult,
    RoundGroup,
    SessionStatus,
    SubmissionState,
    SubmissionTerms,
    Suite,
    TextKey,
    TrainingJob,
    WorkerGroup,
    WorkItem,
    WorkSession,
)
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.sample_rows import HOUR, SampleRows, digest


def fill_all_tables(sample: SampleRows) -> SampleRows:
    """Add a row to every other table."""
    with sample.write() as session:

        def add(row: Any) -> int:
            session.add(row)
            session.flush()
            return int(row.id)

        page = session.get_one(WorkSession, sample.session)
        page.status, page.submitted_at, page.assignment_id = SessionStatus.CONFIRMED, NOON, sample.assignment
        whose = {"assignment_id": sample.assignment, "worker_id": sample.author}
        add(CreditedSpan(**whose, starts_at=NOON, ends_at=NOON + HOUR))
        own_page = add(
            WorkSession(
                public_id=public_id(NOON),
                hit_id=sample.hit,
                worker_id=sample.voter,
                claimed_assignment="AS2",
                draft={},
                started_at=NOON,
                expires_at=NOON + HOUR,
            )
        )
        add(sample.new_attempt(session_id=sample.session, worker_id=sample.author))
        vote = add(sample.new_vote(session_id=own_page))
        span: dict[str, Any] = {"leased_at": NOON, "expires_at": NOON + HOUR}
        add(Lease(context_id=sample.context, worker_id=sample.voter, **span))
        add(Lease(example_id=sample.example, author_id=sample.author, worker_id=sample.voter, **span))
        add(KnownText(task_id=sample.task, name="x", example_id=sample.example, context=0, text="not bad at all"))
        session.add(TextKey(task_id=sample.task, key=7, text_id=1))
        gold = add(GoldItem(task_id=sample.task, key="g1", fields={"text": "good"}, label="positive", created_at=NOON))
        mine: dict[str, Any] = {"session_id": own_page, "worker_id": sample.voter}
        session.add(GoldExample(example_id=sample.example, task_id=sample.task, round_id=sample.round, created_at=NOON))
        group = add(WorkerGroup(name="vendor", created_at=NOON))
        session.add(GroupMember(group_id=group, worker_id=sample.author, added_at=NOON))
        session.add(RoundGroup(round_id=sample.round, group_id=group, assigned_at=NOON))
        session.add(PageAddress(session_id=own_page, address=digest("203.0.113.7"), stored_at=NOON))
        session.add(
            InstructionsRead(
                worker_id=sample.voter, task_id=sample.task, for_validators=True, version=digest("Read."), read_at=NOON
            )
        )
        add(GoldShowing(gold_id=gold, shown_at=NOON, **mine))
        add(GoldShowing(example_id=sample.example, shown_at=NOON, **mine))
        add(WorkItem(item=0, example_id=sample.example, author_id=sample.author, **mine))
        add(WorkItem(item=1, gold_id=gold, expected_label="positive", **mine))
        add(
            QuizResult(
                **mine,
                task_id=sample.task,
                number=1,
                answers={"given": [0]},
                right_answers=1,
                questions=1,
                passed=True,
                taken_at=NOON,
            )
        )
        add(sample.new_entry("reward", assignment_id=sample.assignment, worker_id=sample.author))
        add(sample.new_entry("bonus", kind=EntryKind.BONUS, example_id=sample.example, worker_id=sample.author))
        skill = add(
            Qualification(task_id=sample.task, marketplace="mturk", name="quiz", external_id="Q1", created_at=NOON)
        )
        add(QualificationGrant(qualification_id=skill, worker_id=sample.voter, score=100, granted_at=NOON))
        for task in (None, sample.task):
            add(Block(worker_id=sample.author, task_id=task, reason="spam", blocked_by="owner", blocked_at=NOON))
        add(
            Evaluation(
                model_version_id=sample.model,
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
                task_id=sample.task,
                round_id=sample.round,
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
        token = add(DataToken(task_id=sample.task, key="k1", sha256=digest("token"), created_at=NOON, expires_at=NOON))
        weights: dict[str, Any] = {"weights": {"performance": 4.0}, "data_weights": {"round 1": 0.0}}
        by: dict[str, Any] = {"created_by": "token k1", "created_at": NOON}
        board = add(
            Board(task_id=sample.task, key="b1", name="Mine", folded_name="mine", token_id=token, **weights, **by)
        )
        add(BoardSnapshot(task_id=sample.task, board_id=board, name="Mine", content="{}", sha256=digest("{}"), **by))
        add(ExcludedModel(task_id=sample.task, model="hf-1", excluded_at=NOON))
        limits: dict[str, Any] = dict.fromkeys(
            ("per_day", "queued", "file_bytes", "total_bytes", "memory_mb", "seconds"), 5
        )
        add(SubmissionTerms(task_id=sample.task, changed_at=NOON, **limits))
        submitted: dict[str, Any] = {"name": "mine", "is_named": True, "kind": "model", "options": {}, "size": 7}
        running: dict[str, Any] = {"state": SubmissionState.RUNNING, "start_token": "start", "host": "here", "pid": 7}
        add(
            ModelSubmission(
                key="s1", task_id=sample.task, token_id=token, sha256=digest("model"), created_at=NOON, **submitted,
                **running,
            )
        )  # fmt: skip
        about: dict[str, Any] = {"subject": "round", "subject_id": sample.round, "round_id": sample.round}
        who: dict[str, Any] = {"actor": "owner", "action": "opened", "reason": "the budget is there"}
        add(AuditEntry(at=NOON, task_id=sample.task, **about, **who))
        suite: dict[str, Any] = {"origin": {}, "archive_uri": "archive", "archive_sha256": digest("suite")}
        add(Suite(task_id=sample.task, name="checks", hidden=False, examples=3, imported_at=NOON, **suite))
        link = add(
            LabelStudioLink(task_id=sample.task, kind=ProjectKind.CREATE, url="http://127.0.0.1:8080", project=1)
        )
        shown = add(
            LabelStudioTask(link_id=link, key="c1:positive", context_id=sample.context, external_id=11, created_at=NOON)
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
    return sample
