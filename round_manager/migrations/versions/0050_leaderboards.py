"""Boards with weights of their own, snapshots of leaderboards, and models that are left out."""

import sqlalchemy as sa
from alembic import op

from round_manager.database.triggers import Guard, create_statements, drop_statements
from round_manager.migrations.kinds import ID, JSON, TEXT, UTC, index

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

FIXED = "id, task_id, key, name, folded_name, weights, data_weights, parent_id, token_id, created_by, created_at"
GUARDS = (
    Guard("guard_board_fixed", "board", f"UPDATE OF {FIXED}", "a board never changes; save another one"),
    Guard("guard_board_kept", "board", "DELETE", "boards are kept; remove it from the leaderboard instead"),
    Guard("guard_board_snapshot_fixed", "board_snapshot", "UPDATE", "a snapshot never changes; take another one"),
    Guard("guard_board_snapshot_kept", "board_snapshot", "DELETE", "snapshots are kept"),
)


def upgrade() -> None:
    """Every task has the default board, which has no row."""
    op.create_table(
        "board",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("folded_name", TEXT, nullable=False),
        sa.Column("weights", JSON, nullable=False),
        sa.Column("data_weights", JSON, nullable=False),
        sa.Column("parent_id", ID, nullable=True),
        sa.Column("token_id", ID, nullable=True),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("removed_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_board"),
        sa.UniqueConstraint("key", name="uq_board_key"),
        _reference("board", "task_id", "task"),
        _reference("board", "parent_id", "board"),
        _reference("board", "token_id", "data_token"),
        *_filled("board", "key", "name", "folded_name", "created_by"),
    )
    index("ix_board_task", "board", ["task_id", "id"])
    index("uq_board_name", "board", ["task_id", "folded_name"], where="removed_at IS NULL", unique=True)
    index("ix_board_token", "board", ["token_id", "created_at"], where="token_id IS NOT NULL")
    op.create_table(
        "board_snapshot",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("board_id", ID, nullable=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("content", TEXT, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_board_snapshot"),
        sa.UniqueConstraint("task_id", "sha256", name="uq_board_snapshot_task_id_sha256"),
        _reference("board_snapshot", "task_id", "task"),
        _reference("board_snapshot", "board_id", "board"),
        *_filled("board_snapshot", "name", "content", "created_by"),
        sa.CheckConstraint(
            "length(sha256) = 64 AND trim(sha256, '0123456789abcdef') = ''", name="ck_board_snapshot_sha256"
        ),
    )
    op.create_table(
        "excluded_model",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("excluded_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_excluded_model"),
        sa.UniqueConstraint("task_id", "model", name="uq_excluded_model_task_id_model"),
        _reference("excluded_model", "task_id", "task"),
        *_filled("excluded_model", "model"),
    )
    for guard in GUARDS:
        for statement in create_statements(guard, op.get_bind().dialect.name):
            op.execute(statement)


def downgrade() -> None:
    """Remove them."""
    for guard in GUARDS:
        for statement in drop_statements(guard, op.get_bind().dialect.name):
            op.execute(statement)
    for name in ("excluded_model", "board_snapshot", "board"):
        op.drop_table(name)


def _reference(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=f"fk_{table}_{column}_{other}", ondelete="RESTRICT")


def _filled(table: str, *columns: str) -> list[sa.CheckConstraint]:
    return [sa.CheckConstraint(f"trim({column}) <> ''", name=f"ck_{table}_{column}") for column in columns]
