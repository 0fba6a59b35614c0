"""The axes on which a task's submitted models are measured."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import TEXT

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column; without a value, the default axes apply."""
    op.add_column("submission_terms", sa.Column("axes", TEXT, nullable=True))


def downgrade() -> None:
    """Remove it."""
    op.drop_column("submission_terms", "axes")
