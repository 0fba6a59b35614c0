"""What can go wrong with Label Studio.

RoundManagerError
├── LabelStudioError              Label Studio cannot do what was asked
│   ├── LabelStudioUnavailable    it does not respond, or fails; retrying can help
│   ├── TokenRejected             the token is missing or not accepted
│   ├── ProjectNotFound           the project was deleted
│   ├── LabelStudioRefused        Label Studio refuses the content of a request
│   ├── NotConnected              the task has no projects in this Label Studio
│   └── MlBackendUnreachable      Label Studio cannot use the ML backend at this address
├── UnreadableAnnotation          an annotation contains nothing that can be stored
└── WaitingForRound               submissions wait until a round of the task is open
"""

from common.errors import Hint
from round_manager.errors import RoundManagerError


class LabelStudioError(RoundManagerError):
    """Label Studio cannot do what was asked; `status` is the HTTP status of its answer, if there was one."""

    def __init__(self, message: str, *, status: int | None = None, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class LabelStudioUnavailable(LabelStudioError):
    """Label Studio does not respond, or fails; retrying can help."""

    retry = True


class TokenRejected(LabelStudioError):
    """The token is missing, or Label Studio does not accept it."""

    code = "label_studio_token_rejected"


class ProjectNotFound(LabelStudioError):
    """The project was deleted from Label Studio."""

    code = "label_studio_project_not_found"


class LabelStudioRefused(LabelStudioError):
    """Label Studio refuses the content of a request."""

    code = "label_studio_request_refused"


class NotConnected(LabelStudioError):
    """The task has no projects in this Label Studio."""

    code = "label_studio_not_connected"


class MlBackendUnreachable(LabelStudioError):
    """Label Studio cannot use the ML backend at this address."""

    code = "label_studio_ml_backend_unreachable"
    retry = True


class UnreadableAnnotation(RoundManagerError):
    """An annotation contains nothing that can be stored; the message is for the owner, or for the worker."""


class WaitingForRound(RoundManagerError):
    """The task has no open round, or its round has just changed; submissions are read later."""

    retry = True
