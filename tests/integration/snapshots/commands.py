"""The commands of `outfox`, found by walking click's tree."""

from collections.abc import Iterator

import click

from plugin.cli import cli


def leaf_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command that can be run, by its full name."""
    for name, command in all_commands():
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield name, command


def all_commands(command: click.Command = cli, names: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group, by its full name."""
    if names:
        yield " ".join(names), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from all_commands(found, (*names, name))
