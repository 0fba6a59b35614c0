"""What can go wrong with models.

BackendError
├── ModelError                a model that cannot be used
│   ├── ModelNotFound         no version, folder or hub model of that name
│   ├── ModelFileUnsafe       a file could run code when it is opened
│   ├── ModelFileCorrupt      a file is missing, changed or unreadable
│   ├── ModelFileNotWritable  the disk does not accept a model's files
│   ├── ModelMismatch         the model was made for other labels, fields or lengths
│   ├── ModelParityFailed     the model does not answer here as it did when it was trained
│   ├── ModelExportFailed     the network cannot be exported to ONNX
│   ├── RuntimeNotAvailable   the version cannot run on the requested runtime
│   ├── TargetKindUnknown     no loader for that kind of target
│   └── TrainingDiverged      the loss or the model's scores are not finite
├── ModelInputInvalid         a row lacks a text that the model reads
├── TrainingDataInvalid       the rows cannot be trained on
├── EvaluationDataInvalid     the rows cannot be evaluated on
├── TrainingCancelled         training was cancelled; nothing was written
└── VerdictError              a verdict cannot be made
    ├── FooledRuleError       a fooled rule is unknown or does not fit the task
    └── VerdictNotTrusted     a signed verdict is forged, expired or another worker's
"""

from common.errors import CodedError


class BackendError(CodedError):
    """Base of the errors that ml_backend raises."""


class ModelError(BackendError):
    """A model cannot be used."""


class ModelNotFound(ModelError):
    """There is no model version, directory or hub model of that name."""


class ModelFileUnsafe(ModelError):
    """A model file could run code when it is opened."""


class ModelFileCorrupt(ModelError):
    """A model file is missing, changed or unreadable."""


class ModelFileNotWritable(ModelError):
    """A model's files, or the cache of its features, cannot be written."""


class ModelMismatch(ModelError):
    """A model was made for other labels, fields or lengths than the task has."""


class ModelParityFailed(ModelError):
    """A model gives other answers than its reference does."""


class ModelExportFailed(ModelError):
    """A network cannot be exported or quantised."""


class RuntimeNotAvailable(ModelError):
    """A version cannot run on the requested runtime."""


class TargetKindUnknown(ModelError):
    """There is no loader for a target of that kind."""


class ModelInputInvalid(BackendError):
    """A row lacks a text that the model reads."""


class TrainingDataInvalid(BackendError):
    """The rows cannot be trained on."""


class EvaluationDataInvalid(BackendError):
    """The rows cannot be evaluated on."""


class TrainingDiverged(ModelError):
    """The loss or the model's scores are not finite numbers."""


class TrainingCancelled(BackendError):
    """Training was cancelled; no model was written."""


class VerdictError(BackendError):
    """A verdict cannot be made."""


class FooledRuleError(VerdictError):
    """A fooled rule is unknown, defined twice, or does not fit the task."""


class VerdictNotTrusted(VerdictError):
    """A signed verdict is forged, expired, or was given to another worker."""
