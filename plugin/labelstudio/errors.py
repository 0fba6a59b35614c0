"""What can go wrong with Label Studio.

PluginError
├── LabelStudioError   Label Studio is not installed, does not answer, or answers no
├── Unreadable         an annotation says nothing that can be kept
└── NoRound            what people wrote has to wait until a round takes it
"""

from plugin.errors import PluginError

INSTALL = "pip install 'outfox[label-studio]'"


class LabelStudioError(PluginError):
    """Label Studio is not installed, does not answer, or answers no; `retry` says whether trying again may help."""

    code = "label_studio_error"

    def __init__(self, message: str, *, retry: bool = False, status: int | None = None) -> None:
        super().__init__(message)
        self.retry = retry
        self.status = status


class Unreadable(PluginError):
    """An annotation that says nothing that can be kept; the message is for the task's owner."""

    code = "unreadable"


class NoRound(PluginError):
    """The task has no round that takes what people write, or not the one that it had a moment ago."""

    code = "no_round"
    retry = True
