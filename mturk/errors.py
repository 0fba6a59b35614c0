"""What can go wrong between us and a marketplace.

CrowdError
├── CrowdUnavailable      no answer, or a failure of theirs: what was asked may or may not have happened
├── CrowdBusy             they told us to slow down: nothing happened
├── CrowdRefused          a definite no: nothing happened; `code` is the marketplace's own
│   ├── UnknownToCrowd    there is no such HIT, assignment, worker or qualification
│   ├── WrongState        it is there, and not where it would have to be
│   ├── NoFunds           the account does not cover it; the same call can succeed once it does
│   └── NotAllowed        the keys are missing, wrong or not permitted to do this
├── TokenMissing          a call that creates or pays, without its token; never sent
└── TokenExpired          the token protects no longer: look first, never just send again
"""


class CrowdError(Exception):
    """Something between us and the marketplace; the message says what to do about it."""

    retry = False
    # Whether what was asked may have happened all the same.
    in_doubt = False


class CrowdUnavailable(CrowdError):
    """No answer, or a failure on their side; whether it happened is not known."""

    retry = True
    in_doubt = True


class CrowdBusy(CrowdError):
    """They told us to slow down; nothing happened."""

    retry = True


class CrowdRefused(CrowdError):
    """A definite no; nothing happened."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class UnknownToCrowd(CrowdRefused):
    """There is no such thing on the marketplace."""


class WrongState(CrowdRefused):
    """It is there, and not where it would have to be for this."""


class NoFunds(CrowdRefused):
    """The account does not cover it."""

    retry = True


class NotAllowed(CrowdRefused):
    """The access keys are missing, wrong, or not permitted to do this."""


class TokenMissing(CrowdError):
    """A call that creates or pays, without its token."""


class TokenExpired(CrowdError):
    """A token that protects no longer; whoever has it looks first and never just sends again."""
