"""An index for how often a worker was shown examples of an author."""

from alembic import op

from round_manager.migrations.kinds import index

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    index("ix_work_item_author", "work_item", ["worker_id", "author_id"], where="author_id IS NOT NULL")


def downgrade() -> None:
    """Remove it."""
    op.drop_index("ix_work_item_author", "work_item")
