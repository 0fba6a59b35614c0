"""Every error that round_manager raises on purpose; those of a worker's page are in `round_manager.work.errors`.

RoundManagerError
├── TaskError: TaskNotFound, StoredSpecInvalid
├── RoundError: RoundNotFound, RoundNotOpen, RoundAlreadyOpen, RoundNotClosed, RoundNotReady, RoundAlreadyClosed,
│   RoundImported, NoContexts, NoModelVersion, MetricsUnavailable, NothingToLearn
├── ModelVersionError: ModelVersionNotFound, ModelVersionMismatch, ModelVersionChanged
├── EvaluationError: AxisUnknown, DataSetNotFound, EvaluationOrderNotFound, ModelsAmbiguous
├── TrainingError: TrainingBusy, NoTraining, TrainingTooLate, TrainingEnded
├── SubmissionRefused, StaleVerdict, VoteRefused, PolicyError
├── DecisionRefused: ExampleNotFound
├── CrowdWorkError: AssignmentNotFound, AssignmentStateError, BonusAlreadyGiven, GroupExists, GroupNotFound,
│   HitNotFound, HitsNotAllowed, NameInvalid, NothingHeld, UnknownWorker, ReasonRequired, WrongCrowdAccount, WorkRefused
├── ArchiveError: ArchiveNotFound, ArchiveConflict, ArchiveCorrupt (ArchiveFileChanged), ArchiveUnsupported,
│   ArchiveUnreachable
├── DataImportError: ImportInvalid, ImportNotPossible, ProvenanceMissing, RoundNumberTaken, SuiteExists, SuiteNotFound
├── DataAccessError: DataTokenNotFound, DataRefused
├── ModelSubmissionError: SubmissionsClosed, SubmissionInvalid, SubmissionTooLarge, SubmissionQuotaExceeded,
│   SubmissionDuplicate, SubmissionNameTaken, SubmissionNotFound, SubmissionStateError, SubmissionsBusy,
│   SubmissionCancelled, EndpointNotAllowed
├── LeaderboardError: EvaluationsMissing, LeaderboardTooLarge, LeaderboardUnreadable, BoardNotFound, BoardModelNotFound,
│   BoardNameTaken, BoardInvalid, BoardLimitReached, SnapshotNotFound
├── LedgerError: BudgetError
└── StoreError: StoreUrlError, StoreUnavailableError (StoreTimeoutError, StoreReadOnlyError), DamagedStoreError,
    StoreBusyError, SchemaError, BadValueError, RefusedError (DuplicateError)
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.exc import DontWrapMixin

from common.errors import CodedError, Hint


class RoundManagerError(CodedError):
    """Something that round_manager cannot do."""

    retry = False


class TaskError(RoundManagerError):
    """A task cannot be created or changed as its pack says."""


class TaskNotFound(TaskError):
    """There is no task of that name."""


class StoredSpecInvalid(TaskError):
    """The stored terms of a task or a round cannot be read by this program."""


class RoundError(RoundManagerError):
    """A round cannot do what was asked."""


class RoundNotFound(RoundError):
    """The task has no round of that number."""


class RoundNotOpen(RoundError):
    """The round is a draft, or the task has no open round."""


class RoundAlreadyOpen(RoundError):
    """Another round of the task is still open or validating."""


class RoundNotClosed(RoundError):
    """The round is not closed, or the task has no closed round."""


class RoundNotReady(RoundError):
    """The round cannot be closed yet."""


class RoundAlreadyClosed(RoundError):
    """The round is closed and cannot be changed."""


class RoundImported(RoundError):
    """The round was imported: its examples and votes are in its archive, not in the database."""


class NoContexts(RoundError):
    """The task has no contexts to show to workers."""


class NoModelVersion(RoundError):
    """The task has no model version to open a round against."""


class MetricsUnavailable(RoundError):
    """The task has no such metrics."""


class NothingToLearn(RoundError):
    """The round has nothing that a model could learn; the current model stays."""


class ModelVersionError(RoundManagerError):
    """A model version is unknown, or does not fit its task."""


class ModelVersionNotFound(ModelVersionError):
    """The task has no model version of that name."""


class ModelVersionMismatch(ModelVersionError):
    """A model version was trained for other fields or labels than the task has, or for another task."""


class ModelVersionChanged(ModelVersionError):
    """A model version was registered with other files."""


class EvaluationError(RoundManagerError):
    """Models cannot be evaluated as it was asked."""


class AxisUnknown(EvaluationError):
    """There is no axis of that name."""


class DataSetNotFound(EvaluationError):
    """The task has no data set of that name."""


class EvaluationOrderNotFound(EvaluationError):
    """The order that a job on a cluster is to carry out is not where its machine finds the archives."""


class ModelsAmbiguous(EvaluationError):
    """Two models have the same name."""


class TrainingError(RoundManagerError):
    """A training cannot start or continue, or there is none."""


class TrainingBusy(TrainingError):
    """Another process trains a model of the same task."""


class NoTraining(TrainingError):
    """No training of the task is running."""


class TrainingTooLate(TrainingError):
    """A training cannot be cancelled any more, because its version is being rotated in."""


class TrainingEnded(TrainingError):
    """A training has ended already, so its end cannot be recorded again."""


class SubmissionRefused(RoundManagerError):
    """A submission cannot become an example; the message is for the owner."""


class StaleVerdict(RoundManagerError):
    """A verdict on other inputs or by other models; after a new verdict the same work can be stored."""

    retry = True


class VoteRefused(RoundManagerError):
    """A judgement cannot become a vote; the message is for the owner."""


class PolicyError(RoundManagerError):
    """A validation policy is unknown, or does not fit the task."""


class DecisionRefused(RoundManagerError):
    """The owner cannot decide an example this way."""


class ExampleNotFound(DecisionRefused):
    """The task has no example of that id."""


class CrowdWorkError(RoundManagerError):
    """A HIT or an assignment is missing, or in the wrong state."""


class GroupNotFound(CrowdWorkError):
    """There is no group of workers of this name."""


class GroupExists(CrowdWorkError):
    """A group of workers has this name already."""


class NameInvalid(CrowdWorkError):
    """The name of a group or of a worker is empty, too long or not printable."""


class UnknownWorker(CrowdWorkError):
    """No worker with this id is known."""


class AssignmentNotFound(CrowdWorkError):
    """No such assignment was collected from the marketplace."""


class AssignmentStateError(CrowdWorkError):
    """The assignment's state does not allow the decision."""

    code = "assignment_state"


class BonusAlreadyGiven(CrowdWorkError):
    """The same bonus was given before, for the same work and reason."""


class HitNotFound(CrowdWorkError):
    """The task has no such HIT that workers can accept."""


class HitsNotAllowed(CrowdWorkError):
    """The round takes no such HITs now."""


class NothingHeld(CrowdWorkError):
    """No such HIT or payment is held for a person to decide."""


class ReasonRequired(CrowdWorkError):
    """A decision needs a reason, which is stored or shown to the worker."""


class WrongCrowdAccount(CrowdWorkError):
    """The marketplace does not know the HITs that were posted from this database."""


class ArchiveError(RoundManagerError):
    """An archive cannot be written or read."""


class ArchiveNotFound(ArchiveError):
    """The round is not frozen, or there is no archive in this place."""


class ArchiveConflict(ArchiveError):
    """The place holds something else, or the archive would differ from the first one."""


class ArchiveCorrupt(ArchiveError):
    """The archive is not what was written."""


class ArchiveFileChanged(ArchiveCorrupt):
    """A file of an archive is not what was frozen."""


class ArchiveUnsupported(ArchiveError):
    """A newer version of Outfox wrote the archive."""


class ArchiveUnreachable(ArchiveError):
    """The storage of archives does not respond."""

    retry = True


class DataImportError(RoundManagerError):
    """Published data cannot be imported; nothing was changed."""


class ImportInvalid(DataImportError):
    """Files have mistakes; `problems` lists them with their lines."""

    def __init__(self, message: str, problems: Sequence[Any] = (), *, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class ImportNotPossible(DataImportError):
    """What is to be imported is described wrongly."""


class ProvenanceMissing(DataImportError):
    """Imported data needs a source and a licence."""


class RoundNumberTaken(DataImportError):
    """The task has another round of that number."""


class SuiteExists(DataImportError):
    """The task has another test suite of that name."""


class SuiteNotFound(DataImportError):
    """The task has no test suite of that name."""


class DataAccessError(RoundManagerError):
    """Access to a task's data cannot be changed as asked."""


class DataTokenNotFound(DataAccessError):
    """There is no such token."""


class DataRefused(DataAccessError):
    """The client may not read the task's data; the message is for the client."""


class ModelSubmissionError(RoundManagerError):
    """A model cannot be submitted, or a submitted one not be changed, as asked."""


class SubmissionsClosed(ModelSubmissionError):
    """The task's owner takes no submissions of models."""


class SubmissionInvalid(ModelSubmissionError):
    """A submission is not a zip of a model or a file of predictions, or lacks something."""


class SubmissionTooLarge(ModelSubmissionError):
    """A submission is larger than the task's owner allows."""


class SubmissionQuotaExceeded(ModelSubmissionError):
    """The token has submitted as much as the task's owner allows."""


class SubmissionDuplicate(ModelSubmissionError):
    """The same model was submitted with another token."""


class SubmissionNameTaken(ModelSubmissionError):
    """Another submission of the task has that name."""


class SubmissionNotFound(ModelSubmissionError):
    """There is no such submission of this token, or of this task."""


class SubmissionStateError(ModelSubmissionError):
    """The submission's state does not allow it."""

    code = "submission_state"


class SubmissionsBusy(ModelSubmissionError):
    """Another process evaluates the task's submissions."""

    retry = True


class SubmissionCancelled(ModelSubmissionError):
    """The submission was cancelled while it was evaluated."""


class EndpointNotAllowed(ModelSubmissionError):
    """A submission names an address; models are submitted as files."""


class LeaderboardError(RoundManagerError):
    """A leaderboard cannot be shown or changed as asked."""


class EvaluationsMissing(LeaderboardError):
    """No model of the task was evaluated on its seed, its rounds or its test suites."""


class LeaderboardTooLarge(LeaderboardError):
    """There are more stored evaluations, or larger ones, than a leaderboard can show."""


class LeaderboardUnreadable(LeaderboardError):
    """Stored evaluations or a snapshot are corrupt."""


class BoardNotFound(LeaderboardError):
    """The task has no board of that name."""


class BoardModelNotFound(LeaderboardError):
    """The leaderboard has no model of that name."""


class BoardNameTaken(LeaderboardError):
    """Another board of the task has this name, or one that looks the same."""


class BoardInvalid(LeaderboardError):
    """The name or the weights of a board are invalid."""


class BoardLimitReached(LeaderboardError):
    """A token, or a task, has as many boards as it can have."""


class SnapshotNotFound(LeaderboardError):
    """The task has no such snapshot."""


class LedgerError(RoundManagerError):
    """Money cannot move as asked."""


class BudgetError(LedgerError):
    """The round's or the task's budget does not cover it; nothing was reserved."""

    code = "budget_exceeded"


class StoreError(RoundManagerError):
    """The database cannot do what was asked."""


class StoreUrlError(StoreError):
    """A database URL that cannot be used."""


class StoreUnavailableError(StoreError):
    """A database that cannot be opened or reached now."""

    code = "store_unavailable"
    retry = True


class StoreTimeoutError(StoreUnavailableError):
    """The database did not answer in time."""

    code = "store_timeout"


class StoreReadOnlyError(StoreUnavailableError):
    """The database, or the transaction, accepts no changes."""

    code = "store_read_only"


class DamagedStoreError(StoreError):
    """The database file or its content is corrupt; only a person can repair it."""

    code = "store_damaged"


class StoreBusyError(StoreError):
    """The database is locked or in use; the same transaction, done again, can succeed."""

    code = "store_busy"
    retry = True


class SchemaError(StoreError):
    """The tables do not fit this program."""


# DontWrapMixin: SQLAlchemy must not hide it inside a StatementError.
class BadValueError(StoreError, DontWrapMixin):
    """A value that must not be stored."""

    code = "bad_value"


class RefusedError(StoreError):
    """The database refused a wrong state; `rule` names the constraint or guard where the driver reports it."""

    code = "refused"

    def __init__(self, message: str, rule: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule


class DuplicateError(RefusedError):
    """The row exists already."""

    code = "duplicate"
