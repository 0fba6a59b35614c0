"""Trainings of the next model: who trains, how far it is, and how it ended."""

import sqlalchemy as sa
from alembic import op

from round_manager.database.triggers import Guard, Trigger, create_statements, drop_statements
from round_manager.migrations.kinds import ID, JSON, TEXT, UTC, WORD, index

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

STATES = "'running', 'rotated', 'refused', 'cancelled', 'stopped', 'failed'"

TRIGGERS: list[Trigger] = [
    Guard(
        "guard_training_job_begins", "training_job", "INSERT", "a training begins by running; insert it so",
        "NEW.state <> 'running'",
    ),
    Guard(
        "guard_training_job_fixed", "training_job",
        "UPDATE OF id, task_id, round_id, mode, started_by, host, pid, started_at",
        "what a training began with never changes",
    ),
    Guard(
        "guard_training_job_over", "training_job", "UPDATE", "a training that is over never changes; begin another",
        "OLD.state <> 'running'",
    ),
    Guard("guard_training_job_kept", "training_job", "DELETE", "trainings are kept"),
]  # fmt: skip


def upgrade() -> None:
    """Make the table and its triggers."""
    op.create_table(
        "training_job",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("round_id", sa.BigInteger(), nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("started_by", TEXT, nullable=False),
        sa.Column("host", TEXT, nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("started_at", UTC, nullable=False),
        sa.Column("beat_at", UTC, nullable=False),
        sa.Column("stage", TEXT, nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("note", TEXT, nullable=False),
        sa.Column("cancel_at", UTC, nullable=True),
        sa.Column("cancel_by", TEXT, nullable=True),
        sa.Column("model_version_id", sa.BigInteger(), nullable=True),
        sa.Column("figures", JSON, nullable=True),
        sa.Column("finished_at", UTC, nullable=True),
        sa.Column("reason", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_training_job"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_training_job_task_id_task", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["round_id", "task_id"],
            ["round.id", "round.task_id"],
            name="fk_training_job_round_id_task_id_round",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["model_version_id", "task_id"],
            ["model_version.id", "model_version.task_id"],
            name="fk_training_job_model_version_id_task_id_model_version",
            ondelete="RESTRICT",
        ),
        *_checks(),
    )
    index("uq_training_job_running", "training_job", ["task_id"], where="state = 'running'", unique=True)
    index("ix_training_job_task", "training_job", ["task_id", "id"])
    for trigger in TRIGGERS:
        for statement in create_statements(trigger, op.get_bind().dialect.name):
            op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Remove them."""
    for trigger in TRIGGERS:
        for statement in drop_statements(trigger, op.get_bind().dialect.name):
            op.get_bind().exec_driver_sql(statement)
    op.drop_table("training_job")


def _checks() -> list[sa.CheckConstraint]:
    rules = {
        "state": f"state IN ({STATES})",
        "mode": "trim(mode) <> ''",
        "started_by": "trim(started_by) <> ''",
        "host": "trim(host) <> ''",
        "pid": "pid >= 0",
        "steps": "steps >= 0",
        "total": "total >= 0",
        "finished": "(state <> 'running') = (finished_at IS NOT NULL)",
        "ended": "(state <> 'running') = (reason IS NOT NULL)",
        "reason": "trim(reason) <> ''",
        "cancelled": "(cancel_at IS NOT NULL) = (cancel_by IS NOT NULL)",
        "candidate": "state NOT IN ('rotated', 'refused') OR model_version_id IS NOT NULL",
    }
    return [sa.CheckConstraint(rule, name=f"ck_training_job_{name}") for name, rule in rules.items()]
