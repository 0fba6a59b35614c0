"""`outfox db`: the database and its schema."""

import click

from plugin.cli.output import json_option, show
from plugin.settings import Settings


@click.group()
def db() -> None:
    """Make or update the database."""


@db.command()
@json_option
@click.pass_obj
def upgrade(settings: Settings) -> None:
    """Bring the database's schema up to date; safe to run again."""
    from round_manager.store import open_store

    with open_store(settings.database) as store:
        revision = store.upgrade()
    show({"revision": revision}, f"the database is at revision {revision}")


@db.command()
@json_option
@click.pass_obj
def check(settings: Settings) -> None:
    """Tell whether the schema is up to date; exit code 1 if it is not."""
    from round_manager.store import open_store

    with open_store(settings.database) as store:
        state = store.check()
    text = "up to date" if state.current else f"at {state.revision or 'nothing'}, needs `outfox db upgrade`"
    show({"current": state.current, "revision": state.revision}, f"the database is {text}")
    if not state.current:
        raise click.exceptions.Exit(1)
