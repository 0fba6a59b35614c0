"""`outfox config`: the settings in force."""

import re
from dataclasses import fields

import click

from plugin.cli.output import json_option, show, table
from plugin.settings import PREFIX, Settings
from plugin.wiring import Application

# A database's URL may carry a password.
_PASSWORD = re.compile(r"(://[^:/@]*:).*(@)")


@click.command()
@json_option
@click.pass_obj
def config(app: Application) -> None:
    """Show every setting: its value, the variable that sets it, and what it is."""
    settings = app.settings
    rows = []
    for one in fields(Settings):
        value = getattr(settings, one.name)
        shown = "(set)" if one.metadata["secret"] and value else _PASSWORD.sub(r"\1***\2", value)
        rows.append((one.name, shown, PREFIX + one.name.upper(), one.metadata["doc"]))
    data = [dict(zip(("setting", "value", "environment", "doc"), row, strict=True)) for row in rows]
    show(data, table(("setting", "value", "environment", "what it is"), rows))
