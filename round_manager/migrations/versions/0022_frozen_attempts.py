"""The attempts of a frozen round can no longer be linked."""

from alembic import op

from round_manager.database.triggers import Guard, create_statements, drop_statements

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

FROZEN = Guard(
    "guard_attempt_frozen",
    "attempt",
    "UPDATE OF worker_id, example_id",
    "the attempts of a frozen round are fixed",
    "(SELECT frozen_at IS NOT NULL FROM round WHERE id = NEW.round_id FOR KEY SHARE)",
)


def upgrade() -> None:
    """Make the guard."""
    for statement in create_statements(FROZEN, op.get_bind().dialect.name):
        op.execute(statement)


def downgrade() -> None:
    """Remove it."""
    for statement in drop_statements(FROZEN, op.get_bind().dialect.name):
        op.execute(statement)
