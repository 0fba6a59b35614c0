"""What can go wrong around the packages that plugin wires.

PluginError
├── SettingsError       a setting is missing or cannot be read
└── LabelStudioError    Label Studio does not answer, or answers no (plugin.labelstudio)
"""

from common.errors import CodedError


class PluginError(CodedError):
    """Something that the command cannot do; the message says what to do about it."""

    code = "plugin_error"
    retry = False


class SettingsError(PluginError):
    """A setting that is missing, unknown or unreadable."""

    code = "settings_error"
