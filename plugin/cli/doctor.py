"""`outfox doctor`: checks what this machine needs to run Outfox."""

import click

from plugin.cli.output import data_command, show, table
from plugin.wiring import Application

MARKS = {"ok": "ok", "warning": "warning", "missing": "MISSING"}


@click.command()
@data_command
def doctor(app: Application) -> None:
    """Show what is missing on this machine, and what to do about it; exit code 1 if something needed is missing."""
    from plugin.cli.doctor_checks import examine

    findings = examine(app)
    rows = [(one.what, MARKS[one.state], one.detail, one.advice) for one in findings]
    show([vars(one) for one in findings], table(("what", "", "found", "what to do"), rows))
    if any(one.state == "missing" for one in findings):
        raise click.exceptions.Exit(1)
