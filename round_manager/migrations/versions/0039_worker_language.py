"""The language that a worker chose for their pages."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import TEXT

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column; it is empty for a worker who has chosen none."""
    op.add_column("worker", sa.Column("language", TEXT, nullable=True))


def downgrade() -> None:
    """Remove it."""
    op.drop_column("worker", "language")
