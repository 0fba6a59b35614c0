"""What can go wrong with Label Studio."""

from plugin.errors import PluginError

INSTALL = "pip install 'outfox[label-studio]'"


class LabelStudioError(PluginError):
    """Label Studio is not installed, does not answer, or answers no; `retry` says whether trying again may help."""

    def __init__(self, message: str, *, retry: bool = False, status: int | None = None) -> None:
        super().__init__(message)
        self.retry = retry
        self.status = status
