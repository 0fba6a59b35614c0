"""Positions of contexts in a round, so that the next one is found by an index."""

import sqlalchemy as sa
from alembic import op

from round_manager.database.triggers import Effect, Trigger, create_statements, drop_statements
from round_manager.migrations.kinds import index

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

PLACE = (
    "INSERT INTO context_tally (round_id, context_id, used, fooled, lot, position) ROWS"
    " ON CONFLICT (round_id, context_id) DO UPDATE SET lot = excluded.lot, position = excluded.position"
)
LOT = "context.id % 2147483647 * 1327217884 % 2147483647"
IN_NEW_ROUND = PLACE.replace(
    "ROWS",
    "SELECT NEW.id, context.id, 0, 0, LOT, context.position FROM context"
    " WHERE context.task_id = NEW.task_id AND context.retired_at IS NULL",
).replace("LOT", LOT)
SOME_PLACES = PLACE.replace(
    "ROWS",
    "SELECT round.id, context.id, 0, 0, CASE WHEN context.retired_at IS NULL THEN LOT END, context.position FROM ROWS"
    " WHERE round.task_id = context.task_id AND round.status IN ('open', 'validating') ORDER BY context.id",
).replace("LOT", LOT)
ONE_PLACE = SOME_PLACES.replace("FROM ROWS", "FROM round").replace("context.", "NEW.")
# Who opens a round takes the task's turn: here it is waited for, so that each sees what the other did.
TURN = "PERFORM 1 FROM task WHERE id IN (SELECT task_id FROM added) ORDER BY id FOR NO KEY UPDATE"
MOVED = (
    "(context.position <> removed.position OR (context.retired_at IS NULL) <> (removed.retired_at IS NULL))"
    " AND (context.retired_at IS NULL OR removed.retired_at IS NULL)"
)
ADDED_ONES = "(SELECT * FROM added WHERE retired_at IS NULL) AS context, round"
MOVED_ONES = "(SELECT context.* FROM added AS context JOIN removed USING (id) WHERE MOVED) AS context, round"
MOVE_THEM = "IF EXISTS (SELECT 1 FROM added AS context JOIN removed USING (id) WHERE MOVED) THEN TURN; PLACES; END IF"

PLACES: list[Trigger] = [
    Effect(
        "effect_round_opened", "round", "UPDATE OF status", IN_NEW_ROUND,
        "NEW.status = 'open' AND OLD.status = 'draft'",
    ),
    Effect(
        "effect_context_added", "context", "INSERT", ONE_PLACE, "NEW.retired_at IS NULL",
        at_once=f"{TURN}; {SOME_PLACES.replace('ROWS', ADDED_ONES)}",
    ),
    Effect(
        "effect_context_moved", "context", "UPDATE OF position, retired_at", ONE_PLACE,
        MOVED.replace("context.", "NEW.").replace("removed.", "OLD."),
        at_once=MOVE_THEM.replace("TURN", TURN).replace("PLACES", SOME_PLACES.replace("ROWS", MOVED_ONES)).replace(
            "MOVED", MOVED
        ),
    ),
]  # fmt: skip

IN_LIVE_ROUNDS = SOME_PLACES.replace("FROM ROWS WHERE", "FROM context, round WHERE context.retired_at IS NULL AND")
INDEXES = {
    "ix_context_tally_uniform": ["round_id", "lot", "context_id"],
    "ix_context_tally_least_used": ["round_id", "used", "lot", "context_id"],
    "ix_context_tally_least_fooled": ["round_id", "fooled", "used", "lot", "context_id"],
    "ix_context_tally_in_order": ["round_id", "used", "position", "context_id"],
}


def upgrade() -> None:
    """Give the contexts of rounds that take work their places, and go on with it."""
    for column in ("lot", "position"):
        op.add_column("context_tally", sa.Column(column, sa.BigInteger(), nullable=True))
    op.execute(IN_LIVE_ROUNDS)
    for name, columns in INDEXES.items():
        index(name, "context_tally", columns, where="lot IS NOT NULL")
    for trigger in PLACES:
        for statement in create_statements(trigger, op.get_bind().dialect.name):
            op.execute(statement)


def downgrade() -> None:
    """Only contexts with examples are counted again."""
    for trigger in PLACES:
        for statement in drop_statements(trigger, op.get_bind().dialect.name):
            op.execute(statement)
    for name in INDEXES:
        op.drop_index(name, "context_tally")
    for column in ("position", "lot"):
        op.drop_column("context_tally", column)
    op.execute("DELETE FROM context_tally WHERE used = 0")
