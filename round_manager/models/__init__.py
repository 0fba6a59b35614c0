"""Every table, with the rules that the database enforces."""

from round_manager.database.triggers import attach
from round_manager.models.collection import (
    Attempt,
    ContextTally,
    Example,
    ExampleStatus,
    LabelTally,
    RoundTally,
    Source,
    Split,
)
from round_manager.models.guards import TRIGGERS
from round_manager.models.label_studio import (
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Origin,
    ProjectKind,
)
from round_manager.models.learning import Evaluation, ModelVersion, TrainingJob, TrainingState
from round_manager.models.market import (
    Assignment,
    AssignmentStatus,
    Hit,
    HitKind,
    HitStatus,
    SessionStatus,
    WorkSession,
)
from round_manager.models.money import EntryKind, EntryState, LedgerEntry
from round_manager.models.operations import AuditEntry, DataToken, ManagerStep
from round_manager.models.pages import GoldItem, QuizResult, WorkItem
from round_manager.models.people import Block, Qualification, QualificationGrant, Worker, ensure_worker
from round_manager.models.table import Table
from round_manager.models.tasks import Context, Round, RoundModel, RoundStatus, Task, spec_of
from round_manager.models.validation import Lease, LeaseEnd, UncountedVote, Vote

attach(Table.metadata, TRIGGERS)

__all__ = [
    "Assignment",
    "AssignmentStatus",
    "Attempt",
    "AuditEntry",
    "Block",
    "Context",
    "ContextTally",
    "DataToken",
    "EntryKind",
    "EntryState",
    "Evaluation",
    "Example",
    "ExampleStatus",
    "GoldItem",
    "Hit",
    "HitKind",
    "HitStatus",
    "LabelStudioAnnotation",
    "LabelStudioLink",
    "LabelStudioTask",
    "LabelTally",
    "Lease",
    "LeaseEnd",
    "LedgerEntry",
    "ManagerStep",
    "ModelVersion",
    "Origin",
    "ProjectKind",
    "Qualification",
    "QualificationGrant",
    "QuizResult",
    "Round",
    "RoundModel",
    "RoundStatus",
    "RoundTally",
    "SessionStatus",
    "Source",
    "Split",
    "Table",
    "Task",
    "TrainingJob",
    "TrainingState",
    "UncountedVote",
    "Vote",
    "WorkItem",
    "WorkSession",
    "Worker",
    "ensure_worker",
    "spec_of",
]
