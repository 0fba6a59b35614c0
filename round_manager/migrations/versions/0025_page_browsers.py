"""The browser that each page belongs to."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import TEXT, UTC

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Pages that are open now belong to the next browser that calls."""
    op.add_column("work_session", sa.Column("browser", TEXT, nullable=True))
    op.add_column("work_session", sa.Column("bound_at", UTC, nullable=True))
    op.add_column("work_session", sa.Column("browser_seen_at", UTC, nullable=True))


def downgrade() -> None:
    """Pages belong to no browser again."""
    for name in ("browser_seen_at", "bound_at", "browser"):
        op.drop_column("work_session", name)
