"""The ledger."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import CENTS, ID, TEXT, UTC, WORD, index

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "ledger_entry",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("round_id", sa.BigInteger(), nullable=True),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("cents", CENTS, nullable=False),
        sa.Column("fee_cents", CENTS, nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("hit_id", sa.BigInteger(), nullable=False),
        sa.Column("assignment_id", sa.BigInteger(), nullable=True),
        sa.Column("worker_id", sa.BigInteger(), nullable=True),
        sa.Column("example_id", sa.BigInteger(), nullable=True),
        sa.Column("reserved_at", UTC, nullable=False),
        sa.Column("owed_at", UTC, nullable=True),
        sa.Column("sent_at", UTC, nullable=True),
        sa.Column("settled_at", UTC, nullable=True),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("next_try_at", UTC, nullable=True),
        sa.Column("last_error", TEXT, nullable=True),
        sa.Column("held_at", UTC, nullable=True),
        sa.Column("held_reason", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_ledger_entry"),
        sa.ForeignKeyConstraint(
            ["round_id", "task_id"],
            ["round.id", "round.task_id"],
            name="fk_ledger_entry_round_id_task_id_round",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["hit_id", "task_id"],
            ["hit.id", "hit.task_id"],
            name="fk_ledger_entry_hit_id_task_id_hit",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["assignment_id", "worker_id"],
            ["assignment.id", "assignment.worker_id"],
            name="fk_ledger_entry_assignment_id_worker_id_assignment",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["example_id", "worker_id"],
            ["example.id", "example.author_id"],
            name="fk_ledger_entry_example_id_worker_id_example",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_ledger_entry_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("key", name="uq_ledger_entry_key"),
        sa.CheckConstraint("kind IN ('reward', 'bonus', 'top_up', 'extra')", name="ck_ledger_entry_kind"),
        sa.CheckConstraint(
            "state IN ('reserved', 'owed', 'sent', 'confirmed', 'refused', 'released')", name="ck_ledger_entry_state"
        ),
        sa.CheckConstraint("length(key) BETWEEN 1 AND 64", name="ck_ledger_entry_key"),
        sa.CheckConstraint("cents >= 0 AND cents = CAST(cents AS BIGINT)", name="ck_ledger_entry_cents"),
        sa.CheckConstraint(
            "fee_cents >= 0 AND fee_cents = CAST(fee_cents AS BIGINT)", name="ck_ledger_entry_fee_cents"
        ),
        sa.CheckConstraint("tries >= 0", name="ck_ledger_entry_tries"),
        sa.CheckConstraint(
            "(state NOT IN ('reserved', 'released')) = (owed_at IS NOT NULL)", name="ck_ledger_entry_owed"
        ),
        sa.CheckConstraint(
            "(state IN ('sent', 'confirmed', 'refused')) = (sent_at IS NOT NULL)", name="ck_ledger_entry_sent"
        ),
        sa.CheckConstraint(
            "(state IN ('confirmed', 'refused', 'released')) = (settled_at IS NOT NULL)", name="ck_ledger_entry_settled"
        ),
        sa.CheckConstraint(
            "owed_at IS NULL OR (worker_id IS NOT NULL AND assignment_id IS NOT NULL)", name="ck_ledger_entry_payee"
        ),
        sa.CheckConstraint("kind = 'bonus' OR example_id IS NULL", name="ck_ledger_entry_bonus"),
        sa.CheckConstraint(
            "kind <> 'bonus' OR owed_at IS NULL OR example_id IS NOT NULL", name="ck_ledger_entry_bonus_for"
        ),
        sa.CheckConstraint("held_at IS NULL OR state = 'sent'", name="ck_ledger_entry_held"),
        sa.CheckConstraint("(held_at IS NOT NULL) = (held_reason IS NOT NULL)", name="ck_ledger_entry_held_reason"),
    )
    index("ix_ledger_entry_hit", "ledger_entry", ["hit_id", "state"])
    index("ix_ledger_entry_owed", "ledger_entry", ["next_try_at", "id"], where="state = 'owed'")
    index("ix_ledger_entry_round", "ledger_entry", ["round_id", "state", "cents", "fee_cents"])
    index("ix_ledger_entry_sent", "ledger_entry", ["next_try_at", "id"], where="state = 'sent'")
    index("ix_ledger_entry_task", "ledger_entry", ["task_id", "state", "cents", "fee_cents"])
    index("ix_ledger_entry_worker", "ledger_entry", ["worker_id", "state"], where="worker_id IS NOT NULL")
    index(
        "uq_ledger_entry_assignment",
        "ledger_entry",
        ["assignment_id", "kind"],
        unique=True,
        where="kind IN ('reward', 'top_up') AND assignment_id IS NOT NULL AND state <> 'refused'",
    )
    index(
        "uq_ledger_entry_example",
        "ledger_entry",
        ["example_id"],
        unique=True,
        where="example_id IS NOT NULL AND state <> 'refused'",
    )


def downgrade() -> None:
    """Remove them."""
    for table in ("ledger_entry",):
        op.drop_table(table)
