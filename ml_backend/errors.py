"""What can go wrong with models.

BackendError
└── ModelError         a model's files are missing, unsafe, broken or of another kind
└── TrainingCancelled  somebody asked training to stop; nothing was written
└── VerdictError       a verdict cannot be made, or its signature does not hold
"""


class BackendError(Exception):
    """Something that ml_backend cannot do; the message says what to do about it."""

    retry = False


class ModelError(BackendError):
    """A model that must not, or cannot, be used."""


class TrainingCancelled(BackendError):
    """Training was stopped before its end; no model was written."""


class VerdictError(BackendError):
    """A verdict that cannot be made or believed."""


def one_line(error: BaseException) -> str:
    """What a library's error says, short enough to stand in one of ours."""
    return " ".join(str(error).split())[:200] or type(error).__name__
