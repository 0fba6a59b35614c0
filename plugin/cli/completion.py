"""`outfox completion`: shell completion."""

import click
from click.shell_completion import get_completion_class


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
