"""What can go wrong in round_manager.

RoundManagerError
├── TaskError                      a task is not there, or cannot become what its pack says
├── RoundError                     a round is not there, or not where it would have to be
│   └── NothingToLearn             a round that teaches no model anything
├── ModelVersionError              a model version that does not fit its task, or is not known
├── TrainingError                  a training cannot begin or go on, or there is none
│   └── TrainingBusy               somebody else trains the same task now
├── SubmissionRefused              what was handed in cannot become an example
├── StaleVerdict                   a verdict that is not of these inputs or these models; judge again
├── VoteRefused                    a judgement that cannot become a vote
├── PolicyError                    a validation policy that is not known, or that does not fit
├── DecisionRefused                an example that its owner cannot decide so
├── CrowdWorkError                 a HIT or an assignment is not there, or not where it would have to be
│   └── WorkRefused                what a worker's page asked for cannot be; the sentence is for the worker
│       ├── TimeIsOver             the HIT's time is over
│       ├── NothingToDo            there is nothing for this worker now
│       └── OtherText              the page shows a text that its example no longer has
├── ArchiveError                   an archive cannot be written, or is not what it should be
│   ├── ArchiveSpoiled             an archive's manifest is not as it was written
│   └── ArchiveUnreachable         the place for archives does not answer now
├── DataAccessError                a token for a task's data that is not there
│   └── DataRefused                somebody who may not read a task's data; the sentence is for them
├── LedgerError                    money that cannot move so
│   └── BudgetError                more than the round's or the task's budget has left
└── StoreError                     the database cannot do what was asked
    ├── StoreUrlError              the URL is wrong, or the driver for it is missing
    ├── StoreUnavailableError      cannot be opened or reached now
    ├── DamagedStoreError          its file, or what stands in it, is not what a database holds
    ├── StoreBusyError             another process holds what this one waits for
    ├── SchemaError                the tables are missing, older or newer than the program, or not ours
    ├── BadValueError              a value that no column may hold: a naive time, a fraction of a cent
    └── RefusedError               a constraint or a guard refused a wrong state
        └── DuplicateError         the row is there already
"""

from sqlalchemy.exc import DontWrapMixin

from common.errors import CodedError


class RoundManagerError(CodedError):
    """Something that round_manager cannot do; the message says what to do about it."""

    code = "round_manager_error"
    retry = False


class TaskError(RoundManagerError):
    """A task that is not there, or that cannot become what its pack says."""

    code = "task_error"


class RoundError(RoundManagerError):
    """A round that is not there, or not where it would have to be."""

    code = "round_error"


class NothingToLearn(RoundError):
    """A round that teaches a model nothing; the one that answers stays."""

    code = "nothing_to_learn"


class ModelVersionError(RoundManagerError):
    """A model version that does not fit its task, or that is not known."""

    code = "model_version_error"


class TrainingError(RoundManagerError):
    """A training that cannot begin or go on, or that is not there."""

    code = "training_error"


class TrainingBusy(TrainingError):
    """A task that another process trains a model of."""

    code = "training_busy"


class SubmissionRefused(RoundManagerError):
    """What was handed in cannot become an example; the sentence is for the owner to read."""

    code = "submission_refused"


class StaleVerdict(RoundManagerError):
    """A verdict that was given on something else, or by other models; judged again, the same work can be stored."""

    code = "stale_verdict"
    retry = True


class VoteRefused(RoundManagerError):
    """A judgement that cannot become a vote; the sentence is for the owner to read."""

    code = "vote_refused"


class PolicyError(RoundManagerError):
    """A validation policy that is not known, or that does not do what policies do."""

    code = "policy_error"


class DecisionRefused(RoundManagerError):
    """An example that is not there, or that its owner cannot decide so."""

    code = "decision_refused"


class CrowdWorkError(RoundManagerError):
    """A HIT or an assignment that is not there, or not where it would have to be."""

    code = "crowd_work_error"


class WorkRefused(CrowdWorkError):
    """What a worker's page asked for cannot be; the sentence is for the worker to read."""

    code = "work_refused"


class TimeIsOver(WorkRefused):
    """The HIT's time is over; nothing more is taken, and nothing that was kept is lost."""

    code = "time_is_over"


class NothingToDo(WorkRefused):
    """There is nothing for this worker now; the HIT should be returned."""

    code = "nothing_to_do"


class OtherText(WorkRefused):
    """The page shows a text or a target that its example no longer has, and has to be shown the new one."""

    code = "other_text"


class ArchiveError(RoundManagerError):
    """An archive that cannot be written, or that is not what it should be."""

    code = "archive_error"


class ArchiveSpoiled(ArchiveError):
    """An archive whose manifest is not as it was written."""

    code = "archive_spoiled"


class ArchiveUnreachable(ArchiveError):
    """A place for archives that does not answer now."""

    code = "archive_unreachable"
    retry = True


class DataAccessError(RoundManagerError):
    """A token for a task's data that is not there, or does not open what it should."""

    code = "data_access_error"


class DataRefused(DataAccessError):
    """Somebody who may not read a task's data; the sentence is for them to read."""

    code = "data_refused"


class LedgerError(RoundManagerError):
    """Money that cannot move so."""

    code = "ledger_error"


class BudgetError(LedgerError):
    """More than a budget has left; nothing was reserved."""

    code = "budget_exceeded"


class StoreError(RoundManagerError):
    """The database cannot do what was asked."""

    code = "store_error"


class StoreUrlError(StoreError):
    """A database URL that cannot be used."""

    code = "store_url_error"


class StoreUnavailableError(StoreError):
    """A database that cannot be opened or reached now."""

    code = "store_unavailable"
    retry = True


class DamagedStoreError(StoreError):
    """A file that is no database, or one that is spoiled; only a person can mend that."""

    code = "store_damaged"


class StoreBusyError(StoreError):
    """Another process holds the lock; the same transaction, done again, can succeed."""

    code = "store_busy"
    retry = True


class SchemaError(StoreError):
    """The tables do not fit this program."""

    code = "schema_error"


# DontWrapMixin: SQLAlchemy must not hide it inside a StatementError.
class BadValueError(StoreError, DontWrapMixin):
    """A value that must not be stored."""

    code = "bad_value"


class RefusedError(StoreError):
    """The database refused a wrong state; `rule` names the constraint or guard where the driver tells it."""

    code = "refused"

    def __init__(self, message: str, rule: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule


class DuplicateError(RefusedError):
    """What must be unique is there already."""

    code = "duplicate"
