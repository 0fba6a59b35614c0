"""Votes, leases, and the annotations that were read or pushed."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import ID, JSON, TEXT, UTC, WORD, index

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "vote",
        sa.Column("id", ID, nullable=False),
        sa.Column("example_id", sa.BigInteger(), nullable=False),
        sa.Column("author_id", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", ID, nullable=False),
        sa.Column("source", WORD, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=True),
        sa.Column("item", sa.BigInteger(), nullable=False),
        sa.Column("label", TEXT, nullable=True),
        sa.Column("answer", JSON, nullable=True),
        sa.Column("flag", TEXT, nullable=True),
        sa.Column("comment", TEXT, nullable=True),
        sa.Column("voted_at", UTC, nullable=False),
        sa.Column("active_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_vote"),
        sa.ForeignKeyConstraint(
            ["example_id", "author_id"],
            ["example.id", "example.author_id"],
            name="fk_vote_example_id_author_id_example",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["session_id", "worker_id"],
            ["work_session.id", "work_session.worker_id"],
            name="fk_vote_session_id_worker_id_work_session",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name="fk_vote_worker_id_worker", ondelete="RESTRICT"),
        sa.UniqueConstraint("example_id", "worker_id", name="uq_vote_example_id_worker_id"),
        sa.CheckConstraint("source IN ('pages', 'label_studio', 'import')", name="ck_vote_source"),
        sa.CheckConstraint("worker_id <> author_id", name="ck_vote_not_the_author"),
        sa.CheckConstraint(
            "CASE WHEN label IS NULL THEN 0 ELSE 1 END + CASE WHEN answer IS NULL THEN 0 ELSE 1 END + CASE WHEN "
            "flag IS NULL THEN 0 ELSE 1 END = 1",
            name="ck_vote_judgement",
        ),
        sa.CheckConstraint("trim(label) <> ''", name="ck_vote_label"),
        sa.CheckConstraint("trim(flag) <> ''", name="ck_vote_flag"),
        sa.CheckConstraint("item >= 0", name="ck_vote_item"),
        sa.CheckConstraint("active_ms >= 0", name="ck_vote_active_ms"),
    )
    index("ix_vote_worker", "vote", ["worker_id", "id"])
    index("uq_vote_session", "vote", ["session_id", "item"], unique=True, where="session_id IS NOT NULL")
    op.create_table(
        "lease",
        sa.Column("id", ID, nullable=False),
        sa.Column("context_id", ID, nullable=True),
        sa.Column("example_id", sa.BigInteger(), nullable=True),
        sa.Column("author_id", sa.BigInteger(), nullable=True),
        sa.Column("hit_id", ID, nullable=True),
        sa.Column("worker_id", ID, nullable=True),
        sa.Column("session_id", sa.BigInteger(), nullable=True),
        sa.Column("leased_at", UTC, nullable=False),
        sa.Column("expires_at", UTC, nullable=False),
        sa.Column("ended_at", UTC, nullable=True),
        sa.Column("outcome", WORD, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_lease"),
        sa.ForeignKeyConstraint(
            ["example_id", "author_id"],
            ["example.id", "example.author_id"],
            name="fk_lease_example_id_author_id_example",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["session_id", "worker_id"],
            ["work_session.id", "work_session.worker_id"],
            name="fk_lease_session_id_worker_id_work_session",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["context_id"], ["context.id"], name="fk_lease_context_id_context", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(["hit_id"], ["hit.id"], name="fk_lease_hit_id_hit", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name="fk_lease_worker_id_worker", ondelete="RESTRICT"),
        sa.CheckConstraint("outcome IN ('used', 'skipped', 'returned', 'expired')", name="ck_lease_outcome"),
        sa.CheckConstraint(
            "CASE WHEN context_id IS NULL THEN 0 ELSE 1 END + CASE WHEN example_id IS NULL THEN 0 ELSE 1 END = 1",
            name="ck_lease_subject",
        ),
        sa.CheckConstraint("(example_id IS NOT NULL) = (author_id IS NOT NULL)", name="ck_lease_author"),
        sa.CheckConstraint("worker_id <> author_id", name="ck_lease_not_the_author"),
        sa.CheckConstraint("worker_id IS NOT NULL OR hit_id IS NOT NULL", name="ck_lease_holder"),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (outcome IS NOT NULL)", name="ck_lease_ended"),
        sa.CheckConstraint("leased_at < expires_at", name="ck_lease_in_order"),
    )
    index("ix_lease_hit", "lease", ["hit_id"], where="hit_id IS NOT NULL")
    index("ix_lease_live", "lease", ["expires_at"], where="ended_at IS NULL")
    index("ix_lease_seen", "lease", ["worker_id", "context_id"])
    index("ix_lease_session", "lease", ["session_id"], where="session_id IS NOT NULL")
    index(
        "uq_lease_context",
        "lease",
        ["context_id", "worker_id"],
        unique=True,
        where="context_id IS NOT NULL AND ended_at IS NULL",
    )
    index(
        "uq_lease_example",
        "lease",
        ["example_id", "worker_id"],
        unique=True,
        where="example_id IS NOT NULL AND ended_at IS NULL",
    )
    op.create_table(
        "label_studio_annotation",
        sa.Column("id", ID, nullable=False),
        sa.Column("link_id", ID, nullable=False),
        sa.Column("label_studio_task_id", sa.BigInteger(), nullable=False),
        sa.Column("origin", WORD, nullable=False),
        sa.Column("key", TEXT, nullable=True),
        sa.Column("external_id", sa.BigInteger(), nullable=True),
        sa.Column("result_sha256", TEXT, nullable=False),
        sa.Column("changed_at", UTC, nullable=False),
        sa.Column("example_id", ID, nullable=True),
        sa.Column("vote_id", ID, nullable=True),
        sa.Column("problem", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_label_studio_annotation"),
        sa.ForeignKeyConstraint(
            ["label_studio_task_id", "link_id"],
            ["label_studio_task.id", "label_studio_task.link_id"],
            name="fk_label_studio_annotation_task",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["link_id"],
            ["label_studio_link.id"],
            name="fk_label_studio_annotation_link_id_label_studio_link",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["example_id"], ["example.id"], name="fk_label_studio_annotation_example_id_example", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["vote_id"], ["vote.id"], name="fk_label_studio_annotation_vote_id_vote", ondelete="RESTRICT"
        ),
        sa.UniqueConstraint("link_id", "external_id", name="uq_label_studio_annotation_link_id_external_id"),
        sa.UniqueConstraint("key", name="uq_label_studio_annotation_key"),
        sa.CheckConstraint("origin IN ('theirs', 'ours')", name="ck_label_studio_annotation_origin"),
        sa.CheckConstraint(
            "length(result_sha256) = 64 AND trim(result_sha256, '0123456789abcdef') = ''",
            name="ck_label_studio_annotation_result_sha256",
        ),
        sa.CheckConstraint("trim(key) <> ''", name="ck_label_studio_annotation_key"),
        sa.CheckConstraint("example_id IS NULL OR vote_id IS NULL", name="ck_label_studio_annotation_subject"),
        sa.CheckConstraint("origin = 'ours' OR external_id IS NOT NULL", name="ck_label_studio_annotation_read"),
    )
    index(
        "ix_label_studio_annotation_example", "label_studio_annotation", ["example_id"], where="example_id IS NOT NULL"
    )
    index("ix_label_studio_annotation_task", "label_studio_annotation", ["label_studio_task_id"])
    index("ix_label_studio_annotation_unsent", "label_studio_annotation", ["id"], where="external_id IS NULL")
    index("ix_label_studio_annotation_vote", "label_studio_annotation", ["vote_id"], where="vote_id IS NOT NULL")


def downgrade() -> None:
    """Remove them."""
    for table in ("label_studio_annotation", "lease", "vote"):
        op.drop_table(table)
