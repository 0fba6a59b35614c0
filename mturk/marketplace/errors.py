"""What the marketplace refuses, with MTurk's own error codes.

MarketError                 a definite no; nothing was changed
├── InsufficientFunds       the requester's balance does not cover it
├── DuplicateToken          a request token that was used within the last day
└── WorkRefused             a worker cannot do this
    ├── NoSuchWork          there is no such group, HIT or assignment
    ├── NothingLeft         the group has nothing more for this worker
    ├── NotQualified        the worker does not meet what the requester asks for
    ├── TooManyHeld         the worker holds as much as one may
    ├── NotTheHolder        somebody else has this assignment
    ├── TimeIsOver          nobody has it: its time was over, or it was returned
    └── AlreadySubmitted    it was handed in before
MarketDatabaseError         the database cannot be used; the message says what to do
"""

from common.errors import CodedError
from common.money import dollars

PREFIX = "AWS.MechanicalTurk."


class MarketError(CodedError):
    """A definite no, in one sentence; nothing was changed."""

    code = "market_error"
    retry = False

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.wire_code = PREFIX + code
        self.message = message


class InsufficientFunds(MarketError):
    """The requester's balance does not cover it; the same call can succeed after a deposit."""

    code = "market_insufficient_funds"
    retry = True

    def __init__(self, needed_cents: int, available_cents: int) -> None:
        super().__init__(
            "InsufficientFunds",
            f"this needs {dollars(needed_cents)} and the account has {dollars(available_cents)} available; "
            "deposit more or ask for less",
        )


class DuplicateToken(MarketError):
    """A request token that was used within the last day; the message names what it made."""

    code = "duplicate_token"


class WorkRefused(MarketError):
    """A worker cannot do this."""

    code = "market_work_refused"


class NoSuchWork(WorkRefused):
    """There is no such group, HIT or assignment."""

    code = "no_such_work"


class NothingLeft(WorkRefused):
    """The group has nothing more for this worker."""

    code = "nothing_left"


class NotQualified(WorkRefused):
    """The worker does not meet what the requester asks for."""

    code = "not_qualified"


class TooManyHeld(WorkRefused):
    """The worker holds as much as one may."""

    code = "too_many_held"


class NotTheHolder(WorkRefused):
    """Somebody else has this assignment."""

    code = "not_the_holder"


class TimeIsOver(WorkRefused):
    """Nobody has it: its time was over, or it was returned."""

    code = "market_time_is_over"


class AlreadySubmitted(WorkRefused):
    """It was handed in before."""

    code = "already_submitted"


class MarketDatabaseError(CodedError):
    """The database cannot be used; the message says what to do."""

    code = "market_database_error"
    retry = False


def bad_parameter(message: str) -> MarketError:
    """A parameter that cannot be taken."""
    return MarketError("ParameterValidationError", message)
