"""Errors while a request is answered.

BackendError
├── RequestRefused              the request is wrong; sending it again does not help
│   ├── InvalidRequest          400: the body is malformed
│   ├── BodyTimeout             408: the body did not arrive in time
│   ├── RequestTooLarge         413: the body, a text or the number of tasks is too large
│   ├── UnknownTask             404: the backend does not serve the task
│   ├── LabellingConfigMismatch 422: the project's labelling config is not one of the task
│   └── InvalidTaskData         422: the task's data does not fit the pack
├── Busy                        too many requests; retrying later helps
│   └── AnswerTimeout           no answer in time
└── Undeliverable               the receiver will never accept these attempts; keeping them does not help
"""

from typing import ClassVar

from ml_backend.errors import BackendError


class RequestRefused(BackendError):
    """A request that cannot be answered; `status` is its HTTP status."""

    status: ClassVar[int] = 400


class InvalidRequest(RequestRefused):
    """The request's body is malformed."""


class BodyTimeout(RequestRefused):
    """The request's body did not arrive in time."""

    status = 408


class RequestTooLarge(RequestRefused):
    """The request's body, one of its texts or its number of tasks is too large."""

    status = 413


class UnknownTask(RequestRefused):
    """The backend does not serve the task."""

    status = 404


class LabellingConfigMismatch(RequestRefused):
    """The labelling config of the Label Studio project is not one of the task."""

    status = 422


class InvalidTaskData(RequestRefused):
    """The data of a Label Studio task does not fit the task's pack."""

    status = 422


class Busy(BackendError):
    """There is no capacity for a request at the moment; `after` is when to retry, in seconds."""

    retry = True

    def __init__(self, message: str, after: int = 1) -> None:
        super().__init__(message)
        self.after = after


class AnswerTimeout(Busy):
    """The request could not be answered in time."""


class Undeliverable(BackendError):
    """Attempts that the receiver would refuse again however often they are delivered."""
