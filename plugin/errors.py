"""Errors of the command line, the web app and the adapters.

PluginError
├── SettingsError              a setting is missing or invalid
│   └── UnknownSetting         a setting does not exist
├── InputFileError             a file or argument of a command cannot be read
└── LabelStudioNotInstalled    Label Studio, its SDK or its editor is not installed
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
