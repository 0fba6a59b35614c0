"""A training's start token, the point from which it cannot be cancelled, and whether a retry may help."""

import sqlalchemy as sa
from alembic import op

from round_manager.database.triggers import Guard, create_statements, drop_statements
from round_manager.migrations.kinds import TEXT, UTC

revision = "0021"
down_revision = "0018"
branch_labels = None
depends_on = None

COLUMNS = "id, task_id, round_id, mode, started_by, host, pid, started_at"


def upgrade() -> None:
    """Make the columns; a training's start never changes."""
    op.add_column("training_job", sa.Column("token", TEXT, nullable=True))
    op.add_column("training_job", sa.Column("rotates_at", UTC, nullable=True))
    # In one statement: SQLite takes a rule with its new column, and none later.
    rule = "CONSTRAINT ck_training_job_retry CHECK (retry IN (true, false))"
    op.execute(f"ALTER TABLE training_job ADD COLUMN retry BOOLEAN {rule}")
    _change(_fixed(COLUMNS), _fixed(f"{COLUMNS}, token"))


def downgrade() -> None:
    """Remove them."""
    _change(_fixed(f"{COLUMNS}, token"), _fixed(COLUMNS))
    for name in ("retry", "rotates_at", "token"):
        op.drop_column("training_job", name)


def _fixed(columns: str) -> Guard:
    name, told = "guard_training_job_fixed", "what a training began with never changes"
    return Guard(name, "training_job", f"UPDATE OF {columns}", told)


def _change(before: Guard, after: Guard) -> None:
    dialect = op.get_bind().dialect.name
    for statement in (*drop_statements(before, dialect), *create_statements(after, dialect)):
        op.get_bind().exec_driver_sql(statement)
