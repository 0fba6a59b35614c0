"""Errors of the client.

OutfoxError                 outfox_error
    InvalidArgument         invalid_argument      an argument has the wrong type or value
    DataNotFound            data_not_found        the task, round or column does not exist
    DataUnreadable          data_unreadable       the operating system refuses to read a file or folder
    DataCorrupt             data_corrupt          a file is not what an archive contains, or its hash differs
    AccessDenied            access_denied         the server requires a token, or another one
    ServerUnavailable       server_unavailable    the server cannot be reached; a later call may succeed
    ServerError             server_error          the server reports an error
    TransferCorrupt         transfer_corrupt      a file was damaged during the download; a later call may succeed
    CacheUnusable           cache_unusable        downloaded files cannot be stored on this machine
    NotExportable           not_exportable        the rows do not fit the form
    ExportNotWritten        export_not_written    the exported files cannot be written
    NotImportable           not_importable        files have mistakes; `problems` lists them with their lines
    ImportNotWritten        import_not_written    the archives of imported rounds cannot be written
    ArchiveExists           archive_exists        there is another archive at the same place
    EvaluatorMissing        evaluator_missing     models can be evaluated only with the whole of Outfox installed
    EvaluationFailed        evaluation_failed     a model or its rows cannot be evaluated; `reason` is a stable code
    ModelRefused            model_refused         the server does not take a model; `reason` is a stable code
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar


class OutfoxError(Exception):
    """Data that cannot be loaded or exported. The message is one line that says what is wrong and what to do about it.

    `code` is stable and identifies the class; `retry` says whether the same call can succeed later.
    """

    code: ClassVar[str] = "outfox_error"
    retry: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


class InvalidArgument(OutfoxError):
    """An argument has the wrong type or value."""


class DataNotFound(OutfoxError):
    """The task, round or column does not exist."""


class DataUnreadable(OutfoxError):
    """The operating system refuses to read a file or folder."""


class DataCorrupt(OutfoxError):
    """A file is not what an archive contains, or its hash differs."""


class AccessDenied(OutfoxError):
    """The server requires a token, or another one."""


class ServerUnavailable(OutfoxError):
    """The server cannot be reached."""

    retry = True


class ServerError(OutfoxError):
    """The server reports an error."""

    def __init__(self, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.retry = retry


class TransferCorrupt(OutfoxError):
    """A file was damaged during the download."""

    retry = True


class CacheUnusable(OutfoxError):
    """Downloaded files cannot be stored on this machine."""


class NotExportable(OutfoxError):
    """The rows do not fit the form."""


class ExportNotWritten(OutfoxError):
    """The exported files cannot be written."""


class NotImportable(OutfoxError):
    """Files have mistakes; `problems` lists them with their lines."""

    def __init__(self, problems: Sequence[Any]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


class ImportNotWritten(OutfoxError):
    """The archives of imported rounds cannot be written."""


class ArchiveExists(OutfoxError):
    """There is another archive at the same place."""


class EvaluatorMissing(OutfoxError):
    """Models can be evaluated only where the whole of Outfox is installed."""


class EvaluationFailed(OutfoxError):
    """A model or its rows cannot be evaluated; `reason` is a stable code."""

    def __init__(self, message: str, *, reason: str = "", retry: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry = retry


class ModelRefused(OutfoxError):
    """The server does not take a model; `reason` is a stable code."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason
