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


class RoundManagerError(Exception):
    """Something that round_manager cannot do; the message says what to do about it."""

    retry = False


class TaskError(RoundManagerError):
    """A task that is not there, or that cannot become what its pack says."""


class RoundError(RoundManagerError):
    """A round that is not there, or not where it would have to be."""


class NothingToLearn(RoundError):
    """A round that teaches a model nothing; the one that answers stays."""


class ModelVersionError(RoundManagerError):
    """A model version that does not fit its task, or that is not known."""


class TrainingError(RoundManagerError):
    """A training that cannot begin or go on, or that is not there."""


class TrainingBusy(TrainingError):
    """A task that another process trains a model of."""


class SubmissionRefused(RoundManagerError):
    """What was handed in cannot become an example; the sentence is for the owner to read."""


class StaleVerdict(RoundManagerError):
    """A verdict that was given on something else, or by other models; judged again, the same work can be stored."""

    retry = True


class VoteRefused(RoundManagerError):
    """A judgement that cannot become a vote; the sentence is for the owner to read."""


class PolicyError(RoundManagerError):
    """A validation policy that is not known, or that does not do what policies do."""


class DecisionRefused(RoundManagerError):
    """An example that is not there, or that its owner cannot decide so."""


class CrowdWorkError(RoundManagerError):
    """A HIT or an assignment that is not there, or not where it would have to be."""


class WorkRefused(CrowdWorkError):
    """What a worker's page asked for cannot be; the sentence is for the worker to read."""


class TimeIsOver(WorkRefused):
    """The HIT's time is over; nothing more is taken, and nothing that was kept is lost."""


class NothingToDo(WorkRefused):
    """There is nothing for this worker now; the HIT should be returned."""


class OtherText(WorkRefused):
    """The page shows a text or a target that its example no longer has, and has to be shown the new one."""


class ArchiveError(RoundManagerError):
    """An archive that cannot be written, or that is not what it should be."""


class ArchiveSpoiled(ArchiveError):
    """An archive whose manifest is not as it was written."""


class ArchiveUnreachable(ArchiveError):
    """A place for archives that does not answer now."""

    retry = True


class DataAccessError(RoundManagerError):
    """A token for a task's data that is not there, or does not open what it should."""


class DataRefused(DataAccessError):
    """Somebody who may not read a task's data; the sentence is for them to read."""


class LedgerError(RoundManagerError):
    """Money that cannot move so."""


class BudgetError(LedgerError):
    """More than a budget has left; nothing was reserved."""


class StoreError(RoundManagerError):
    """The database cannot do what was asked."""


class StoreUrlError(StoreError):
    """A database URL that cannot be used."""


class StoreUnavailableError(StoreError):
    """A database that cannot be opened or reached now."""

    retry = True


class DamagedStoreError(StoreError):
    """A file that is no database, or one that is spoiled; only a person can mend that."""


class StoreBusyError(StoreError):
    """Another process holds the lock; the same transaction, done again, can succeed."""

    retry = True


class SchemaError(StoreError):
    """The tables do not fit this program."""


# DontWrapMixin: SQLAlchemy must not hide it inside a StatementError.
class BadValueError(StoreError, DontWrapMixin):
    """A value that must not be stored."""


class RefusedError(StoreError):
    """The database refused a wrong state; `rule` names the constraint or guard where the driver tells it."""

    def __init__(self, message: str, rule: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule


class DuplicateError(RefusedError):
    """What must be unique is there already."""
