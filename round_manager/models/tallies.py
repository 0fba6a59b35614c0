"""What follows from an example that is added or withdrawn: the tallies that handing out reads."""

from round_manager.database.guard import Effect, Trigger

# A withdrawn example counts for nothing. The context is counted before the label, and both after the status: everybody
# takes these rows in one order.
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
