"""Errors of the command line, the web app and the adapters.

PluginError
├── SettingsError              a setting is missing or invalid
│   └── UnknownSetting         a setting does not exist
├── InputFileError             a file or argument of a command cannot be read
├── LabelStudioNotInstalled    Label Studio, its SDK or its editor is not installed
└── ClusterError               a job cannot run on the cluster
    ├── ClusterUnreachable     the cluster does not answer, or fails; a retry may help
    ├── ClusterRefused         the cluster does not accept a request
    ├── ClusterJobFailed       a job on the cluster failed or was stopped
    └── RayNotInstalled        Ray is not installed
"""

from common.errors import CodedError, Hint


class PluginError(CodedError):
    """A failure outside the domain."""

    retry = False


class SettingsError(PluginError):
    """A setting that is missing or invalid."""


class UnknownSetting(SettingsError):
    """A setting that does not exist."""


class InputFileError(PluginError):
    """A file or argument of a command that cannot be read."""


class LabelStudioNotInstalled(PluginError):
    """Label Studio, its SDK or its editor is not installed."""

    def __init__(self, message: str, *, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint or Hint("install_extra", extra="label-studio"))


class ClusterError(PluginError):
    """A job that cannot run on the cluster."""


class ClusterUnreachable(ClusterError):
    """The cluster does not answer or fails, so that a retry may succeed."""

    retry = True

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=Hint("check_installation"))


class ClusterRefused(ClusterError):
    """The cluster does not accept a request, or answers in an unknown form."""


class ClusterJobFailed(ClusterError):
    """A job on the cluster failed or was stopped."""

    def __init__(self, message: str, *, retry: bool) -> None:
        super().__init__(message)
        self.retry = retry


class RayNotInstalled(ClusterError):
    """Ray is not installed where an evaluation uses it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=Hint("install_extra", extra="ray"))
