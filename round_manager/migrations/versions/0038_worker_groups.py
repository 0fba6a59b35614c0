"""Groups of workers, the rounds that are theirs, and the names that owners give to workers."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import ID, TEXT, UTC, index

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Every round is for everyone so far."""
    op.add_column("worker", sa.Column("name", TEXT, nullable=True))
    op.create_table(
        "worker_group",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_worker_group"),
        sa.UniqueConstraint("name", name="uq_worker_group_name"),
        sa.CheckConstraint("trim(name) <> ''", name="ck_worker_group_name"),
    )
    op.create_table(
        "group_member",
        sa.Column("group_id", ID, nullable=False),
        sa.Column("worker_id", ID, nullable=False),
        sa.Column("added_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("group_id", "worker_id", name="pk_group_member"),
        _reference("group_member", "group_id", "worker_group"),
        _reference("group_member", "worker_id", "worker"),
    )
    index("ix_group_member_worker", "group_member", ["worker_id"])
    op.create_table(
        "round_group",
        sa.Column("round_id", sa.BigInteger(), nullable=False),
        sa.Column("group_id", ID, nullable=False),
        sa.Column("assigned_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("round_id", "group_id", name="pk_round_group"),
        _reference("round_group", "round_id", "round"),
        _reference("round_group", "group_id", "worker_group"),
    )
    index("ix_round_group_group", "round_group", ["group_id"])


def downgrade() -> None:
    """Remove them."""
    for name in ("round_group", "group_member", "worker_group"):
        op.drop_table(name)
    op.drop_column("worker", "name")


def _reference(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=f"fk_{table}_{column}_{other}", ondelete="RESTRICT")
