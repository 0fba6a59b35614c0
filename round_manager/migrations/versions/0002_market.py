"""Workers, HITs and assignments."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import CENTS, ID, JSON, TEXT, UTC, WORD, index

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "worker",
        sa.Column("id", ID, nullable=False),
        sa.Column("marketplace", TEXT, nullable=False),
        sa.Column("external_id", TEXT, nullable=False),
        sa.Column("first_seen_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_worker"),
        sa.UniqueConstraint("marketplace", "external_id", name="uq_worker_marketplace_external_id"),
        sa.UniqueConstraint("id", "marketplace", name="uq_worker_id_marketplace"),
        sa.CheckConstraint("trim(marketplace) <> ''", name="ck_worker_marketplace"),
        sa.CheckConstraint("trim(external_id) <> ''", name="ck_worker_external_id"),
    )
    op.create_table(
        "qualification",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("marketplace", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("external_id", TEXT, nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qualification"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_qualification_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("task_id", "marketplace", "name", name="uq_qualification_task_id_marketplace_name"),
        sa.UniqueConstraint("marketplace", "external_id", name="uq_qualification_marketplace_external_id"),
        sa.CheckConstraint("trim(marketplace) <> ''", name="ck_qualification_marketplace"),
        sa.CheckConstraint("trim(name) <> ''", name="ck_qualification_name"),
        sa.CheckConstraint("trim(external_id) <> ''", name="ck_qualification_external_id"),
    )
    op.create_table(
        "qualification_grant",
        sa.Column("id", ID, nullable=False),
        sa.Column("qualification_id", ID, nullable=False),
        sa.Column("worker_id", ID, nullable=False),
        sa.Column("score", sa.BigInteger(), nullable=False),
        sa.Column("granted_at", UTC, nullable=False),
        sa.Column("revoked_at", UTC, nullable=True),
        sa.Column("reason", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qualification_grant"),
        sa.ForeignKeyConstraint(
            ["qualification_id"],
            ["qualification.id"],
            name="fk_qualification_grant_qualification_id_qualification",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["worker_id"], ["worker.id"], name="fk_qualification_grant_worker_id_worker", ondelete="RESTRICT"
        ),
        sa.CheckConstraint("revoked_at IS NULL OR trim(reason) <> ''", name="ck_qualification_grant_reason"),
    )
    index("ix_qualification_grant_worker", "qualification_grant", ["worker_id"])
    index(
        "uq_qualification_grant_held",
        "qualification_grant",
        ["qualification_id", "worker_id"],
        unique=True,
        where="revoked_at IS NULL",
    )
    op.create_table(
        "block",
        sa.Column("id", ID, nullable=False),
        sa.Column("worker_id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=True),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("blocked_by", TEXT, nullable=False),
        sa.Column("blocked_at", UTC, nullable=False),
        sa.Column("lifted_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_block"),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name="fk_block_worker_id_worker", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_block_task_id_task", ondelete="RESTRICT"),
        sa.CheckConstraint("trim(reason) <> ''", name="ck_block_reason"),
        sa.CheckConstraint("trim(blocked_by) <> ''", name="ck_block_blocked_by"),
    )
    index("uq_block_everywhere", "block", ["worker_id"], unique=True, where="lifted_at IS NULL AND task_id IS NULL")
    index(
        "uq_block_task",
        "block",
        ["worker_id", "task_id"],
        unique=True,
        where="lifted_at IS NULL AND task_id IS NOT NULL",
    )
    op.create_table(
        "hit",
        sa.Column("id", ID, nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("round_id", sa.BigInteger(), nullable=True),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("marketplace", TEXT, nullable=False),
        sa.Column("external_id", TEXT, nullable=True),
        sa.Column("group_id", TEXT, nullable=True),
        sa.Column("reward_cents", CENTS, nullable=False),
        sa.Column("max_assignments", sa.BigInteger(), nullable=False),
        sa.Column("assignment_seconds", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("posted_at", UTC, nullable=True),
        sa.Column("expires_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_hit"),
        sa.ForeignKeyConstraint(
            ["round_id", "task_id"],
            ["round.id", "round.task_id"],
            name="fk_hit_round_id_task_id_round",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_hit_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("public_id", name="uq_hit_public_id"),
        sa.UniqueConstraint("key", name="uq_hit_key"),
        sa.UniqueConstraint("marketplace", "external_id", name="uq_hit_marketplace_external_id"),
        sa.UniqueConstraint("id", "task_id", name="uq_hit_id_task_id"),
        sa.UniqueConstraint("id", "marketplace", name="uq_hit_id_marketplace"),
        sa.CheckConstraint("kind IN ('create', 'validate', 'quiz')", name="ck_hit_kind"),
        sa.CheckConstraint(
            "status IN ('planned', 'held', 'refused', 'assignable', 'unassignable', 'reviewable', 'reviewing', "
            "'disposed')",
            name="ck_hit_status",
        ),
        sa.CheckConstraint("kind = 'quiz' OR round_id IS NOT NULL", name="ck_hit_round"),
        sa.CheckConstraint("trim(marketplace) <> ''", name="ck_hit_marketplace"),
        sa.CheckConstraint("trim(external_id) <> ''", name="ck_hit_external_id"),
        sa.CheckConstraint("length(key) BETWEEN 1 AND 64", name="ck_hit_key"),
        sa.CheckConstraint(
            "reward_cents >= 0 AND reward_cents = CAST(reward_cents AS BIGINT)", name="ck_hit_reward_cents"
        ),
        sa.CheckConstraint("max_assignments >= 1", name="ck_hit_max_assignments"),
        sa.CheckConstraint("assignment_seconds >= 1", name="ck_hit_assignment_seconds"),
        sa.CheckConstraint(
            "(status NOT IN ('planned', 'held', 'refused')) = (external_id IS NOT NULL)", name="ck_hit_posted"
        ),
        sa.CheckConstraint("(external_id IS NOT NULL) = (posted_at IS NOT NULL)", name="ck_hit_posted_time"),
    )
    index("ix_hit_round", "hit", ["round_id", "status"])
    index("ix_hit_status", "hit", ["marketplace", "status", "id"])
    op.create_table(
        "assignment",
        sa.Column("id", ID, nullable=False),
        sa.Column("hit_id", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.BigInteger(), nullable=False),
        sa.Column("marketplace", TEXT, nullable=False),
        sa.Column("external_id", TEXT, nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("accepted_at", UTC, nullable=False),
        sa.Column("submitted_at", UTC, nullable=True),
        sa.Column("auto_approve_at", UTC, nullable=True),
        sa.Column("decided_at", UTC, nullable=True),
        sa.Column("decided_by", TEXT, nullable=True),
        sa.Column("reason", TEXT, nullable=True),
        sa.Column("active_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_assignment"),
        sa.ForeignKeyConstraint(
            ["hit_id", "marketplace"],
            ["hit.id", "hit.marketplace"],
            name="fk_assignment_hit_id_marketplace_hit",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["worker_id", "marketplace"],
            ["worker.id", "worker.marketplace"],
            name="fk_assignment_worker_id_marketplace_worker",
            ondelete="RESTRICT",
        ),
        sa.UniqueConstraint("marketplace", "external_id", name="uq_assignment_marketplace_external_id"),
        sa.UniqueConstraint("id", "worker_id", name="uq_assignment_id_worker_id"),
        sa.UniqueConstraint("id", "hit_id", "worker_id", name="uq_assignment_id_hit_id_worker_id"),
        sa.CheckConstraint(
            "status IN ('accepted', 'returned', 'abandoned', 'submitted', 'approved', 'rejected')",
            name="ck_assignment_status",
        ),
        sa.CheckConstraint("trim(external_id) <> ''", name="ck_assignment_external_id"),
        sa.CheckConstraint("active_ms >= 0", name="ck_assignment_active_ms"),
        sa.CheckConstraint(
            "(status IN ('submitted', 'approved', 'rejected')) = (submitted_at IS NOT NULL)",
            name="ck_assignment_submitted",
        ),
        sa.CheckConstraint(
            "(status IN ('approved', 'rejected')) = (decided_at IS NOT NULL)", name="ck_assignment_decided"
        ),
        sa.CheckConstraint("(decided_at IS NOT NULL) = (decided_by IS NOT NULL)", name="ck_assignment_decided_by"),
        sa.CheckConstraint(
            "status <> 'rejected' OR (reason IS NOT NULL AND trim(reason) <> '')", name="ck_assignment_reason"
        ),
    )
    index("ix_assignment_hit", "assignment", ["hit_id", "status"])
    index("ix_assignment_undecided", "assignment", ["auto_approve_at"], where="status = 'submitted'")
    index("ix_assignment_worker", "assignment", ["worker_id", "id"])
    index(
        "uq_assignment_done_once",
        "assignment",
        ["hit_id", "worker_id"],
        unique=True,
        where="status IN ('submitted', 'approved', 'rejected')",
    )
    op.create_table(
        "work_session",
        sa.Column("id", ID, nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("hit_id", ID, nullable=False),
        sa.Column("worker_id", sa.BigInteger(), nullable=False),
        sa.Column("claimed_assignment", TEXT, nullable=False),
        sa.Column("assignment_id", sa.BigInteger(), nullable=True),
        sa.Column("status", WORD, nullable=False),
        sa.Column("draft", JSON, nullable=False),
        sa.Column("started_at", UTC, nullable=False),
        sa.Column("expires_at", UTC, nullable=False),
        sa.Column("submitted_at", UTC, nullable=True),
        sa.Column("active_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_work_session"),
        sa.ForeignKeyConstraint(
            ["assignment_id", "hit_id", "worker_id"],
            ["assignment.id", "assignment.hit_id", "assignment.worker_id"],
            name="fk_work_session_assignment_id_hit_id_worker_id_assignment",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["hit_id"], ["hit.id"], name="fk_work_session_hit_id_hit", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["worker_id"], ["worker.id"], name="fk_work_session_worker_id_worker", ondelete="RESTRICT"
        ),
        sa.UniqueConstraint("public_id", name="uq_work_session_public_id"),
        sa.UniqueConstraint(
            "hit_id", "claimed_assignment", "worker_id", name="uq_work_session_hit_id_claimed_assignment_worker_id"
        ),
        sa.UniqueConstraint("assignment_id", name="uq_work_session_assignment_id"),
        sa.UniqueConstraint("id", "worker_id", name="uq_work_session_id_worker_id"),
        sa.CheckConstraint(
            "status IN ('open', 'submitted', 'confirmed', 'unconfirmed', 'expired')", name="ck_work_session_status"
        ),
        sa.CheckConstraint("trim(claimed_assignment) <> ''", name="ck_work_session_claimed_assignment"),
        sa.CheckConstraint("active_ms >= 0", name="ck_work_session_active_ms"),
        sa.CheckConstraint(
            "(status IN ('submitted', 'confirmed', 'unconfirmed')) = (submitted_at IS NOT NULL)",
            name="ck_work_session_submitted",
        ),
        sa.CheckConstraint("(status = 'confirmed') = (assignment_id IS NOT NULL)", name="ck_work_session_confirmed"),
        sa.CheckConstraint("started_at < expires_at", name="ck_work_session_in_order"),
    )
    index("ix_work_session_open", "work_session", ["expires_at"], where="status = 'open'")
    index("ix_work_session_to_confirm", "work_session", ["id"], where="status = 'submitted'")
    index("ix_work_session_worker", "work_session", ["worker_id", "id"])


def downgrade() -> None:
    """Remove them."""
    for table in ("work_session", "assignment", "hit", "block", "qualification_grant", "qualification", "worker"):
        op.drop_table(table)
