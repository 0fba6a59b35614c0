"""Validation HITs that were paid although nothing was left to judge."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import UTC, index

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No earlier page was empty: they were refused."""
    op.add_column("work_session", sa.Column("empty_at", UTC, nullable=True))
    index("ix_work_session_empty", "work_session", ["hit_id"], where="empty_at IS NOT NULL")


def downgrade() -> None:
    """Forget which were."""
    op.drop_index("ix_work_session_empty", "work_session")
    op.drop_column("work_session", "empty_at")
