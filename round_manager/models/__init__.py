"""Every table, with the rules that the database enforces."""

from round_manager.database.triggers import attach
from round_manager.models.collection import (
    Attempt,
    ContextTally,
    Duplicate,
    Example,
    ExampleStatus,
    KnownText,
    LabelTally,
    RoundTally,
    Source,
    Split,
    TextKey,
)
from round_manager.models.guards import TRIGGERS
from round_manager.models.label_studio import (
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Origin,
    ProjectKind,
)
from round_manager.models.leaderboards import Board, BoardSnapshot, ExcludedModel
from round_manager.models.learning import Evaluation, ModelVersion, TrainingJob, TrainingState
from round_manager.models.market import (
    VALID_SESSIONS,
    Assignment,
    AssignmentStatus,
    Block,
    CreditedSpan,
    GroupMember,
    Hit,
    HitKind,
    HitStatus,
    Qualification,
    QualificationGrant,
    RoundGroup,
    SessionStatus,
    Worker,
    WorkerGroup,
    WorkSession,
    add_worker,
    ensure_worker,
)
from round_manager.models.money import EntryKind, EntryState, LedgerEntry
from round_manager.models.operations import AuditEntry, DataToken, ManagerStep
from round_manager.models.submissions import ModelSubmission, SubmissionState, SubmissionTerms
from round_manager.models.table import Table
from round_manager.models.tasks import Context, Round, RoundModel, RoundStatus, Suite, Task, spec_of
from round_manager.models.work import (
    GoldExample,
    GoldItem,
    GoldShowing,
    InstructionsRead,
    Lease,
    LeaseEnd,
    PageAddress,
    QuizResult,
    UncountedVote,
    Vote,
    WorkItem,
)

attach(Table.metadata, TRIGGERS)
