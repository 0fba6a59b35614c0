"""What was written back to tasks in Label Studio, and refused submissions that became new tasks."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import JSON, TEXT

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the columns."""
    op.add_column("label_studio_task", sa.Column("outcome", TEXT))
    op.add_column("label_studio_task", sa.Column("returned", JSON))


def downgrade() -> None:
    """Remove them."""
    op.drop_column("label_studio_task", "returned")
    op.drop_column("label_studio_task", "outcome")
