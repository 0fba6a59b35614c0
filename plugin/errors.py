"""Errors of the command line, the web app and the adapters.

PluginError
├── SettingsError              a setting is missing or invalid
│   └── UnknownSetting         a setting does not exist
└── LabelStudioNotInstalled    Label Studio, its SDK or its editor is not installed
"""

from common.errors import CodedError, Hint


class PluginError(CodedError):
    """A failure outside the domain."""

    code = "plugin_error"
    retry = False


class SettingsError(PluginError):
    """A setting that is missing or invalid."""

    code = "settings_error"


class UnknownSetting(SettingsError):
    """A setting that does not exist."""

    code = "unknown_setting"


class LabelStudioNotInstalled(PluginError):
    """Label Studio, its SDK or its editor is not installed."""

    code = "label_studio_not_installed"

    def __init__(self, message: str, *, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint or Hint("install_extra", extra="label-studio"))
