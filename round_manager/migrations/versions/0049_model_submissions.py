"""Models that researchers submit for evaluation."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import ID, JSON, TEXT, UTC, WORD, index

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

HEX = "length(sha256) = 64 AND trim(sha256, '0123456789abcdef') = ''"
STATES = "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')"
LIMITS = ("per_day", "queued", "total_bytes", "file_bytes", "memory_mb", "seconds")


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "submission_terms",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in LIMITS),
        sa.Column("changed_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_submission_terms"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_submission_terms_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("task_id", name="uq_submission_terms_task_id"),
        sa.CheckConstraint("is_open IN (true, false)", name="ck_submission_terms_is_open"),
        *(sa.CheckConstraint(f"{name} >= 1", name=f"ck_submission_terms_{name}") for name in LIMITS),
    )
    table = "model_submission"
    op.create_table(
        table,
        sa.Column("id", ID, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("token_id", ID, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("is_named", sa.Boolean(), nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("options", JSON, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("starts", sa.BigInteger(), nullable=False),
        sa.Column("started_at", UTC, nullable=True),
        sa.Column("finished_at", UTC, nullable=True),
        sa.Column("host", TEXT, nullable=True),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("start_token", TEXT, nullable=True),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("cancel_at", UTC, nullable=True),
        sa.Column("code", TEXT, nullable=True),
        sa.Column("message", TEXT, nullable=True),
        sa.Column("model_id", TEXT, nullable=True),
        sa.Column("results", JSON, nullable=True),
        sa.Column("removed_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=f"fk_{table}_task_id_task", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["token_id"], ["data_token.id"], name=f"fk_{table}_token_id_data_token", ondelete="RESTRICT"
        ),
        sa.UniqueConstraint("key", name=f"uq_{table}_key"),
        sa.CheckConstraint(STATES, name=f"ck_{table}_state"),
        sa.CheckConstraint("is_named IN (true, false)", name=f"ck_{table}_is_named"),
        *(
            sa.CheckConstraint(f"trim({name}) <> ''", name=f"ck_{table}_{name}")
            for name in ("key", "name", "kind", "code", "host")
        ),
        sa.CheckConstraint(HEX, name=f"ck_{table}_sha256"),
        sa.CheckConstraint("size >= 1", name=f"ck_{table}_size"),
        *(sa.CheckConstraint(f"{name} >= 0", name=f"ck_{table}_{name}") for name in ("starts", "steps", "total")),
        sa.CheckConstraint(
            "(state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)", name=f"ck_{table}_finished"
        ),
        sa.CheckConstraint("(state = 'failed') = (code IS NOT NULL)", name=f"ck_{table}_failed"),
        sa.CheckConstraint("(state = 'running') = (start_token IS NOT NULL)", name=f"ck_{table}_running"),
    )
    there = "removed_at IS NULL"
    index("uq_model_submission_content", table, ["task_id", "sha256"], where=there, unique=True)
    index("uq_model_submission_name", table, ["task_id", "name"], where=there, unique=True)
    index("uq_model_submission_running", table, ["task_id"], where="state = 'running'", unique=True)
    index("ix_model_submission_token", table, ["token_id", "created_at"])
    index("ix_model_submission_queue", table, ["task_id", "state", "id"])


def downgrade() -> None:
    """Remove both."""
    op.drop_table("model_submission")
    op.drop_table("submission_terms")
