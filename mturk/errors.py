"""What can go wrong between us and a marketplace.

CrowdError
├── CrowdUnavailable      no answer, or a failure of theirs: what was asked may or may not have happened
├── CrowdBusy             they told us to slow down: nothing happened
├── CrowdRefused          a definite no: nothing happened; `remote_code` is the marketplace's own
│   ├── UnknownToCrowd    there is no such HIT, assignment, worker or qualification
│   ├── WrongState        it is there, and not where it would have to be
│   ├── NoFunds           the account does not cover it; the same call can succeed once it does
│   └── NotAllowed        the keys are missing, wrong or not permitted to do this
├── TokenMissing          a call that creates or pays, without its token; never sent
└── TokenExpired          the token protects no longer: look first, never just send again
"""

from common.errors import CodedError


class CrowdError(CodedError):
    """Something between us and the marketplace; the message says what to do about it."""

    code = "crowd_error"
    retry = False
    # Whether what was asked may have happened all the same.
    in_doubt = False


class CrowdUnavailable(CrowdError):
    """No answer, or a failure on their side; whether it happened is not known."""

    code = "crowd_unavailable"
    retry = True
    in_doubt = True


class CrowdBusy(CrowdError):
    """They told us to slow down; nothing happened."""

    code = "crowd_busy"
    retry = True


class CrowdRefused(CrowdError):
    """A definite no; nothing happened."""

    code = "crowd_refused"

    def __init__(self, message: str, remote_code: str = "") -> None:
        super().__init__(message)
        self.remote_code = remote_code


class UnknownToCrowd(CrowdRefused):
    """There is no such thing on the marketplace."""

    code = "unknown_to_crowd"


class WrongState(CrowdRefused):
    """It is there, and not where it would have to be for this."""

    code = "wrong_state"


class NoFunds(CrowdRefused):
    """The account does not cover it."""

    code = "no_funds"
    retry = True


class NotAllowed(CrowdRefused):
    """The access keys are missing, wrong, or not permitted to do this."""

    code = "not_allowed"


class TokenMissing(CrowdError):
    """A call that creates or pays, without its token."""

    code = "token_missing"


class TokenExpired(CrowdError):
    """A token that protects no longer; whoever has it looks first and never just sends again."""

    code = "token_expired"
