"""Whether a round is in-house: nothing of it is posted on a crowd."""

from alembic import op

from round_manager.database.triggers import Guard, create_statements, drop_statements

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

FIXED = Guard(
    "guard_round_in_house",
    "round",
    "UPDATE OF in_house",
    "whether a round is in-house is fixed once it is open; choose it for the next round",
    "OLD.status <> 'draft' AND NEW.in_house <> OLD.in_house",
)


def upgrade() -> None:
    """Make the column and its guard."""
    # In one statement: SQLite takes a rule with its new column, and none later.
    rule = "CONSTRAINT ck_round_in_house CHECK (in_house IN (true, false))"
    op.execute(f"ALTER TABLE round ADD COLUMN in_house BOOLEAN DEFAULT false NOT NULL {rule}")
    for statement in create_statements(FIXED, op.get_bind().dialect.name):
        op.execute(statement)


def downgrade() -> None:
    """Remove them."""
    for statement in drop_statements(FIXED, op.get_bind().dialect.name):
        op.execute(statement)
    op.drop_column("round", "in_house")
