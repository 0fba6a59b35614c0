"""Gold that cannot be looked up: examples that are not published, who has seen which item, and none from the seed."""

import sqlalchemy as sa
from alembic import op

from round_manager.database.triggers import Guard, create_statements, drop_statements
from round_manager.migrations.kinds import ID, UTC, index

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

ADDED = Guard(
    "guard_gold_example_added",
    "gold_example",
    "INSERT",
    "gold is taken from rounds that are open or validating",
    "NOT (SELECT status IN ('open', 'validating') FROM round WHERE id = NEW.round_id FOR KEY SHARE)",
)


def upgrade() -> None:
    """Make the tables, and retire all items, because they come from the seed, which everyone can read."""
    op.create_table(
        "gold_example",
        sa.Column("example_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("round_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("retired_at", UTC, nullable=True),
        sa.Column("withheld_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("example_id", name="pk_gold_example"),
        sa.ForeignKeyConstraint(
            ["example_id"], ["example.id"], name="fk_gold_example_example_id_example", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["round_id", "task_id"],
            ["round.id", "round.task_id"],
            name="fk_gold_example_round_id_task_id_round",
            ondelete="RESTRICT",
        ),
    )
    index("ix_gold_example_live", "gold_example", ["task_id", "round_id"], where="retired_at IS NULL")
    index("ix_gold_example_round", "gold_example", ["round_id"])
    op.create_table(
        "gold_showing",
        sa.Column("id", ID, nullable=False),
        sa.Column("worker_id", sa.BigInteger(), nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("shown_at", UTC, nullable=False),
        sa.Column("gold_id", ID, nullable=True),
        sa.Column("example_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_gold_showing"),
        sa.ForeignKeyConstraint(
            ["session_id", "worker_id"],
            ["work_session.id", "work_session.worker_id"],
            name="fk_gold_showing_session_id_worker_id_work_session",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["gold_id"], ["gold_item.id"], name="fk_gold_showing_gold_id_gold_item", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["example_id"],
            ["gold_example.example_id"],
            name="fk_gold_showing_example_id_gold_example",
            ondelete="RESTRICT",
        ),
        sa.CheckConstraint(
            "CASE WHEN gold_id IS NULL THEN 0 ELSE 1 END + CASE WHEN example_id IS NULL THEN 0 ELSE 1 END = 1",
            name="ck_gold_showing_subject",
        ),
    )
    rows = {"gold_id": "uq_gold_showing_gold", "example_id": "uq_gold_showing_example"}
    for column, name in rows.items():
        index(name, "gold_showing", [column, "worker_id"], where=f"{column} IS NOT NULL", unique=True)
    index("ix_gold_showing_worker", "gold_showing", ["worker_id"])
    op.execute("UPDATE gold_item SET retired_at = created_at WHERE retired_at IS NULL")
    for statement in create_statements(ADDED, op.get_bind().dialect.name):
        op.execute(statement)


def downgrade() -> None:
    """Remove them; items from the seed stay retired until the pack is applied again."""
    for statement in drop_statements(ADDED, op.get_bind().dialect.name):
        op.execute(statement)
    op.drop_table("gold_showing")
    op.drop_table("gold_example")
