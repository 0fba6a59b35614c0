"""What a simulated worker meets.

PluginError
├── Stopped       the simulation was told to end
└── SiteTrouble   a page that is not there, refuses, or cannot be read; `retry` tells whether it may pass
"""

from plugin.errors import PluginError


class Stopped(PluginError):
    """The simulation was told to end."""

    code = "stopped"


class SiteTrouble(PluginError):
    """A page that is not there, refuses, or cannot be read."""

    code = "site_trouble"

    def __init__(self, text: str, *, retry: bool = False) -> None:
        super().__init__(text)
        self.retry = retry
