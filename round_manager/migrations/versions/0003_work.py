"""Examples, attempts and Label Studio tasks."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import ID, JSON, TEXT, UTC, WORD, index

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "example",
        sa.Column("id", ID, nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("round_id", sa.BigInteger(), nullable=False),
        sa.Column("context_id", sa.BigInteger(), nullable=True),
        sa.Column("author_id", sa.BigInteger(), nullable=False),
        sa.Column("source", WORD, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=True),
        sa.Column("item", sa.BigInteger(), nullable=False),
        sa.Column("fields", JSON, nullable=False),
        sa.Column("content_sha256", TEXT, nullable=False),
        sa.Column("label", TEXT, nullable=True),
        sa.Column("answer", JSON, nullable=True),
        sa.Column("explanation", JSON, nullable=True),
        sa.Column("submitted_at", UTC, nullable=False),
        sa.Column("active_ms", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("verdict_id", sa.Uuid(), nullable=True),
        sa.Column("verdict", JSON, nullable=False),
        sa.Column("model_version_id", sa.BigInteger(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("fooled", sa.Boolean(), nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("votes_wanted", sa.BigInteger(), nullable=False),
        sa.Column("gold_label", TEXT, nullable=True),
        sa.Column("gold_answer", JSON, nullable=True),
        sa.Column("decided_at", UTC, nullable=True),
        sa.Column("split", WORD, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_example"),
        sa.ForeignKeyConstraint(
            ["round_id", "task_id"],
            ["round.id", "round.task_id"],
            name="fk_example_round_id_task_id_round",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["context_id", "task_id"],
            ["context.id", "context.task_id"],
            name="fk_example_context_id_task_id_context",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["round_id", "model_version_id"],
            ["round_model.round_id", "round_model.model_version_id"],
            name="fk_example_round_id_model_version_id_round_model",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["session_id", "author_id"],
            ["work_session.id", "work_session.worker_id"],
            name="fk_example_session_id_author_id_work_session",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["author_id"], ["worker.id"], name="fk_example_author_id_worker", ondelete="RESTRICT"),
        sa.UniqueConstraint("public_id", name="uq_example_public_id"),
        sa.UniqueConstraint("verdict_id", name="uq_example_verdict_id"),
        sa.UniqueConstraint("id", "author_id", name="uq_example_id_author_id"),
        sa.CheckConstraint("source IN ('pages', 'label_studio', 'import')", name="ck_example_source"),
        sa.CheckConstraint(
            "status IN ('unconfirmed', 'unchecked', 'pending', 'flagged', 'verified', 'disputed', 'withdrawn')",
            name="ck_example_status",
        ),
        sa.CheckConstraint("split IN ('train', 'held_out')", name="ck_example_split"),
        sa.CheckConstraint(
            "length(content_sha256) = 64 AND trim(content_sha256, '0123456789abcdef') = ''",
            name="ck_example_content_sha256",
        ),
        sa.CheckConstraint("item >= 0", name="ck_example_item"),
        sa.CheckConstraint("active_ms >= 0", name="ck_example_active_ms"),
        sa.CheckConstraint("votes_wanted >= 0", name="ck_example_votes_wanted"),
        sa.CheckConstraint("tries >= 1", name="ck_example_tries"),
        sa.CheckConstraint("confidence >= 0 AND confidence <= 1", name="ck_example_confidence"),
        sa.CheckConstraint("fooled IN (true, false)", name="ck_example_fooled"),
        sa.CheckConstraint(
            "CASE WHEN label IS NULL THEN 0 ELSE 1 END + CASE WHEN answer IS NULL THEN 0 ELSE 1 END = 1",
            name="ck_example_target",
        ),
        sa.CheckConstraint("gold_label IS NULL OR gold_answer IS NULL", name="ck_example_gold"),
        sa.CheckConstraint(
            "status <> 'verified' OR gold_label IS NOT NULL OR gold_answer IS NOT NULL", name="ck_example_verified"
        ),
        sa.CheckConstraint(
            "(status IN ('verified', 'disputed', 'withdrawn')) = (decided_at IS NOT NULL)", name="ck_example_decided"
        ),
        sa.CheckConstraint("split IS NULL OR status NOT IN ('unconfirmed', 'withdrawn')", name="ck_example_split_use"),
    )
    index("ix_example_author", "example", ["author_id", "context_id"])
    index("ix_example_content", "example", ["task_id", "content_sha256"])
    index("ix_example_context", "example", ["context_id", "fooled"])
    index("ix_example_counts", "example", ["round_id", "status", "fooled"])
    index("ix_example_flagged", "example", ["round_id", "id"], where="status = 'flagged'")
    index("ix_example_pending", "example", ["round_id", "id"], where="status = 'pending'")
    index("ix_example_round", "example", ["round_id", "id"])
    index("uq_example_session", "example", ["session_id", "item"], unique=True, where="session_id IS NOT NULL")
    op.create_table(
        "label_studio_link",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("url", TEXT, nullable=False),
        sa.Column("project", sa.BigInteger(), nullable=False),
        sa.Column("ml_backend", sa.BigInteger(), nullable=True),
        sa.Column("webhook", sa.BigInteger(), nullable=True),
        sa.Column("settings_sha256", TEXT, nullable=True),
        sa.Column("seen_until", UTC, nullable=True),
        sa.Column("synced_at", UTC, nullable=True),
        sa.Column("last_error", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_label_studio_link"),
        sa.ForeignKeyConstraint(
            ["task_id"], ["task.id"], name="fk_label_studio_link_task_id_task", ondelete="RESTRICT"
        ),
        sa.UniqueConstraint("task_id", "kind", name="uq_label_studio_link_task_id_kind"),
        sa.UniqueConstraint("url", "project", name="uq_label_studio_link_url_project"),
        sa.CheckConstraint("kind IN ('create', 'validate')", name="ck_label_studio_link_kind"),
        sa.CheckConstraint("trim(url) <> ''", name="ck_label_studio_link_url"),
        sa.CheckConstraint(
            "length(settings_sha256) = 64 AND trim(settings_sha256, '0123456789abcdef') = ''",
            name="ck_label_studio_link_settings_sha256",
        ),
    )
    op.create_table(
        "label_studio_task",
        sa.Column("id", ID, nullable=False),
        sa.Column("link_id", ID, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("context_id", ID, nullable=True),
        sa.Column("example_id", ID, nullable=True),
        sa.Column("label", TEXT, nullable=True),
        sa.Column("external_id", sa.BigInteger(), nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_label_studio_task"),
        sa.ForeignKeyConstraint(
            ["link_id"],
            ["label_studio_link.id"],
            name="fk_label_studio_task_link_id_label_studio_link",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["context_id"], ["context.id"], name="fk_label_studio_task_context_id_context", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["example_id"], ["example.id"], name="fk_label_studio_task_example_id_example", ondelete="RESTRICT"
        ),
        sa.UniqueConstraint("link_id", "key", name="uq_label_studio_task_link_id_key"),
        sa.UniqueConstraint("link_id", "external_id", name="uq_label_studio_task_link_id_external_id"),
        sa.UniqueConstraint("id", "link_id", name="uq_label_studio_task_id_link_id"),
        sa.CheckConstraint("trim(key) <> ''", name="ck_label_studio_task_key"),
        sa.CheckConstraint("context_id IS NULL OR example_id IS NULL", name="ck_label_studio_task_subject"),
    )
    index("ix_label_studio_task_example", "label_studio_task", ["example_id"], where="example_id IS NOT NULL")
    index("ix_label_studio_task_unsent", "label_studio_task", ["link_id", "id"], where="external_id IS NULL")
    op.create_table(
        "attempt",
        sa.Column("id", ID, nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("round_id", sa.BigInteger(), nullable=True),
        sa.Column("context_id", sa.BigInteger(), nullable=True),
        sa.Column("source", WORD, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=True),
        sa.Column("item", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("label_studio_task_id", ID, nullable=True),
        sa.Column("worker_id", sa.BigInteger(), nullable=True),
        sa.Column("example_id", ID, nullable=True),
        sa.Column("fields", JSON, nullable=False),
        sa.Column("label", TEXT, nullable=True),
        sa.Column("answer", JSON, nullable=True),
        sa.Column("verdict", JSON, nullable=False),
        sa.Column("model_version_id", sa.BigInteger(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("fooled", sa.Boolean(), nullable=True),
        sa.Column("latency_us", sa.BigInteger(), nullable=False),
        sa.Column("asked_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attempt"),
        sa.ForeignKeyConstraint(
            ["round_id", "task_id"],
            ["round.id", "round.task_id"],
            name="fk_attempt_round_id_task_id_round",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["context_id", "task_id"],
            ["context.id", "context.task_id"],
            name="fk_attempt_context_id_task_id_context",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["model_version_id", "task_id"],
            ["model_version.id", "model_version.task_id"],
            name="fk_attempt_model_version_id_task_id_model_version",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["session_id", "worker_id"],
            ["work_session.id", "work_session.worker_id"],
            name="fk_attempt_session_id_worker_id_work_session",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_attempt_task_id_task", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["label_studio_task_id"],
            ["label_studio_task.id"],
            name="fk_attempt_label_studio_task_id_label_studio_task",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name="fk_attempt_worker_id_worker", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["example_id"], ["example.id"], name="fk_attempt_example_id_example", ondelete="RESTRICT"
        ),
        sa.UniqueConstraint("public_id", name="uq_attempt_public_id"),
        sa.CheckConstraint("source IN ('pages', 'label_studio', 'import')", name="ck_attempt_source"),
        sa.CheckConstraint("item >= 0", name="ck_attempt_item"),
        sa.CheckConstraint("latency_us >= 0", name="ck_attempt_latency_us"),
        sa.CheckConstraint("number >= 1", name="ck_attempt_number"),
        sa.CheckConstraint("confidence >= 0 AND confidence <= 1", name="ck_attempt_confidence"),
        sa.CheckConstraint("fooled IN (true, false)", name="ck_attempt_fooled"),
        sa.CheckConstraint("label IS NULL OR answer IS NULL", name="ck_attempt_target"),
        sa.CheckConstraint("fooled IS NULL OR label IS NOT NULL OR answer IS NOT NULL", name="ck_attempt_judged"),
    )
    index("ix_attempt_example", "attempt", ["example_id", "id"], where="example_id IS NOT NULL")
    index(
        "ix_attempt_label_studio_task",
        "attempt",
        ["label_studio_task_id", "id"],
        where="label_studio_task_id IS NOT NULL",
    )
    index("ix_attempt_round", "attempt", ["round_id", "id"])
    index("ix_attempt_time", "attempt", ["task_id", "asked_at"])
    index("ix_attempt_worker", "attempt", ["worker_id", "asked_at"], where="worker_id IS NOT NULL")
    index(
        "uq_attempt_session", "attempt", ["session_id", "item", "number"], unique=True, where="session_id IS NOT NULL"
    )
    op.create_table(
        "round_tally",
        sa.Column("round_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("fooled", sa.Boolean(), nullable=False),
        sa.Column("examples", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("round_id", "status", "fooled", name="pk_round_tally"),
        sa.ForeignKeyConstraint(["round_id"], ["round.id"], name="fk_round_tally_round_id_round", ondelete="RESTRICT"),
    )


def downgrade() -> None:
    """Remove them."""
    for table in ("round_tally", "attempt", "label_studio_task", "label_studio_link", "example"):
        op.drop_table(table)
