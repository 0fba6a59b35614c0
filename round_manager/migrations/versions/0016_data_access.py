"""Who may read a task's frozen rounds: tokens of researchers, and tasks that are public."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import ID, TEXT, UTC, index

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

HEX = "length(sha256) = 64 AND trim(sha256, '0123456789abcdef') = ''"


def upgrade() -> None:
    """Make the table, and the column."""
    op.create_table(
        "data_token",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("note", TEXT, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("expires_at", UTC, nullable=False),
        sa.Column("revoked_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_data_token"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_data_token_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("key", name="uq_data_token_key"),
        sa.UniqueConstraint("sha256", name="uq_data_token_sha256"),
        sa.CheckConstraint("trim(key) <> ''", name="ck_data_token_key"),
        sa.CheckConstraint(HEX, name="ck_data_token_sha256"),
    )
    index("ix_data_token_task", "data_token", ["task_id", "id"])
    op.add_column("task", sa.Column("published_at", UTC, nullable=True))


def downgrade() -> None:
    """Remove both."""
    op.drop_column("task", "published_at")
    op.drop_table("data_token")
