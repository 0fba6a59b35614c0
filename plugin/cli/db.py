"""`outfox db`: the database and its schema."""

import click

from plugin.cli.output import json_option, show
from plugin.wiring import Application


@click.group()
@click.pass_obj
def db(app: Application) -> None:
    """Create, migrate and check the database."""
    settings = app.settings
    settings.make_home()


@db.command()
@json_option
@click.pass_obj
def upgrade(app: Application) -> None:
    """Create the database or migrate its tables; safe to repeat."""
    settings = app.settings
    from round_manager.database.store import open_store

    with open_store(settings.database, upgrade=True) as store:
        found = store.check().found
    show({"revision": found}, f"the database is up to date, at revision {found}")


@db.command()
@json_option
@click.pass_obj
def check(app: Application) -> None:
    """Check that the database exists and is up to date."""
    settings = app.settings
    from round_manager.database.store import open_store

    with open_store(settings.database) as store:
        found = store.check().found
    show({"revision": found}, f"the database is up to date, at revision {found}")
