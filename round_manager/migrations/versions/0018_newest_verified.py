"""An index for the newest verified examples of a task, from which gold items are drawn."""

from alembic import op

from round_manager.migrations.kinds import index

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    index("ix_example_verified", "example", ["task_id", "id"], where="status = 'verified'")


def downgrade() -> None:
    """Remove it."""
    op.drop_index("ix_example_verified", "example")
