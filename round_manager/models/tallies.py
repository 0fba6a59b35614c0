"""Triggers that maintain the counters of examples by round, context and label."""

from round_manager.database.triggers import Effect, Trigger

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

# While a round takes work, every living context has its place in it. Lots are multiples of an id, by the golden ratio
# of a prime: no two ids below the prime have the same, and those of any run of ids are spread evenly.
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

TALLIES: list[Trigger] = [
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
