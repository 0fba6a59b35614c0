"""`outfox config`: list the settings in force."""

import re

import click

from plugin.cli.output import json_option, show, table
from plugin.settings import PREFIX, Settings, is_secret
from plugin.wiring import Application

# A database's URL may carry a password.
_PASSWORD = re.compile(r"(://[^:/@]*:).*(@)")


@click.command()
@json_option
@click.pass_obj
def config(app: Application) -> None:
    """List every setting with its value, its environment variable and its meaning."""
    rows = []
    for name, field in Settings.model_fields.items():
        value = getattr(app.settings, name)
        shown = "(set)" if is_secret(name) and value else _PASSWORD.sub(r"\1***\2", value)
        rows.append((name, shown, PREFIX + name.upper(), field.description))
    data = [dict(zip(("setting", "value", "environment", "doc"), row, strict=True)) for row in rows]
    show(data, table(("setting", "value", "environment", "what it is"), rows))
