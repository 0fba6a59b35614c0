"""`outfox db`: the database and its schema."""

import click

from plugin.cli.output import data_command, show
from plugin.wiring import Application


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
