"""`outfox config` and `outfox completion`: the settings in force, and shell completion."""

import re

import click
from click.shell_completion import get_completion_class

from plugin.cli.output import data_command, show, table
from plugin.settings import PREFIX, Settings, is_secret
from plugin.wiring import Application

# A database's URL may carry a password.
_PASSWORD = re.compile(r"(://[^:/@]*:).*(@)")


@click.command()
@data_command
def config(app: Application) -> None:
    """List every setting with its value, its environment variable and its meaning."""
    rows = []
    for name, field in Settings.model_fields.items():
        value = getattr(app.settings, name)
        shown = "(set)" if is_secret(name) and value else _PASSWORD.sub(r"\1***\2", value)
        rows.append((name, shown, PREFIX + name.upper(), field.description))
    data = [dict(zip(("setting", "value", "environment", "doc"), row, strict=True)) for row in rows]
    show(data, table(("setting", "value", "environment", "what it is"), rows))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    For bash: outfox completion bash > ~/.local/share/bash-completion/completions/outfox
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion for {shell}")
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "outfox", "_OUTFOX_COMPLETE").source())
