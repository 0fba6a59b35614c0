"""A command group that imports a command only when it is used, so that `outfox --help` stays fast."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are named as `module:attribute`."""

    def __init__(self, *arguments: Any, commands_at: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the name of every command."""
        return sorted(self._commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in self._commands_at:
            return None
        module, attribute = self._commands_at[cmd_name].split(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self._commands_at[cmd_name]} is not a command")
        return command
