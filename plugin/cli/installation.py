"""`outfox config`, `completion`, `db` and `doctor`: the settings, the shell, the database, and what is missing."""

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
        value = str(getattr(app.settings, name))
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


@click.group()
@click.pass_obj
def db(app: Application) -> None:
    """Create, upgrade or check the database."""
    app.settings.make_home()


@db.command()
@data_command
def upgrade(app: Application) -> None:
    """Create the database or migrate its tables; safe to repeat."""
    _show_revision(app, upgrade=True)


@db.command()
@data_command
def check(app: Application) -> None:
    """Check that the database exists and is up to date."""
    _show_revision(app, upgrade=False)


def _show_revision(app: Application, *, upgrade: bool) -> None:
    with app.open_store(upgrade=upgrade) as store:
        found = store.check().found
    show({"revision": found}, f"the database is up to date, at revision {found}")


@click.command()
@data_command
def doctor(app: Application) -> None:
    """Show what is missing on this machine, and what to do about it; exit code 1 if something needed is missing."""
    from plugin.cli.doctor_checks import examine

    findings = examine(app)
    rows = [(one.what, one.state.replace("missing", "MISSING"), one.detail, one.advice) for one in findings]
    show([vars(one) for one in findings], table(("what", "", "found", "what to do"), rows))
    if any(one.state == "missing" for one in findings):
        raise click.exceptions.Exit(1)
