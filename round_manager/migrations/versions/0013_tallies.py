"""Counters of examples by context and label."""

import sqlalchemy as sa
from alembic import op

from round_manager.database.triggers import Effect, Trigger, create_statements, drop_statements
from round_manager.migrations.kinds import TEXT, index

revision = "0013"
down_revision = "0011"
branch_labels = None
depends_on = None

# A withdrawn example is not counted. The order is always status, context, label, so that two transactions lock these
# rows in the same order.
USED_CONTEXT = (
    "INSERT INTO context_tally (round_id, context_id, used, fooled) ROWS"
    " ON CONFLICT (round_id, context_id) DO UPDATE SET"
    " used = context_tally.used + excluded.used, fooled = context_tally.fooled + excluded.fooled"
)
USED_LABEL = (
    "INSERT INTO label_tally (round_id, label, examples) ROWS"
    " ON CONFLICT (round_id, label) DO UPDATE SET examples = label_tally.examples + excluded.examples"
)
CONTEXT_BY = "VALUES (NEW.round_id, NEW.context_id, MORE, CASE WHEN NEW.fooled THEN MORE ELSE 0 END)"
LABEL_BY = "VALUES (NEW.round_id, NEW.label, MORE)"
CONTEXTS_SOME = USED_CONTEXT.replace(
    "ROWS",
    "SELECT round_id, context_id, count(*), count(*) FILTER (WHERE fooled) FROM added"
    " WHERE context_id IS NOT NULL AND status <> 'withdrawn'"
    " GROUP BY round_id, context_id ORDER BY round_id, context_id",
)
LABELS_SOME = USED_LABEL.replace(
    "ROWS",
    "SELECT round_id, label, count(*) FROM added WHERE label IS NOT NULL AND status <> 'withdrawn'"
    " GROUP BY round_id, label ORDER BY round_id, label",
)
BACK_OR_FORTH = "CASE WHEN NEW.status = 'withdrawn' THEN -1 ELSE 1 END"
CHANGES_SIDES = "(NEW.status = 'withdrawn') <> (OLD.status = 'withdrawn')"

TALLIES: list[Trigger] = [
    Effect(
        "effect_example_used_context", "example", "INSERT",
        USED_CONTEXT.replace("ROWS", CONTEXT_BY.replace("MORE", "1")),
        "NEW.context_id IS NOT NULL AND NEW.status <> 'withdrawn'",
        at_once=CONTEXTS_SOME,
    ),
    Effect(
        "effect_example_used_label", "example", "INSERT",
        USED_LABEL.replace("ROWS", LABEL_BY.replace("MORE", "1")),
        "NEW.label IS NOT NULL AND NEW.status <> 'withdrawn'",
        at_once=LABELS_SOME,
    ),
    Effect(
        "effect_example_withdrawn_context", "example", "UPDATE OF status",
        USED_CONTEXT.replace("ROWS", CONTEXT_BY.replace("MORE", BACK_OR_FORTH)),
        f"NEW.context_id IS NOT NULL AND {CHANGES_SIDES}",
    ),
    Effect(
        "effect_example_withdrawn_label", "example", "UPDATE OF status",
        USED_LABEL.replace("ROWS", LABEL_BY.replace("MORE", BACK_OR_FORTH)),
        f"NEW.label IS NOT NULL AND {CHANGES_SIDES}",
    ),
]  # fmt: skip

COUNT_CONTEXTS = (
    "INSERT INTO context_tally (round_id, context_id, used, fooled)"
    " SELECT round_id, context_id, count(*), sum(CASE WHEN fooled THEN 1 ELSE 0 END) FROM example"
    " WHERE context_id IS NOT NULL AND status <> 'withdrawn' GROUP BY round_id, context_id"
)
COUNT_LABELS = (
    "INSERT INTO label_tally (round_id, label, examples) SELECT round_id, label, count(*) FROM example"
    " WHERE label IS NOT NULL AND status <> 'withdrawn' GROUP BY round_id, label"
)


def upgrade() -> None:
    """Make the tables, count what is there, and go on counting."""
    op.create_table(
        "context_tally",
        sa.Column("round_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("context_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("fooled", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("round_id", "context_id", name="pk_context_tally"),
        sa.ForeignKeyConstraint(
            ["round_id"], ["round.id"], name="fk_context_tally_round_id_round", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["context_id"], ["context.id"], name="fk_context_tally_context_id_context", ondelete="RESTRICT"
        ),
    )
    op.create_table(
        "label_tally",
        sa.Column("round_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("label", TEXT, nullable=False),
        sa.Column("examples", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("round_id", "label", name="pk_label_tally"),
        sa.ForeignKeyConstraint(["round_id"], ["round.id"], name="fk_label_tally_round_id_round", ondelete="RESTRICT"),
    )
    index("ix_context_live", "context", ["task_id", "position", "id"], where="retired_at IS NULL")
    for statement in (COUNT_CONTEXTS, COUNT_LABELS):
        op.get_bind().exec_driver_sql(statement)
    for trigger in TALLIES:
        for statement in create_statements(trigger, op.get_bind().dialect.name):
            op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Stop counting."""
    for trigger in TALLIES:
        for statement in drop_statements(trigger, op.get_bind().dialect.name):
            op.get_bind().exec_driver_sql(statement)
    op.drop_index("ix_context_live", "context")
    for table in ("label_tally", "context_tally"):
        op.drop_table(table)
