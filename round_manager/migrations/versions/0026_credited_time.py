"""The moments that pages claimed, and those that were credited to assignments."""

import sqlalchemy as sa
from alembic import op

from round_manager.database.triggers import Guard, create_statements, drop_statements
from round_manager.migrations.kinds import ID, JSON, UTC, index

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

FIXED = (
    "UPDATE OF id, public_id, task_id, round_id, context_id, author_id, source, session_id, item, fields,"
    " content_sha256, label, answer, explanation, submitted_at, tries, verdict_id, verdict,"
    " model_version_id, confidence, fooled"
)
NEVER_CHANGE = "what was submitted and its verdict never change"
OLD_GUARD = Guard(
    "guard_example_fixed", "example", FIXED.replace("submitted_at, tries", "submitted_at, active_ms, tries"),
    NEVER_CHANGE,
)  # fmt: skip
NEW_GUARD = Guard("guard_example_fixed", "example", FIXED, NEVER_CHANGE)
TIME_GUARD = Guard(
    "guard_example_time", "example", "UPDATE OF active_ms",
    "the time of an example can only be reduced, until its author is confirmed",
    "OLD.status <> 'unconfirmed' OR OLD.active_ms IS NULL OR NEW.active_ms IS NULL OR NEW.active_ms > OLD.active_ms",
)  # fmt: skip


def upgrade() -> None:
    """Make the table and the column, and let an example's time be reduced when its author is confirmed."""
    op.add_column("work_session", sa.Column("active_spans", JSON, nullable=True))
    op.create_table(
        "credited_span",
        sa.Column("id", ID, nullable=False),
        sa.Column("assignment_id", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.BigInteger(), nullable=False),
        sa.Column("starts_at", UTC, nullable=False),
        sa.Column("ends_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_credited_span"),
        sa.ForeignKeyConstraint(
            ["assignment_id", "worker_id"],
            ["assignment.id", "assignment.worker_id"],
            name="fk_credited_span_assignment_id_worker_id_assignment",
            ondelete="RESTRICT",
        ),
        sa.UniqueConstraint("worker_id", "starts_at", name="uq_credited_span_worker_id_starts_at"),
        sa.CheckConstraint("starts_at < ends_at", name="ck_credited_span_in_order"),
    )
    index("ix_credited_span_worker", "credited_span", ["worker_id", "ends_at"])
    index("ix_credited_span_assignment", "credited_span", ["assignment_id"])
    _drop(OLD_GUARD)
    _create(NEW_GUARD, TIME_GUARD)


def downgrade() -> None:
    """Remove them."""
    _drop(NEW_GUARD, TIME_GUARD)
    _create(OLD_GUARD)
    op.drop_table("credited_span")
    op.drop_column("work_session", "active_spans")


def _create(*guards: Guard) -> None:
    for guard in guards:
        for statement in create_statements(guard, op.get_bind().dialect.name):
            op.execute(statement)


def _drop(*guards: Guard) -> None:
    for guard in guards:
        for statement in drop_statements(guard, op.get_bind().dialect.name):
            op.execute(statement)
