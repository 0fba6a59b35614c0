"""The errors of ml_backend.

BackendError
├── ModelError                  a model that cannot be used
│   ├── ModelNotFound           no version, folder or hub model of that name
│   ├── ModelFileUnsafe         a file could run code when it is opened
│   ├── ModelFileCorrupt        a file is missing, changed or unreadable
│   ├── ModelFileNotWritable    the disk does not accept a model's files
│   ├── ModelMismatch           the model was made for other labels, fields or lengths
│   ├── LabelMappingUnknown     the model's labels cannot be matched with the task's
│   ├── LabelMappingUnconfirmed the model's labels are probably the task's, but a person has to confirm it
│   ├── ModelParityFailed       the model does not answer here as it did when it was trained
│   ├── ModelExportFailed       the network cannot be exported to ONNX
│   ├── RuntimeNotAvailable     the version cannot run on the requested runtime
│   ├── MemoryNotMeasured       the process whose memory is measured failed
│   ├── TargetKindUnknown       no loader for that kind of target
│   ├── TrainingDiverged        the loss or the model's scores are not finite
│   ├── ModelMemoryExceeded     a model in the sandbox needs more memory than it may use
│   ├── ModelTimeExceeded       a model in the sandbox takes more time than it may
│   ├── ModelProcessEnded       the process of a model in the sandbox ended unexpectedly
│   ├── ModelOutputInvalid      a model in the sandbox answers what it was not asked
│   ├── VersionNotFound         the registry has no such version
│   └── VersionCorrupt          a version's files belong elsewhere or are not readable
├── SandboxUnavailable          this machine cannot isolate a stranger's model
├── ModelInputInvalid           a row lacks a text that the model reads
├── TrainingDataInvalid         the rows cannot be trained on
├── EvaluationDataInvalid       the rows cannot be evaluated on
├── PerturbationNotFound        there is no perturbation of that name, or it does not fit the task
├── PerturbationInvalid         a perturbation of another package breaks its own rules
├── PredictionsInvalid          a file of predictions does not fit the rows or the task
├── TrainingCancelled           training was cancelled; nothing was written
├── VerdictError                a verdict cannot be made
│   ├── FooledRuleError         a fooled rule is unknown or does not fit the task
│   └── VerdictNotTrusted       a signed verdict is forged, expired or another worker's
├── RegistryError               the registry's content or a request to it is invalid
│   ├── RegistryUnreachable     the registry does not answer; retrying can help
│   ├── RegistryMisconfigured   the address, the credentials or the permissions are wrong
│   ├── RegistryNotWritable     a file or folder cannot be written
│   ├── RegistryCorrupt         a file in the registry is missing, corrupt or belongs elsewhere
│   ├── RegistryBusy            another process holds the lock on the pins
│   ├── InvalidPins             the name, version or round to pin is invalid
│   ├── NoEarlierPins           there is nothing to roll back to
│   ├── PinsChanged             another process changed the pins in the meantime
│   ├── RotationRefused         a serving process could not load the version; the old pins are restored
│   ├── RotationNotConfirmed    a serving process did not confirm in time; the old pins are restored
│   └── NotServed               this process has no model for the task, or not yet
│       ├── TaskNotServed       the task is not served by this process
│       └── NoModelPinned       no model is pinned for the task
├── RequestRefused              the request is wrong; sending it again does not help
│   ├── InvalidRequest          400: the body is malformed
│   ├── BodyTimeout             408: the body did not arrive in time
│   ├── RequestTooLarge         413: the body, a text or the number of tasks is too large
│   ├── UnknownTask             404: the backend does not serve the task
│   ├── LabellingConfigMismatch 422: the project's labelling config is not one of the task
│   ├── InvalidTaskData         422: the task's data does not fit the pack
│   └── TooManyWrongPasswords   429: the client sent wrong passwords and has to wait
├── Busy                        too many requests; retrying later helps
│   └── AnswerTimeout           no answer in time
└── Undeliverable               the receiver will never accept these attempts; keeping them does not help
"""

from typing import ClassVar

from common.errors import CodedError, Hint


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


class LabelMappingUnknown(ModelError):
    """A model's labels cannot be matched with the task's."""


class LabelMappingUnconfirmed(ModelError):
    """A model's labels are probably the task's, but a person has to confirm it."""


class ModelParityFailed(ModelError):
    """A model gives other answers than its reference does."""


class ModelExportFailed(ModelError):
    """A network cannot be exported or quantised."""


class RuntimeNotAvailable(ModelError):
    """A version cannot run on the requested runtime."""


class MemoryNotMeasured(ModelError):
    """The process that answers while its memory is measured failed, for example for lack of memory."""

    retry = True


class TargetKindUnknown(ModelError):
    """There is no loader for a target of that kind."""


class ModelInputInvalid(BackendError):
    """A row lacks a text that the model reads."""


class TrainingDataInvalid(BackendError):
    """The rows cannot be trained on."""


class EvaluationDataInvalid(BackendError):
    """The rows cannot be evaluated on."""


class PerturbationNotFound(BackendError):
    """There is no perturbation of that name, or it does not fit the task."""


class PerturbationInvalid(BackendError):
    """A perturbation of another package breaks its own rules, or has the name of another one."""


class PredictionsInvalid(BackendError):
    """A file of predictions does not fit the rows or the task."""


class TrainingDiverged(ModelError):
    """The loss or the model's scores are not finite numbers."""


class ModelMemoryExceeded(ModelError):
    """A model in the sandbox needs more memory than it may use."""


class ModelTimeExceeded(ModelError):
    """A model in the sandbox takes more time than it may."""


class ModelProcessEnded(ModelError):
    """The process of a model in the sandbox ended unexpectedly."""


class ModelOutputInvalid(ModelError):
    """A model in the sandbox answers what it was not asked."""


class SandboxUnavailable(BackendError):
    """This machine cannot isolate a stranger's model."""


class TrainingCancelled(BackendError):
    """Training was cancelled; no model was written."""


class VerdictError(BackendError):
    """A verdict cannot be made."""


class FooledRuleError(VerdictError):
    """A fooled rule is unknown, defined twice, or does not fit the task."""


class VerdictNotTrusted(VerdictError):
    """A signed verdict is forged, expired, or was given to another worker."""


class RegistryError(BackendError):
    """The registry, or something in it, cannot be used."""


class RegistryUnreachable(RegistryError):
    """The registry does not answer at the moment."""

    retry = True


class RegistryMisconfigured(RegistryError):
    """The registry's address, credentials or permissions are wrong."""


class RegistryNotWritable(RegistryError):
    """A file or folder of the registry cannot be written."""


class RegistryCorrupt(RegistryError):
    """A file in the registry is missing, corrupt, or belongs to another task or version."""


class RegistryBusy(RegistryError):
    """Another process holds the lock on a task's pins."""


class InvalidPins(RegistryError):
    """A task name, version or round number that cannot be pinned."""


class NoEarlierPins(RegistryError):
    """There are no earlier pins to roll back to."""


class PinsChanged(RegistryError):
    """Another process changed the pins after the caller read them."""


class RotationRefused(RegistryError):
    """A serving process could not load the new versions."""


class RotationNotConfirmed(RegistryError):
    """Not every serving process confirmed the rotation in time."""

    retry = True


class NotServed(RegistryError):
    """This process cannot answer for the task at the moment."""

    retry = True


class TaskNotServed(NotServed):
    """This process does not serve the task."""

    retry = False


class NoModelPinned(NotServed):
    """No model version is pinned for the task yet."""


class VersionNotFound(ModelError):
    """The registry has no such model version."""

    def __init__(self, task: str, version: str) -> None:
        super().__init__(f"task {task} has no model version {version}", hint=Hint("list_models", task=task))


class VersionCorrupt(ModelError):
    """The files of a version are corrupt or belong to another version."""


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


class TooManyWrongPasswords(RequestRefused):
    """The client sent too many wrong passwords; `after` is when to retry, in seconds."""

    status = 429
    retry = True

    def __init__(self, message: str, after: int = 1) -> None:
        super().__init__(message)
        self.after = after


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
