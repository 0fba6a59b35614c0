"""The triggers of the tables: which changes are rejected, and which totals follow the ledger."""

from round_manager.database.triggers import Effect, Guard, Trigger
from round_manager.models.tallies import TALLIES

# In PostgreSQL, who adds work holds FOR KEY SHARE (as a foreign key does) and who moves the round takes FOR UPDATE, so
# each waits for the other: no example slips into a round that is being closed at this moment. Counting money on the
# round's row conflicts with neither.
ROUND_TAKES_WORK = "(SELECT status IN ('open', 'validating') FROM round WHERE id = {round} FOR KEY SHARE)"
ROUND_OF_EXAMPLE = "(SELECT round_id FROM example WHERE id = NEW.example_id)"

COUNT = (
    "INSERT INTO round_tally (round_id, status, fooled, examples) ROWS"
    " ON CONFLICT (round_id, status, fooled) DO UPDATE SET examples = round_tally.examples + excluded.examples"
)
ONE_LESS = (
    "UPDATE round_tally SET examples = examples - 1"
    " WHERE round_id = OLD.round_id AND status = OLD.status AND fooled = OLD.fooled"
)
ONE_MORE = COUNT.replace("ROWS", "VALUES (NEW.round_id, NEW.status, NEW.fooled, 1)")
SOME_MORE = COUNT.replace(
    "ROWS",
    "SELECT round_id, status, fooled, count(*) FROM added"
    " GROUP BY round_id, status, fooled ORDER BY round_id, status, fooled",
)

NOTE_VOTE = "INSERT INTO uncounted_vote (vote_id, round_id, example_id) ROWS"
NOTE_ONE = NOTE_VOTE.replace("ROWS", "SELECT NEW.id, round_id, id FROM example WHERE id = NEW.example_id")
NOTE_SOME = NOTE_VOTE.replace(
    "ROWS", "SELECT added.id, example.round_id, example.id FROM added JOIN example ON example.id = added.example_id"
)

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


LEARNING: list[Trigger] = [
    Guard("guard_model_version_fixed", "model_version", "UPDATE", "a model version never changes; register a new one"),
    Guard("guard_model_version_kept", "model_version", "DELETE", "a model version is kept for its lineage"),
    Guard("guard_evaluation_fixed", "evaluation", "UPDATE", "an evaluation never changes; measure again on other data"),
    Guard("guard_evaluation_kept", "evaluation", "DELETE", "an evaluation is kept"),
    Guard("guard_audit_entry_fixed", "audit_entry", "UPDATE", "the audit log is only ever added to"),
    Guard("guard_audit_entry_kept", "audit_entry", "DELETE", "the audit log is only ever added to"),
]

ROUNDS: list[Trigger] = [
    Guard(
        "guard_round_begins", "round", "INSERT", "a round begins as a draft; insert it so, then open it",
        "NEW.status <> 'draft'",
    ),
    Guard(
        "guard_round_forward", "round", "UPDATE OF status",
        "a round goes from draft to open to validating to closed, step by step; an imported one is closed at once",
        "NEW.status <> OLD.status AND NOT (OLD.status = 'draft' AND NEW.status = 'open' AND NEW.imported IS NULL"
        " OR OLD.status = 'open' AND NEW.status = 'validating'"
        " OR OLD.status = 'validating' AND NEW.status = 'closed'"
        " OR OLD.status = 'draft' AND NEW.status = 'closed' AND NEW.imported IS NOT NULL)",
    ),
    Guard(
        "guard_round_model", "round", "UPDATE OF status", "a round opens against a model; pin one first",
        "OLD.status = 'draft' AND NEW.status = 'open'"
        " AND NOT EXISTS (SELECT 1 FROM round_model WHERE round_id = NEW.id AND rank = 0)",
    ),
    Guard(
        "guard_round_terms", "round", "UPDATE OF id, task_id, number, spec, spec_sha256, created_at, imported",
        "the terms of a round are fixed once it is open; change them in the next round",
        "OLD.status <> 'draft'",
    ),
    Guard(
        "guard_round_times", "round", "UPDATE OF opened_at, validating_at, closed_at, frozen_at, archive_sha256",
        "when a round changed, and its archive, are fixed",
        "NOT (SELECT true FROM round WHERE id = OLD.id FOR UPDATE)"
        " OR OLD.opened_at IS NOT NULL AND NEW.opened_at IS DISTINCT FROM OLD.opened_at"
        " OR OLD.validating_at IS NOT NULL AND NEW.validating_at IS DISTINCT FROM OLD.validating_at"
        " OR OLD.closed_at IS NOT NULL AND NEW.closed_at IS DISTINCT FROM OLD.closed_at"
        " OR OLD.frozen_at IS NOT NULL AND (NEW.frozen_at IS DISTINCT FROM OLD.frozen_at"
        " OR NEW.archive_sha256 IS DISTINCT FROM OLD.archive_sha256)",
    ),
    Guard(
        "guard_round_closed", "round", "UPDATE OF target_fooling, closes_at", "a closed round is fixed",
        "OLD.status = 'closed'",
    ),
    Guard(
        "guard_round_in_house", "round", "UPDATE OF in_house",
        "whether a round is in-house is fixed once it is open; choose it for the next round",
        "OLD.status <> 'draft' AND NEW.in_house <> OLD.in_house",
    ),
    Guard("guard_round_kept", "round", "DELETE", "only a draft round can be removed", "OLD.status <> 'draft'"),
    Guard(
        "guard_suite_fixed", "suite",
        "UPDATE OF id, task_id, name, hidden, origin, examples, archive_sha256, imported_at",
        "a test suite never changes; import it under another name",
    ),
    Guard("guard_suite_kept", "suite", "DELETE", "a test suite is kept: evaluations name it"),
    Guard(
        "guard_round_model_added", "round_model", "INSERT", "models are pinned while a round is a draft",
        "(SELECT status <> 'draft' FROM round WHERE id = NEW.round_id FOR KEY SHARE)",
    ),
    Guard("guard_round_model_fixed", "round_model", "UPDATE", "unpin the model and pin another, while it is a draft"),
    Guard(
        "guard_round_model_kept", "round_model", "DELETE", "models stay pinned once a round is open",
        "(SELECT status <> 'draft' FROM round WHERE id = OLD.round_id FOR KEY SHARE)",
    ),
    Guard(
        "guard_context_fixed", "context", "UPDATE OF id, public_id, task_id, key, fields",
        "a context never changes; retire it and add another",
    ),
]  # fmt: skip

WORK: list[Trigger] = [
    Guard(
        "guard_example_added", "example", "INSERT", "examples are added to rounds that are open or validating",
        f"NOT {ROUND_TAKES_WORK.format(round='NEW.round_id')}",
    ),
    Guard(
        "guard_example_fixed", "example",
        "UPDATE OF id, public_id, task_id, round_id, context_id, author_id, source, session_id, item, fields,"
        " content_sha256, label, answer, explanation, submitted_at, tries, verdict_id, verdict,"
        " model_version_id, confidence, fooled",
        "what was submitted and its verdict never change",
    ),
    Guard(
        "guard_example_time", "example", "UPDATE OF active_ms",
        "the time of an example can only be reduced, until its author is confirmed",
        "OLD.status <> 'unconfirmed' OR OLD.active_ms IS NULL OR NEW.active_ms IS NULL"
        " OR NEW.active_ms > OLD.active_ms",
    ),
    Guard(
        "guard_example_decided", "example", "UPDATE OF status, votes_wanted, gold_label, gold_answer, decided_at",
        "examples of a closed round are decided",
        f"NOT {ROUND_TAKES_WORK.format(round='NEW.round_id')}",
    ),
    Guard(
        "guard_example_split", "example", "UPDATE OF split", "the splits of a frozen round are fixed",
        "(SELECT frozen_at IS NOT NULL FROM round WHERE id = NEW.round_id FOR KEY SHARE)",
    ),
    Guard(
        "guard_example_duplicate", "example", "UPDATE OF duplicate, duplicate_of",
        "whether an example of a closed round is new is decided",
        f"NOT {ROUND_TAKES_WORK.format(round='NEW.round_id')}",
    ),
    Guard("guard_example_kept", "example", "DELETE", "examples are kept; withdraw it instead"),
    Effect("effect_example_counted", "example", "INSERT", ONE_MORE, at_once=SOME_MORE),
    Effect(
        "effect_example_moved", "example", "UPDATE OF status", f"{ONE_LESS}; {ONE_MORE}", "NEW.status <> OLD.status"
    ),
    Guard(
        "guard_attempt_fixed", "attempt",
        "UPDATE OF id, public_id, task_id, round_id, context_id, source, session_id, item, number,"
        " label_studio_task_id, fields, label, answer, verdict, model_version_id, confidence, fooled, latency_us,"
        " asked_at",
        "what was asked and its verdict never change",
    ),
    Guard(
        "guard_attempt_linked", "attempt", "UPDATE OF worker_id, example_id",
        "the worker and the example of an attempt are filled in once",
        "OLD.worker_id IS NOT NULL AND NEW.worker_id IS DISTINCT FROM OLD.worker_id"
        " OR OLD.example_id IS NOT NULL AND NEW.example_id IS DISTINCT FROM OLD.example_id",
    ),
    Guard(
        "guard_attempt_frozen", "attempt", "UPDATE OF worker_id, example_id",
        "the attempts of a frozen round are fixed",
        "(SELECT frozen_at IS NOT NULL FROM round WHERE id = NEW.round_id FOR KEY SHARE)",
    ),
    Guard("guard_attempt_kept", "attempt", "DELETE", "attempts are kept"),
    Guard(
        "guard_vote_added", "vote", "INSERT", "votes are added to rounds that are open or validating",
        f"NOT {ROUND_TAKES_WORK.format(round=ROUND_OF_EXAMPLE)}",
    ),
    Guard(
        "guard_gold_example_added", "gold_example", "INSERT", "gold is taken from rounds that are open or validating",
        f"NOT {ROUND_TAKES_WORK.format(round='NEW.round_id')}",
    ),
    Guard("guard_vote_fixed", "vote", "UPDATE", "a vote never changes"),
    Guard("guard_vote_kept", "vote", "DELETE", "votes are kept"),
    Effect("effect_vote_noted", "vote", "INSERT", NOTE_ONE, at_once=NOTE_SOME),
]  # fmt: skip

MONEY: list[Trigger] = [
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

TRAINING: list[Trigger] = [
    Guard(
        "guard_training_job_begins", "training_job", "INSERT", "a training begins by running; insert it so",
        "NEW.state <> 'running'",
    ),
    Guard(
        "guard_training_job_fixed", "training_job",
        "UPDATE OF id, task_id, round_id, mode, started_by, host, pid, started_at, token",
        "what a training began with never changes",
    ),
    Guard(
        "guard_training_job_over", "training_job", "UPDATE", "a training that is over never changes; begin another",
        "OLD.state <> 'running'",
    ),
    Guard("guard_training_job_kept", "training_job", "DELETE", "trainings are kept"),
]  # fmt: skip

LEADERBOARDS: list[Trigger] = [
    Guard(
        "guard_board_fixed", "board",
        "UPDATE OF id, task_id, key, name, folded_name, weights, data_weights, parent_id, token_id, created_by,"
        " created_at",
        "a board never changes; save another one",
    ),
    Guard("guard_board_kept", "board", "DELETE", "boards are kept; remove it from the leaderboard instead"),
    Guard("guard_board_snapshot_fixed", "board_snapshot", "UPDATE", "a snapshot never changes; take another one"),
    Guard("guard_board_snapshot_kept", "board_snapshot", "DELETE", "snapshots are kept"),
]  # fmt: skip

TRIGGERS: list[Trigger] = [*LEARNING, *ROUNDS, *WORK, *TALLIES, *MONEY, *TRAINING, *LEADERBOARDS]
