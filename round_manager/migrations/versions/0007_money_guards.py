"""What must not change in the ledger, and the sums that follow it."""

from alembic import op

from round_manager.database.triggers import Effect, Guard, Trigger, create_statements, drop_statements

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# The columns reserved_cents, owed_cents and sent_cents of OWNER, which is the round and the task of an entry.
RESERVE_ONE = "UPDATE OWNER SET reserved_cents = reserved_cents + NEW.cents + NEW.fee_cents WHERE id = NEW.OWNER_id"
RESERVE_SOME = (
    "UPDATE OWNER SET reserved_cents = OWNER.reserved_cents + more.total"
    " FROM (SELECT OWNER_id, sum(cents + fee_cents)::bigint AS total FROM added GROUP BY OWNER_id) AS more"
    " WHERE OWNER.id = more.OWNER_id"
)
MOVE_ONE = (
    "UPDATE OWNER SET"
    " reserved_cents = reserved_cents + (NEW.cents + NEW.fee_cents)"
    " * (CASE NEW.state WHEN 'reserved' THEN 1 ELSE 0 END - CASE OLD.state WHEN 'reserved' THEN 1 ELSE 0 END),"
    " owed_cents = owed_cents + (NEW.cents + NEW.fee_cents)"
    " * (CASE NEW.state WHEN 'owed' THEN 1 ELSE 0 END - CASE OLD.state WHEN 'owed' THEN 1 ELSE 0 END),"
    " sent_cents = sent_cents + (NEW.cents + NEW.fee_cents)"
    " * (CASE WHEN NEW.state IN ('sent', 'confirmed') THEN 1 ELSE 0 END"
    " - CASE WHEN OLD.state IN ('sent', 'confirmed') THEN 1 ELSE 0 END)"
    " WHERE id = NEW.OWNER_id"
)
MOVE_SOME = (
    "UPDATE OWNER SET reserved_cents = OWNER.reserved_cents + move.reserved,"
    " owed_cents = OWNER.owed_cents + move.owed, sent_cents = OWNER.sent_cents + move.sent"
    " FROM (SELECT OWNER_id, coalesce(sum(total) FILTER (WHERE state = 'reserved'), 0)::bigint AS reserved,"
    " coalesce(sum(total) FILTER (WHERE state = 'owed'), 0)::bigint AS owed,"
    " coalesce(sum(total) FILTER (WHERE state IN ('sent', 'confirmed')), 0)::bigint AS sent"
    " FROM (SELECT OWNER_id, state, cents + fee_cents AS total FROM added"
    " UNION ALL SELECT OWNER_id, state, -(cents + fee_cents) FROM removed) AS entry GROUP BY OWNER_id) AS move"
    " WHERE OWNER.id = move.OWNER_id AND (move.reserved <> 0 OR move.owed <> 0 OR move.sent <> 0)"
)


def _both(statement: str) -> str:
    return "; ".join(statement.replace("OWNER", owner) for owner in ("round", "task"))


TRIGGERS: list[Trigger] = [
    Guard(
        "guard_hit_fixed", "hit", "UPDATE OF id, public_id, key, task_id, round_id, kind, marketplace, reward_cents",
        "what a HIT is and pays never changes; post another",
    ),
    Guard(
        "guard_hit_known", "hit", "UPDATE OF external_id", "the marketplace named this HIT already",
        "OLD.external_id IS NOT NULL AND NEW.external_id IS DISTINCT FROM OLD.external_id",
    ),
    Guard(
        "guard_assignment_forward", "assignment", "UPDATE OF status",
        "submitted work is approved or rejected, and only a rejection can be taken back",
        "OLD.status = 'submitted' AND NEW.status NOT IN ('submitted', 'approved', 'rejected')"
        " OR OLD.status = 'rejected' AND NEW.status NOT IN ('rejected', 'approved')"
        " OR OLD.status = 'approved' AND NEW.status <> 'approved'",
    ),
    Guard(
        "guard_assignment_whose", "assignment", "UPDATE OF id, hit_id, worker_id, marketplace, external_id",
        "submitted work stays with the worker who did it",
        "OLD.submitted_at IS NOT NULL",
    ),
    Guard(
        "guard_ledger_entry_begins", "ledger_entry", "INSERT", "money is reserved before it is owed",
        "NEW.state <> 'reserved'",
    ),
    Guard(
        "guard_ledger_entry_round", "ledger_entry", "INSERT", "an entry belongs to the round of its HIT",
        "(SELECT round_id FROM hit WHERE id = NEW.hit_id) IS DISTINCT FROM NEW.round_id",
    ),
    Guard(
        "guard_ledger_entry_forward", "ledger_entry", "UPDATE OF state",
        "an entry goes from reserved to owed or released, from owed to sent, from sent to confirmed or refused",
        "NEW.state <> OLD.state AND NOT (OLD.state = 'reserved' AND NEW.state IN ('owed', 'released')"
        " OR OLD.state = 'owed' AND NEW.state = 'sent'"
        " OR OLD.state = 'sent' AND NEW.state IN ('confirmed', 'refused'))",
    ),
    Guard(
        "guard_ledger_entry_amount", "ledger_entry",
        "UPDATE OF id, key, task_id, round_id, kind, cents, fee_cents, hit_id, reserved_at",
        "an amount and what it is for never change; make another entry",
    ),
    Guard(
        "guard_ledger_entry_payee", "ledger_entry", "UPDATE OF assignment_id, worker_id, example_id, owed_at",
        "who is owed stays owed",
        "OLD.owed_at IS NOT NULL",
    ),
    Guard(
        "guard_ledger_entry_settled", "ledger_entry", "UPDATE", "a settled entry never changes",
        "OLD.settled_at IS NOT NULL",
    ),
    Guard(
        "guard_ledger_entry_sent", "ledger_entry", "UPDATE OF sent_at", "when an entry was sent is fixed",
        "OLD.sent_at IS NOT NULL AND NEW.sent_at IS DISTINCT FROM OLD.sent_at",
    ),
    Guard("guard_ledger_entry_kept", "ledger_entry", "DELETE", "the ledger keeps every entry"),
    Effect(
        "effect_ledger_entry_reserved", "ledger_entry", "INSERT", _both(RESERVE_ONE), at_once=_both(RESERVE_SOME)
    ),
    Effect(
        "effect_ledger_entry_moved", "ledger_entry", "UPDATE OF state", _both(MOVE_ONE), "NEW.state <> OLD.state",
        at_once=_both(MOVE_SOME),
    ),
]  # fmt: skip


def upgrade() -> None:
    """Make the triggers."""
    for trigger in TRIGGERS:
        for statement in create_statements(trigger, op.get_bind().dialect.name):
            op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    """Remove them."""
    for trigger in TRIGGERS:
        for statement in drop_statements(trigger, op.get_bind().dialect.name):
            op.get_bind().exec_driver_sql(statement)
