"""What must not change: rounds, models, examples and votes."""

from alembic import op

from round_manager.database.triggers import Effect, Guard, Trigger, create_statements, drop_statements

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

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
        "a round goes from draft to open to validating to closed, one step at a time",
        "NEW.status <> OLD.status AND NOT (OLD.status = 'draft' AND NEW.status = 'open'"
        " OR OLD.status = 'open' AND NEW.status = 'validating'"
        " OR OLD.status = 'validating' AND NEW.status = 'closed')",
    ),
    Guard(
        "guard_round_model", "round", "UPDATE OF status", "a round opens against a model; pin one first",
        "OLD.status = 'draft' AND NEW.status = 'open'"
        " AND NOT EXISTS (SELECT 1 FROM round_model WHERE round_id = NEW.id AND rank = 0)",
    ),
    Guard(
        "guard_round_terms", "round", "UPDATE OF id, task_id, number, spec, spec_sha256, created_at",
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
    Guard("guard_round_kept", "round", "DELETE", "only a draft round can be removed", "OLD.status <> 'draft'"),
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
        " content_sha256, label, answer, explanation, submitted_at, active_ms, tries, verdict_id, verdict,"
        " model_version_id, confidence, fooled",
        "what was submitted and its verdict never change",
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
    Guard("guard_attempt_kept", "attempt", "DELETE", "attempts are kept"),
    Guard(
        "guard_vote_added", "vote", "INSERT", "votes are added to rounds that are open or validating",
        f"NOT {ROUND_TAKES_WORK.format(round=ROUND_OF_EXAMPLE)}",
    ),
    Guard("guard_vote_fixed", "vote", "UPDATE", "a vote never changes"),
    Guard("guard_vote_kept", "vote", "DELETE", "votes are kept"),
]  # fmt: skip

TRIGGERS: list[Trigger] = [*LEARNING, *ROUNDS, *WORK]


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
