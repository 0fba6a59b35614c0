"""What can go wrong while a request is answered.

BackendError
├── RequestRefused   the request itself is wrong; sending it again does not help
├── Busy             too much to do, or it took too long; sending it again later does
└── Undeliverable    a sink's far side will never take this; keeping it for later does not help
"""

from ml_backend.errors import BackendError


class RequestRefused(BackendError):
    """A request that cannot be answered; the status says of which kind the mistake is."""

    code = "request_refused"

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Busy(BackendError):
    """No place or no time for a request just now; `after` is in how many seconds to come back."""

    code = "busy"
    retry = True

    def __init__(self, text: str, after: int = 1) -> None:
        super().__init__(text)
        self.after = after


class Undeliverable(BackendError):
    """What a sink's `deliver` raises for tries that no later attempt would deliver either."""

    code = "undeliverable"
