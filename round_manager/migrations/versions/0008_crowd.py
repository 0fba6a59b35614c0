"""When a HIT was first sent and finished, and what a bonus is for."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import TEXT, UTC, index

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("hit", sa.Column("sent_at", UTC, nullable=True))
    op.add_column("hit", sa.Column("finished_at", UTC, nullable=True))
    op.add_column("hit", sa.Column("last_error", TEXT, nullable=True))
    op.add_column("ledger_entry", sa.Column("reason", TEXT, nullable=True))
    index("ix_hit_unfinished", "hit", ["marketplace", "id"], where="finished_at IS NULL")


def downgrade() -> None:
    """Remove them."""
    op.drop_index("ix_hit_unfinished", "hit")
    op.drop_column("ledger_entry", "reason")
    op.drop_column("hit", "last_error")
    op.drop_column("hit", "finished_at")
    op.drop_column("hit", "sent_at")
