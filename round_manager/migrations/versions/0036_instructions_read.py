"""Which instructions a worker has read."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import TEXT, UTC

revision = "0036"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "instructions_read",
        sa.Column("worker_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("for_validators", sa.Boolean(), nullable=False),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("read_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("worker_id", "task_id", "for_validators", name="pk_instructions_read"),
        sa.ForeignKeyConstraint(
            ["worker_id"], ["worker.id"], name="fk_instructions_read_worker_id_worker", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["task_id"], ["task.id"], name="fk_instructions_read_task_id_task", ondelete="RESTRICT"
        ),
        sa.CheckConstraint("for_validators IN (true, false)", name="ck_instructions_read_for_validators"),
        sa.CheckConstraint(
            "length(version) = 64 AND trim(version, '0123456789abcdef') = ''", name="ck_instructions_read_version"
        ),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("instructions_read")
