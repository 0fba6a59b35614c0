"""How much active time went into each item of a worker's page."""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    # In one statement: SQLite takes a rule with its new column, and none later.
    rule = "CONSTRAINT ck_work_item_active_ms CHECK (active_ms >= 0)"
    op.execute(f"ALTER TABLE work_item ADD COLUMN active_ms BIGINT {rule}")


def downgrade() -> None:
    """Remove it."""
    op.drop_column("work_item", "active_ms")
