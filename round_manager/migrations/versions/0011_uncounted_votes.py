"""A queue of votes that no decision has considered yet."""

import sqlalchemy as sa
from alembic import op

from round_manager.database.triggers import Effect, create_statements, drop_statements
from round_manager.migrations.kinds import ID, index

revision = "0011"
down_revision = "0009"
branch_labels = None
depends_on = None

NOTED = Effect(
    "effect_vote_noted",
    "vote",
    "INSERT",
    "INSERT INTO uncounted_vote (vote_id, round_id, example_id)"
    " SELECT NEW.id, round_id, id FROM example WHERE id = NEW.example_id",
    at_once="INSERT INTO uncounted_vote (vote_id, round_id, example_id)"
    " SELECT added.id, example.round_id, example.id FROM added JOIN example ON example.id = added.example_id",
)


def upgrade() -> None:
    """Make the table and its trigger, with the votes on everything that is not decided."""
    op.create_table(
        "uncounted_vote",
        sa.Column("vote_id", ID, nullable=False),
        sa.Column("round_id", sa.BigInteger(), nullable=False),
        sa.Column("example_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("vote_id", name="pk_uncounted_vote"),
        sa.ForeignKeyConstraint(["vote_id"], ["vote.id"], name="fk_uncounted_vote_vote_id_vote", ondelete="RESTRICT"),
    )
    index("ix_uncounted_vote_round", "uncounted_vote", ["round_id", "vote_id"])
    op.execute(
        "INSERT INTO uncounted_vote (vote_id, round_id, example_id)"
        " SELECT vote.id, example.round_id, example.id FROM vote JOIN example ON example.id = vote.example_id"
        " WHERE example.status = 'pending'"
    )
    for statement in create_statements(NOTED, op.get_bind().dialect.name):
        op.execute(statement)


def downgrade() -> None:
    """Remove them."""
    for statement in drop_statements(NOTED, op.get_bind().dialect.name):
        op.execute(statement)
    op.drop_table("uncounted_vote")
