"""An index for counting the examples of a round that repeat a known text."""

from alembic import op

from round_manager.migrations.kinds import index

revision = "0048"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """They do not count towards the round's target."""
    index("ix_example_repeated", "example", ["round_id", "fooled", "status"], where="duplicate IS NOT NULL")


def downgrade() -> None:
    """Count them without an index."""
    op.drop_index("ix_example_repeated", "example")
