"""What can go wrong in round_manager.

RoundManagerError
└── StoreError                     the database cannot do what was asked
    ├── StoreUrlError              the URL is wrong, or the driver for it is missing
    ├── StoreUnavailableError      cannot be opened or reached now
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


class StoreError(RoundManagerError):
    """The database cannot do what was asked."""


class StoreUrlError(StoreError):
    """A database URL that cannot be used."""


class StoreUnavailableError(StoreError):
    """A database that cannot be opened or reached now."""

    retry = True


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
