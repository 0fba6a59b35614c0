"""Errors of the command line, the web app and the adapters.

PluginError
├── SettingsError       a setting is missing or invalid
│   └── UnknownSetting  a setting does not exist
└── LabelStudioError    Label Studio does not answer or refuses (plugin.labelstudio)
"""

from common.errors import CodedError


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
