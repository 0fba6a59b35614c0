"""Tasks, rounds, models and evaluations."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import CENTS, ID, JSON, TEXT, UTC, WORD, index

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "task",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("folder", TEXT, nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("spec_sha256", TEXT, nullable=False),
        sa.Column("worker_salt", TEXT, nullable=False),
        sa.Column("budget_cents", CENTS, nullable=False),
        sa.Column("reserved_cents", CENTS, nullable=False),
        sa.Column("owed_cents", CENTS, nullable=False),
        sa.Column("sent_cents", CENTS, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("archived_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_task"),
        sa.UniqueConstraint("name", name="uq_task_name"),
        sa.CheckConstraint(
            "length(name) BETWEEN 1 AND 40 AND trim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_') = ''",
            name="ck_task_name",
        ),
        sa.CheckConstraint(
            "length(spec_sha256) = 64 AND trim(spec_sha256, '0123456789abcdef') = ''", name="ck_task_spec_sha256"
        ),
        sa.CheckConstraint("length(worker_salt) >= 32", name="ck_task_worker_salt"),
        sa.CheckConstraint(
            "budget_cents >= 0 AND budget_cents = CAST(budget_cents AS BIGINT)", name="ck_task_budget_cents"
        ),
        sa.CheckConstraint(
            "reserved_cents >= 0 AND owed_cents >= 0 AND sent_cents >= 0 AND reserved_cents + owed_cents + "
            "sent_cents <= budget_cents",
            name="ck_task_within_budget",
        ),
    )
    op.create_table(
        "context",
        sa.Column("id", ID, nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("fields", JSON, nullable=False),
        sa.Column("extra", JSON, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("retired_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_context"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_context_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("public_id", name="uq_context_public_id"),
        sa.UniqueConstraint("task_id", "key", name="uq_context_task_id_key"),
        sa.UniqueConstraint("task_id", "position", name="uq_context_task_id_position"),
        sa.UniqueConstraint("id", "task_id", name="uq_context_id_task_id"),
        sa.CheckConstraint("trim(key) <> ''", name="ck_context_key"),
        sa.CheckConstraint("position >= 0", name="ck_context_position"),
    )
    op.create_table(
        "model_version",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("parent_id", sa.BigInteger(), nullable=True),
        sa.Column("uri", TEXT, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("files", JSON, nullable=False),
        sa.Column("data", JSON, nullable=False),
        sa.Column("data_sha256", TEXT, nullable=False),
        sa.Column("settings", JSON, nullable=False),
        sa.Column("metrics", JSON, nullable=False),
        sa.Column("code_version", TEXT, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_model_version"),
        sa.ForeignKeyConstraint(
            ["parent_id", "task_id"],
            ["model_version.id", "model_version.task_id"],
            name="fk_model_version_parent_id_task_id_model_version",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_model_version_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("name", name="uq_model_version_name"),
        sa.UniqueConstraint("task_id", "sha256", name="uq_model_version_task_id_sha256"),
        sa.UniqueConstraint("id", "task_id", name="uq_model_version_id_task_id"),
        sa.CheckConstraint("trim(name) <> ''", name="ck_model_version_name"),
        sa.CheckConstraint("trim(uri) <> ''", name="ck_model_version_uri"),
        sa.CheckConstraint(
            "length(sha256) = 64 AND trim(sha256, '0123456789abcdef') = ''", name="ck_model_version_sha256"
        ),
        sa.CheckConstraint(
            "length(data_sha256) = 64 AND trim(data_sha256, '0123456789abcdef') = ''",
            name="ck_model_version_data_sha256",
        ),
        sa.CheckConstraint("parent_id <> id", name="ck_model_version_parent"),
    )
    op.create_table(
        "round",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("spec_sha256", TEXT, nullable=False),
        sa.Column("target_fooling", sa.BigInteger(), nullable=False),
        sa.Column("budget_cents", CENTS, nullable=False),
        sa.Column("reserved_cents", CENTS, nullable=False),
        sa.Column("owed_cents", CENTS, nullable=False),
        sa.Column("sent_cents", CENTS, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("closes_at", UTC, nullable=True),
        sa.Column("opened_at", UTC, nullable=True),
        sa.Column("validating_at", UTC, nullable=True),
        sa.Column("closed_at", UTC, nullable=True),
        sa.Column("paused_at", UTC, nullable=True),
        sa.Column("frozen_at", UTC, nullable=True),
        sa.Column("archive_uri", TEXT, nullable=True),
        sa.Column("archive_sha256", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_round"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_round_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("task_id", "number", name="uq_round_task_id_number"),
        sa.UniqueConstraint("id", "task_id", name="uq_round_id_task_id"),
        sa.CheckConstraint("status IN ('draft', 'open', 'validating', 'closed')", name="ck_round_status"),
        sa.CheckConstraint("number >= 1", name="ck_round_number"),
        sa.CheckConstraint("target_fooling >= 1", name="ck_round_target_fooling"),
        sa.CheckConstraint(
            "length(spec_sha256) = 64 AND trim(spec_sha256, '0123456789abcdef') = ''", name="ck_round_spec_sha256"
        ),
        sa.CheckConstraint(
            "length(archive_sha256) = 64 AND trim(archive_sha256, '0123456789abcdef') = ''",
            name="ck_round_archive_sha256",
        ),
        sa.CheckConstraint(
            "budget_cents >= 0 AND budget_cents = CAST(budget_cents AS BIGINT)", name="ck_round_budget_cents"
        ),
        sa.CheckConstraint(
            "reserved_cents >= 0 AND owed_cents >= 0 AND sent_cents >= 0 AND reserved_cents + owed_cents + "
            "sent_cents <= budget_cents",
            name="ck_round_within_budget",
        ),
        sa.CheckConstraint("(status <> 'draft') = (opened_at IS NOT NULL)", name="ck_round_opened"),
        sa.CheckConstraint(
            "(status IN ('validating', 'closed')) = (validating_at IS NOT NULL)", name="ck_round_validating"
        ),
        sa.CheckConstraint("(status = 'closed') = (closed_at IS NOT NULL)", name="ck_round_closed"),
        sa.CheckConstraint("opened_at <= validating_at AND validating_at <= closed_at", name="ck_round_in_order"),
        sa.CheckConstraint("paused_at IS NULL OR status IN ('open', 'validating')", name="ck_round_paused"),
        sa.CheckConstraint("frozen_at IS NULL OR status = 'closed'", name="ck_round_frozen"),
        sa.CheckConstraint("(frozen_at IS NOT NULL) = (archive_sha256 IS NOT NULL)", name="ck_round_archived"),
        sa.CheckConstraint("(frozen_at IS NOT NULL) = (archive_uri IS NOT NULL)", name="ck_round_archive_place"),
    )
    index("uq_round_live", "round", ["task_id"], unique=True, where="status IN ('open', 'validating')")
    op.create_table(
        "round_model",
        sa.Column("round_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("model_version_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("round_id", "model_version_id", name="pk_round_model"),
        sa.ForeignKeyConstraint(
            ["round_id", "task_id"],
            ["round.id", "round.task_id"],
            name="fk_round_model_round_id_task_id_round",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["model_version_id", "task_id"],
            ["model_version.id", "model_version.task_id"],
            name="fk_round_model_model_version_id_task_id_model_version",
            ondelete="RESTRICT",
        ),
        sa.UniqueConstraint("round_id", "rank", name="uq_round_model_round_id_rank"),
        sa.CheckConstraint("rank >= 0", name="ck_round_model_rank"),
    )
    op.create_table(
        "evaluation",
        sa.Column("id", ID, nullable=False),
        sa.Column("model_version_id", ID, nullable=False),
        sa.Column("round_id", ID, nullable=True),
        sa.Column("dataset", TEXT, nullable=False),
        sa.Column("dataset_sha256", TEXT, nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("metric", TEXT, nullable=False),
        sa.Column("performance", sa.Double(), nullable=False),
        sa.Column("rows_per_second", sa.Double(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("fairness", sa.Double(), nullable=True),
        sa.Column("robustness", sa.Double(), nullable=True),
        sa.Column("details", JSON, nullable=False),
        sa.Column("code_version", TEXT, nullable=False),
        sa.Column("measured_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evaluation"),
        sa.ForeignKeyConstraint(
            ["model_version_id"],
            ["model_version.id"],
            name="fk_evaluation_model_version_id_model_version",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["round_id"], ["round.id"], name="fk_evaluation_round_id_round", ondelete="RESTRICT"),
        sa.UniqueConstraint(
            "model_version_id", "dataset_sha256", "metric", name="uq_evaluation_model_version_id_dataset_sha256_metric"
        ),
        sa.CheckConstraint("trim(dataset) <> ''", name="ck_evaluation_dataset"),
        sa.CheckConstraint("trim(metric) <> ''", name="ck_evaluation_metric"),
        sa.CheckConstraint(
            "length(dataset_sha256) = 64 AND trim(dataset_sha256, '0123456789abcdef') = ''",
            name="ck_evaluation_dataset_sha256",
        ),
        sa.CheckConstraint("row_count >= 1", name="ck_evaluation_row_count"),
        sa.CheckConstraint("rows_per_second >= 0", name="ck_evaluation_rows_per_second"),
        sa.CheckConstraint("memory_bytes >= 0", name="ck_evaluation_memory_bytes"),
        sa.CheckConstraint("performance >= 0 AND performance <= 1", name="ck_evaluation_performance"),
        sa.CheckConstraint("fairness >= 0 AND fairness <= 1", name="ck_evaluation_fairness"),
        sa.CheckConstraint("robustness >= 0 AND robustness <= 1", name="ck_evaluation_robustness"),
    )
    index("ix_evaluation_round", "evaluation", ["round_id"])
    op.create_table(
        "audit_entry",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", UTC, nullable=False),
        sa.Column("actor", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("task_id", ID, nullable=True),
        sa.Column("round_id", sa.BigInteger(), nullable=True),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("subject_id", sa.BigInteger(), nullable=False),
        sa.Column("before", JSON, nullable=True),
        sa.Column("after", JSON, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entry"),
        sa.ForeignKeyConstraint(
            ["round_id", "task_id"],
            ["round.id", "round.task_id"],
            name="fk_audit_entry_round_id_task_id_round",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_audit_entry_task_id_task", ondelete="RESTRICT"),
        sa.CheckConstraint("trim(actor) <> ''", name="ck_audit_entry_actor"),
        sa.CheckConstraint("trim(action) <> ''", name="ck_audit_entry_action"),
        sa.CheckConstraint("trim(subject) <> ''", name="ck_audit_entry_subject"),
        sa.CheckConstraint("trim(reason) <> ''", name="ck_audit_entry_reason"),
    )
    index("ix_audit_entry_round", "audit_entry", ["round_id", "id"], where="round_id IS NOT NULL")
    index("ix_audit_entry_subject", "audit_entry", ["subject", "subject_id", "id"])
    index("ix_audit_entry_task", "audit_entry", ["task_id", "id"])


def downgrade() -> None:
    """Remove them."""
    for table in ("audit_entry", "evaluation", "round_model", "round", "model_version", "context", "task"):
        op.drop_table(table)
