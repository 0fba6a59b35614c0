"""Alembic's entry: runs the migrations on the connection that round_manager.migrations opened."""

from alembic import context


def run() -> None:
    """Run them in the transaction that is open already."""
    context.configure(
        connection=context.config.attributes["connection"],
        # Only drafting a new migration reads the models.
        target_metadata=context.config.attributes.get("models"),
        # SQLite alters a table by making a new one. That loses its triggers: such a migration makes them again.
        render_as_batch=True,
    )
    context.run_migrations()


run()
