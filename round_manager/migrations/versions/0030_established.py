"""Whether a vote is an established validator's."""

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    # In one statement: SQLite takes a rule with its new column, and none later.
    rule = "CONSTRAINT ck_vote_established CHECK (established IN (true, false))"
    op.execute(f"ALTER TABLE vote ADD COLUMN established BOOLEAN {rule}")


def downgrade() -> None:
    """Remove it."""
    op.drop_column("vote", "established")
