"""What can go wrong with models.

BackendError
└── ModelError         a model's files are missing, unsafe, broken or of another kind
└── TrainingCancelled  somebody asked training to stop; nothing was written
└── VerdictError       a verdict cannot be made, or its signature does not hold
"""

from common.errors import CodedError


class BackendError(CodedError):
    """Something that ml_backend cannot do; the message says what to do about it."""

    code = "backend_error"


class ModelError(BackendError):
    """A model that must not, or cannot, be used."""

    code = "model_error"


class TrainingCancelled(BackendError):
    """Training was stopped before its end; no model was written."""

    code = "training_cancelled"


class VerdictError(BackendError):
    """A verdict that cannot be made or believed."""

    code = "verdict_error"
