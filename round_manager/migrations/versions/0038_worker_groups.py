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
    _link("group_member", "worker", "added_at")
    index("ix_group_member_worker", "group_member", ["worker_id"])
    _link("round_group", "round", "assigned_at")
    index("ix_round_group_group", "round_group", ["group_id"])


def downgrade() -> None:
    """Remove them."""
    for name in ("round_group", "group_member", "worker_group"):
        op.drop_table(name)
    op.drop_column("worker", "name")


def _link(table: str, other: str, at: str) -> None:
    """Make a table that links groups with rows of another table."""
    column = f"{other}_id"
    op.create_table(
        table,
        sa.Column("group_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(column, sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(at, UTC, nullable=False),
        sa.PrimaryKeyConstraint(
            *(("group_id", column) if other == "worker" else (column, "group_id")), name=f"pk_{table}"
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["worker_group.id"], name=f"fk_{table}_group_id_worker_group", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint([column], [f"{other}.id"], name=f"fk_{table}_{column}_{other}", ondelete="RESTRICT"),
    )
