"""Whether a worker is a program in place of a person."""

from alembic import op

from round_manager.migrations.kinds import index

revision = "0034"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    # In one statement: SQLite takes a rule with its new column, and none later.
    rule = "CONSTRAINT ck_worker_simulated CHECK (simulated IN (true, false))"
    op.execute(f"ALTER TABLE worker ADD COLUMN simulated BOOLEAN DEFAULT false NOT NULL {rule}")
    index("ix_worker_simulated", "worker", ["id"], where="simulated")


def downgrade() -> None:
    """Remove it."""
    op.drop_index("ix_worker_simulated", "worker")
    op.drop_column("worker", "simulated")
