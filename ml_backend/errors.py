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

    code = "backend_error"


class ModelError(BackendError):
    """A model cannot be used."""

    code = "model_error"


class ModelNotFound(ModelError):
    """There is no model version, directory or hub model of that name."""

    code = "model_not_found"


class ModelFileUnsafe(ModelError):
    """A model file could run code when it is opened."""

    code = "model_file_unsafe"


class ModelFileCorrupt(ModelError):
    """A model file is missing, changed or unreadable."""

    code = "model_file_corrupt"


class ModelFileNotWritable(ModelError):
    """A model's files, or the cache of its features, cannot be written."""

    code = "model_file_not_writable"


class ModelMismatch(ModelError):
    """A model was made for other labels, fields or lengths than the task has."""

    code = "model_mismatch"


class ModelParityFailed(ModelError):
    """A model gives other answers than its reference does."""

    code = "model_parity_failed"


class ModelExportFailed(ModelError):
    """A network cannot be exported or quantised."""

    code = "model_export_failed"


class RuntimeNotAvailable(ModelError):
    """A version cannot run on the requested runtime."""

    code = "runtime_not_available"


class TargetKindUnknown(ModelError):
    """There is no loader for a target of that kind."""

    code = "target_kind_unknown"


class ModelInputInvalid(BackendError):
    """A row lacks a text that the model reads."""

    code = "model_input_invalid"


class TrainingDataInvalid(BackendError):
    """The rows cannot be trained on."""

    code = "training_data_invalid"


class EvaluationDataInvalid(BackendError):
    """The rows cannot be evaluated on."""

    code = "evaluation_data_invalid"


class TrainingDiverged(ModelError):
    """The loss or the model's scores are not finite numbers."""

    code = "training_diverged"


class TrainingCancelled(BackendError):
    """Training was cancelled; no model was written."""

    code = "training_cancelled"


class VerdictError(BackendError):
    """A verdict cannot be made."""

    code = "verdict_error"


class FooledRuleError(VerdictError):
    """A fooled rule is unknown, defined twice, or does not fit the task."""

    code = "fooled_rule_error"


class VerdictNotTrusted(VerdictError):
    """A signed verdict is forged, expired, or was given to another worker."""

    code = "verdict_not_trusted"
