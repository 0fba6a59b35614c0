"""Which acceptance of a HIT a worker's page belongs to."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import TEXT

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    op.add_column("work_session", sa.Column("acceptance", TEXT, nullable=True))


def downgrade() -> None:
    """Remove it."""
    op.drop_column("work_session", "acceptance")
