"""Errors of the marketplace. `wire_code` is MTurk's own error code, which requesters' programs read.

MarketError                     the request is refused; nothing was changed
├── InvalidParameter            a parameter is invalid
├── InvalidQuestion             the XML of a question is invalid
├── InvalidEndpoint             the destination of events is not an SQS queue
├── EntityNotFound              the requester has no such HIT, assignment, worker or qualification
│   ├── AccountNotFound         no requester has this name
│   ├── AccessKeyNotFound       the requester has no such access key
│   ├── WorkerNotFound          the worker does not exist
│   └── PayoutNotFound          the payout does not exist
├── EntityExists                the name is taken
├── InvalidState                the HIT or assignment is not in a state that allows this
├── UnsupportedOperation        MTurk has the operation, this marketplace does not
├── InsufficientBalance         the requester's balance is too low
├── DuplicateToken              the request token was used within the last day
├── InvalidLink                 a sign-in link does not work
│   ├── LinkNotFound            no worker was given this link
│   ├── LinkUsed                the link was used before
│   └── LinkExpired             the link was not used in time
└── WorkerActionRefused         a worker cannot do this
    ├── WorkNotFound            the group, HIT or assignment does not exist
    ├── NoWorkLeft              the group has nothing more for this worker
    ├── NotQualified            the worker does not meet the requirements
    ├── QueueFull               the worker holds as many assignments as allowed
    ├── TooManyHeld             the worker holds as many HITs of this kind as its requester allows
    ├── NotTheHolder            another worker has this assignment
    ├── AssignmentExpired       no worker has it: its time ran out, or it was returned
    └── AssignmentAlreadySubmitted  it was submitted before
MarketDatabaseError             the database cannot be used
└── MarketUnavailable           the database cannot be used at the moment; the same call can succeed later
    └── MarketBusy              the database is locked or in use
"""

from common.errors import CodedError, Hint
from common.messages import gettext
from common.text import dollars

PREFIX = "AWS.MechanicalTurk."


class MarketError(CodedError):
    """A request that is refused; nothing was changed. `wire_code` is MTurk's error code."""

    def __init__(self, wire_code: str, message: str, *, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.wire_code = PREFIX + wire_code


class InvalidParameter(MarketError):
    """A parameter is invalid."""

    def __init__(self, message: str) -> None:
        super().__init__("ParameterValidationError", message)


class InvalidQuestion(MarketError):
    """The XML of a question is invalid."""

    def __init__(self, message: str) -> None:
        super().__init__("XMLParseError", f"Question: {message}")


class InvalidEndpoint(MarketError):
    """The destination of events is not an SQS queue."""

    code = "invalid_event_endpoint"

    def __init__(self, message: str) -> None:
        super().__init__("InvalidTransportEndpoint", message)


class EntityNotFound(MarketError):
    """The requester has no such HIT, assignment, worker or qualification."""


class AccountNotFound(EntityNotFound):
    """No requester has this name."""

    def __init__(self, name: str) -> None:
        hint = Hint("create_marketplace_account", account=name)
        super().__init__("RequesterDoesNotExist", f"account {name} does not exist", hint=hint)


class AccessKeyNotFound(EntityNotFound):
    """The requester has no such access key."""

    def __init__(self, account: str, key_id: str) -> None:
        hint = Hint("list_marketplace_keys", account=account)
        super().__init__("AccessKeyDoesNotExist", f"{account} has no access key {key_id}", hint=hint)


class WorkerNotFound(EntityNotFound):
    """The worker does not exist."""

    def __init__(self, worker_id: str) -> None:
        hint = Hint("list_marketplace_workers")
        super().__init__("WorkerDoesNotExist", f"Worker {worker_id} does not exist.", hint=hint)


class PayoutNotFound(EntityNotFound):
    """The payout does not exist."""


class EntityExists(MarketError):
    """The name is taken."""


class InvalidState(MarketError):
    """The HIT or assignment is not in a state that allows this."""


class UnsupportedOperation(MarketError):
    """MTurk has the operation, this marketplace does not."""

    def __init__(self, operation: str) -> None:
        super().__init__("NotSupported", f"{operation} is not supported by this marketplace")


class InsufficientBalance(MarketError):
    """The requester's balance is too low; the same call can succeed after a deposit."""

    code = "market_insufficient_funds"
    retry = True

    def __init__(self, needed_cents: int, available_cents: int) -> None:
        super().__init__(
            "InsufficientFunds",
            f"this needs {dollars(needed_cents)} and the account has {dollars(available_cents)} available; "
            "deposit more or ask for less",
        )


class DuplicateToken(MarketError):
    """The request token was used within the last day; the message names what it created."""


class InvalidLink(MarketError):
    """A sign-in link does not work."""

    def __init__(self, message: str = "this link is invalid") -> None:
        super().__init__("InvalidInvitation", message)


class LinkNotFound(InvalidLink):
    """No worker was given this link."""

    def __init__(self) -> None:
        super().__init__(gettext("this link does not exist; ask the person who runs this crowd for another one"))


class LinkUsed(InvalidLink):
    """The link was used before."""

    def __init__(self) -> None:
        super().__init__(gettext("this link was used already; ask for another one"))


class LinkExpired(InvalidLink):
    """The link was not used in time."""

    def __init__(self) -> None:
        super().__init__(gettext("this link has expired; ask for another one"))


class WorkerActionRefused(MarketError):
    """A worker cannot do this."""


class WorkNotFound(WorkerActionRefused):
    """The group, HIT or assignment does not exist."""


class NoWorkLeft(WorkerActionRefused):
    """The group has nothing more for this worker."""


class NotQualified(WorkerActionRefused):
    """The worker does not meet the requirements."""


class QueueFull(WorkerActionRefused):
    """The worker holds as many assignments as allowed."""


class TooManyHeld(WorkerActionRefused):
    """The worker holds as many HITs of this kind as its requester allows; `finish` are their assignments."""

    def __init__(self, finish: tuple[str, ...]) -> None:
        text = "you hold as many of these as you can have at once; submit or return one first"
        super().__init__("ExceedsMaxAssignmentsPerWorker", text)
        self.finish = finish


class NotTheHolder(WorkerActionRefused):
    """Another worker has this assignment."""

    def __init__(self) -> None:
        super().__init__("PermissionDenied", gettext("another worker has this assignment"))


class AssignmentExpired(WorkerActionRefused):
    """No worker has it: its time ran out, or it was returned."""

    def __init__(self) -> None:
        text = gettext("no worker has this assignment: its time ran out, or it was returned")
        super().__init__("InvalidAssignmentState", text)


class AssignmentAlreadySubmitted(WorkerActionRefused):
    """It was submitted before."""

    def __init__(self) -> None:
        super().__init__("InvalidAssignmentState", gettext("this assignment was submitted already"))


class MarketDatabaseError(CodedError):
    """The database cannot be used; the message says why."""


class MarketUnavailable(MarketDatabaseError):
    """The marketplace cannot reach, lock or write its database at the moment."""

    retry = True


class MarketBusy(MarketUnavailable):
    """The marketplace's database is locked or in use."""
