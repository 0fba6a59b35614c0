"""The state of the manager's steps: failures, waits and the last run."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import ID, TEXT, UTC

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "manager_step",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("task", TEXT, nullable=False),
        sa.Column("ran_at", UTC, nullable=False),
        sa.Column("ran_by", TEXT, nullable=False),
        sa.Column("waits", TEXT, nullable=True),
        sa.Column("error", TEXT, nullable=True),
        sa.Column("failing_since", UTC, nullable=True),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("next_try_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_manager_step"),
        sa.UniqueConstraint("name", "task", name="uq_manager_step_name_task"),
        sa.CheckConstraint("trim(name) <> ''", name="ck_manager_step_name"),
        sa.CheckConstraint("trim(ran_by) <> ''", name="ck_manager_step_ran_by"),
        sa.CheckConstraint("trim(waits) <> ''", name="ck_manager_step_waits"),
        sa.CheckConstraint("trim(error) <> ''", name="ck_manager_step_error"),
        sa.CheckConstraint("failures >= 0", name="ck_manager_step_failures"),
        sa.CheckConstraint("(error IS NOT NULL) = (failing_since IS NOT NULL)", name="ck_manager_step_failing"),
        sa.CheckConstraint("next_try_at IS NULL OR error IS NOT NULL", name="ck_manager_step_next_try"),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("manager_step")
