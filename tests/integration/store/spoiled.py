"""Rows that are wrong in one way each, and the rule that refuses each.

A row of the filled world is copied with some columns changed; with `update` the row itself is changed instead, where
a guard on INSERT would answer first. Values are SQL, the same for both databases.
"""

from dataclasses import dataclass
from uuid import UUID

NEW = f"'{UUID(int=7).hex}'"
LONG = f"'{'x' * 65}'"
HASHES = ["'abc'", f"'{'A' * 64}'", f"'{'g' * 64}'", f"'{'0' * 63} '"]


@dataclass(frozen=True)
class Spoiled:
    """One wrong row."""

    rule: str
    changes: dict[str, str]
    where: str = "true"
    update: bool = False
    sqlite_only: bool = False


def _each(rule: str, column: str, values: list[str]) -> list[Spoiled]:
    return [Spoiled(rule, {column: value}) for value in values]


def _columns(table: str, columns: str, value: str) -> list[Spoiled]:
    return [Spoiled(f"ck_{table}_{column}", {column: value}) for column in columns.split()]


DRAFT = {"number": "2", "status": "'draft'", "opened_at": "NULL"}
OWED = {"state": "'owed'", "owed_at": "reserved_at"}

SPOILED: list[Spoiled] = [
    *_each("ck_task_name", "name", ["''", "'Sentiment'", "'two words'", f"'{'x' * 41}'"]),
    *_each("ck_task_spec_sha256", "spec_sha256", HASHES),
    Spoiled("ck_task_worker_salt", {"worker_salt": "'short'"}),
    Spoiled("ck_task_budget_cents", {"budget_cents": "-1"}),
    Spoiled("ck_task_budget_cents", {"budget_cents": "1000.5"}, sqlite_only=True),
    Spoiled("ck_task_within_budget", {"reserved_cents": "budget_cents", "owed_cents": "1"}),
    Spoiled("ck_task_within_budget", {"sent_cents": "-1"}),
    Spoiled("uq_task_name", {}),
    # Rounds
    Spoiled("ck_round_number", DRAFT | {"number": "0"}),
    Spoiled("ck_round_target_fooling", DRAFT | {"target_fooling": "0"}),
    Spoiled("ck_round_spec_sha256", DRAFT | {"spec_sha256": "'abc'"}),
    Spoiled("ck_round_archive_sha256", {"archive_sha256": "'abc'", "archive_uri": "'x'", "frozen_at": "opened_at",
                                        "status": "'validating'", "validating_at": "opened_at"}, update=True),
    Spoiled("ck_round_budget_cents", DRAFT | {"budget_cents": "-1"}),
    Spoiled("ck_round_within_budget", {"budget_cents": "100"}, update=True),
    Spoiled("ck_round_opened", DRAFT | {"opened_at": "created_at"}),
    Spoiled("ck_round_validating", {"validating_at": "opened_at"}, update=True),
    Spoiled("ck_round_validating", {"status": "'validating'"}, update=True),
    Spoiled("ck_round_closed", {"closed_at": "opened_at"}, update=True),
    Spoiled("ck_round_in_order", {"status": "'validating'", "validating_at": "(SELECT created_at FROM task)"},
            update=True),
    Spoiled("ck_round_paused", DRAFT | {"paused_at": "created_at"}),
    Spoiled("ck_round_frozen", {"frozen_at": "opened_at", "archive_uri": "'x'", "archive_sha256": "spec_sha256"},
            update=True),
    Spoiled("ck_round_archived", {"archive_sha256": "spec_sha256"}, update=True),
    Spoiled("ck_round_archive_place", {"archive_uri": "'x'"}, update=True),
    Spoiled("uq_round_task_id_number", {"status": "'draft'", "opened_at": "NULL"}),
    # Contexts, models, measurements, audit
    Spoiled("ck_context_key", {"key": "' '"}),
    Spoiled("ck_context_position", {"position": "-1"}),
    Spoiled("uq_context_public_id", {"key": "'x'", "position": "9"}),
    Spoiled("uq_context_task_id_key", {"public_id": NEW, "position": "9"}),
    Spoiled("uq_context_task_id_position", {"public_id": NEW, "key": "'x'"}),
    *_columns("model_version", "name uri", "''"),
    *_each("ck_model_version_sha256", "sha256", HASHES),
    *_each("ck_model_version_data_sha256", "data_sha256", HASHES),
    Spoiled("ck_model_version_parent", {"id": "77", "parent_id": "77"}),
    Spoiled("uq_model_version_name", {"sha256": "data_sha256"}),
    Spoiled("uq_model_version_task_id_sha256", {"name": "'other'"}),
    *_columns("evaluation", "dataset metric", "''"),
    *_columns("evaluation", "rows_per_second memory_bytes performance fairness robustness row_count", "-1"),
    *_columns("evaluation", "performance fairness robustness", "1.01"),
    Spoiled("ck_evaluation_dataset_sha256", {"dataset_sha256": "'abc'"}),
    Spoiled("uq_evaluation_model_version_id_dataset_sha256_metric", {}),
    *_columns("audit_entry", "actor action subject reason", "' '"),
    # People
    *_columns("worker", "marketplace external_id", "''"),
    Spoiled("uq_worker_marketplace_external_id", {}),
    *_columns("qualification", "marketplace name external_id", "''"),
    Spoiled("uq_qualification_task_id_marketplace_name", {"external_id": "'Q2'"}),
    Spoiled("uq_qualification_marketplace_external_id", {"name": "'x'"}),
    Spoiled("ck_qualification_grant_reason", {"revoked_at": "granted_at", "reason": "''"}),
    Spoiled("uq_qualification_grant_held", {}),
    *_columns("block", "reason blocked_by", "''"),
    Spoiled("uq_block_everywhere", {}, "task_id IS NULL"),
    Spoiled("uq_block_task", {}, "task_id IS NOT NULL"),
    # The marketplace
    *_columns("hit", "kind status", "'nonsense'"),
    *_columns("hit", "marketplace external_id", "''"),
    *_columns("hit", "max_assignments assignment_seconds", "0"),
    *_each("ck_hit_key", "key", ["''", LONG]),
    Spoiled("ck_hit_round", {"round_id": "NULL"}),
    Spoiled("ck_hit_reward_cents", {"reward_cents": "-1"}),
    Spoiled("ck_hit_reward_cents", {"reward_cents": "0.5"}, sqlite_only=True),
    Spoiled("ck_hit_posted", {"external_id": "NULL", "posted_at": "NULL"}),
    Spoiled("ck_hit_posted", {"status": "'planned'"}),
    Spoiled("ck_hit_posted_time", {"posted_at": "NULL"}),
    Spoiled("uq_hit_public_id", {"key": "'x'", "external_id": "'x'"}),
    Spoiled("uq_hit_key", {"public_id": NEW, "external_id": "'x'"}),
    Spoiled("uq_hit_marketplace_external_id", {"public_id": NEW, "key": "'x'"}),
    Spoiled("ck_assignment_status", {"status": "'nonsense'", "submitted_at": "NULL"}),
    Spoiled("ck_assignment_external_id", {"external_id": "''"}),
    Spoiled("ck_assignment_active_ms", {"active_ms": "-1"}),
    Spoiled("ck_assignment_submitted", {"submitted_at": "NULL"}),
    Spoiled("ck_assignment_submitted", {"status": "'accepted'"}),
    Spoiled("ck_assignment_decided", {"status": "'approved'"}),
    Spoiled("ck_assignment_decided", {"decided_at": "accepted_at", "decided_by": "'owner'"}),
    Spoiled("ck_assignment_decided_by", {"status": "'approved'", "decided_at": "accepted_at"}),
    *[Spoiled("ck_assignment_reason", {"status": "'rejected'", "decided_at": "accepted_at", "decided_by": "'owner'",
                                       "reason": reason}) for reason in ("NULL", "' '")],
    Spoiled("uq_assignment_marketplace_external_id", {"worker_id": "2"}),
    Spoiled("uq_assignment_done_once", {"external_id": "'x'"}),
    Spoiled("ck_work_session_status", {"status": "'nonsense'", "submitted_at": "NULL", "assignment_id": "NULL"}),
    Spoiled("ck_work_session_claimed_assignment", {"claimed_assignment": "''"}),
    Spoiled("ck_work_session_active_ms", {"active_ms": "-1"}),
    Spoiled("ck_work_session_submitted", {"submitted_at": "NULL"}),
    Spoiled("ck_work_session_confirmed", {"assignment_id": "NULL"}),
    Spoiled("ck_work_session_in_order", {"expires_at": "started_at"}),
    Spoiled("uq_work_session_public_id", {"claimed_assignment": "'x'"}, "assignment_id IS NULL"),
    Spoiled("uq_work_session_hit_id_claimed_assignment_worker_id", {"public_id": NEW}, "assignment_id IS NULL"),
    Spoiled("uq_work_session_assignment_id", {"public_id": NEW, "claimed_assignment": "'x'"}),
    # Workers' pages
    Spoiled("ck_work_item_item", {"item": "-1"}),
    Spoiled("ck_work_item_subject", {"item": "9", "example_id": "NULL", "author_id": "NULL"}, "example_id > 0"),
    Spoiled("ck_work_item_subject", {"item": "9", "context_id": "1"}, "example_id > 0"),
    Spoiled("ck_work_item_author", {"item": "9", "author_id": "NULL"}, "example_id > 0"),
    Spoiled("ck_work_item_not_the_author", {"item": "9", "worker_id": "author_id"}, "example_id > 0"),
    Spoiled("ck_work_item_expected", {"item": "9", "expected_answer": "draft"}, "gold_id > 0"),
    Spoiled("ck_work_item_known", {"item": "9", "expected_label": "NULL"}, "gold_id > 0"),
    Spoiled("ck_work_item_judged", {"item": "9", "judgement": "draft"}),
    Spoiled("uq_work_item_session_id_item", {}),
    Spoiled("ck_gold_item_key", {"key": "' '"}),
    Spoiled("ck_gold_item_target", {"key": "'x'", "label": "NULL"}),
    Spoiled("ck_gold_item_target", {"key": "'x'", "answer": "fields"}),
    Spoiled("uq_gold_item_task_id_key", {}),
    *_columns("quiz_result", "number questions", "0"),
    Spoiled("ck_quiz_result_right_answers", {"number": "2", "right_answers": "-1"}),
    Spoiled("ck_quiz_result_right_answers", {"number": "2", "right_answers": "questions + 1"}),
    Spoiled("ck_quiz_result_passed", {"number": "2", "passed": "2"}, sqlite_only=True),
    Spoiled("uq_quiz_result_session_id_number", {}),
    # Examples and attempts
    *_columns("example", "source split", "'nonsense'"),
    *_columns("example", "item active_ms votes_wanted confidence", "-1"),
    *_each("ck_example_content_sha256", "content_sha256", HASHES),
    Spoiled("ck_example_status", {"status": "'nonsense'"}),
    Spoiled("ck_example_tries", {"tries": "0"}),
    Spoiled("ck_example_confidence", {"confidence": "1.01"}),
    Spoiled("ck_example_fooled", {"fooled": "7"}, sqlite_only=True),
    Spoiled("ck_example_target", {"label": "NULL"}),
    Spoiled("ck_example_target", {"answer": "fields"}),
    Spoiled("ck_example_gold", {"gold_label": "label", "gold_answer": "fields"}),
    Spoiled("ck_example_verified", {"status": "'verified'", "decided_at": "submitted_at"}),
    Spoiled("ck_example_decided", {"status": "'disputed'"}),
    Spoiled("ck_example_decided", {"decided_at": "submitted_at"}),
    Spoiled("ck_example_split_use", {"status": "'unconfirmed'", "split": "'train'"}),
    Spoiled("uq_example_public_id", {"session_id": "NULL", "verdict_id": "NULL"}),
    Spoiled("uq_example_verdict_id", {"session_id": "NULL", "public_id": NEW}),
    Spoiled("uq_example_session", {"verdict_id": "NULL", "public_id": NEW}),
    *_columns("attempt", "item latency_us confidence", "-1"),
    Spoiled("ck_attempt_source", {"source": "'nonsense'"}),
    Spoiled("ck_attempt_number", {"number": "0"}),
    Spoiled("ck_attempt_confidence", {"confidence": "1.01"}),
    Spoiled("ck_attempt_fooled", {"fooled": "7"}, sqlite_only=True),
    Spoiled("ck_attempt_target", {"answer": "fields"}),
    Spoiled("ck_attempt_judged", {"label": "NULL"}),
    Spoiled("uq_attempt_public_id", {"number": "2"}),
    Spoiled("uq_attempt_session", {"public_id": NEW}),
    # Votes and leases
    Spoiled("ck_vote_not_the_author", {"worker_id": "author_id"}),
    Spoiled("ck_vote_judgement", {"label": "NULL"}),
    Spoiled("ck_vote_judgement", {"flag": "'makes no sense'"}),
    Spoiled("ck_vote_label", {"label": "' '"}),
    Spoiled("ck_vote_flag", {"label": "NULL", "flag": "' '"}),
    Spoiled("ck_vote_source", {"source": "'nonsense'"}),
    *_columns("vote", "item active_ms", "-1"),
    Spoiled("uq_vote_example_id_worker_id", {"session_id": "NULL"}),
    Spoiled("uq_vote_session", {"example_id": "99"}),
    Spoiled("ck_lease_outcome", {"outcome": "'nonsense'", "ended_at": "leased_at"}),
    Spoiled("ck_lease_subject", {"context_id": "NULL"}, "context_id IS NOT NULL"),
    Spoiled("ck_lease_subject", {"context_id": "1"}, "example_id IS NOT NULL"),
    Spoiled("ck_lease_author", {"author_id": "NULL"}, "example_id IS NOT NULL"),
    Spoiled("ck_lease_not_the_author", {"worker_id": "author_id"}, "example_id IS NOT NULL"),
    Spoiled("ck_lease_holder", {"worker_id": "NULL"}, "context_id IS NOT NULL"),
    Spoiled("ck_lease_ended", {"outcome": "'used'"}),
    Spoiled("ck_lease_ended", {"ended_at": "leased_at"}),
    Spoiled("ck_lease_in_order", {"expires_at": "leased_at"}),
    Spoiled("uq_lease_context", {}, "context_id IS NOT NULL"),
    Spoiled("uq_lease_example", {}, "example_id IS NOT NULL"),
    # Label Studio
    Spoiled("ck_label_studio_link_kind", {"kind": "'nonsense'"}),
    Spoiled("ck_label_studio_link_url", {"url": "''"}),
    Spoiled("ck_label_studio_link_settings_sha256", {"settings_sha256": "'abc'"}),
    Spoiled("uq_label_studio_link_task_id_kind", {"project": "2"}),
    Spoiled("uq_label_studio_link_url_project", {"kind": "'validate'"}),
    Spoiled("ck_label_studio_task_key", {"key": "''"}),
    Spoiled("ck_label_studio_task_subject", {"example_id": "1"}),
    Spoiled("uq_label_studio_task_link_id_key", {"external_id": "NULL"}),
    Spoiled("uq_label_studio_task_link_id_external_id", {"key": "'x'"}),
    Spoiled("ck_label_studio_annotation_origin", {"origin": "'nonsense'"}),
    Spoiled("ck_label_studio_annotation_result_sha256", {"result_sha256": "'abc'"}),
    Spoiled("ck_label_studio_annotation_key", {"key": "''"}),
    Spoiled("ck_label_studio_annotation_subject", {"example_id": "1"}),
    Spoiled("ck_label_studio_annotation_read", {"origin": "'theirs'", "external_id": "NULL"}),
    Spoiled("uq_label_studio_annotation_link_id_external_id", {"key": "'x'"}),
    Spoiled("uq_label_studio_annotation_key", {"external_id": "99"}),
    # The ledger
    Spoiled("ck_ledger_entry_kind", {"kind": "'nonsense'", "example_id": "NULL"}),
    *_each("ck_ledger_entry_key", "key", ["''", LONG]),
    *_columns("ledger_entry", "cents fee_cents tries", "-1"),
    Spoiled("ck_ledger_entry_cents", {"cents": "0.5"}, sqlite_only=True),
    Spoiled("ck_ledger_entry_owed", {"owed_at": "reserved_at"}, "kind = 'reward'"),
    Spoiled("ck_ledger_entry_sent", {"sent_at": "reserved_at"}),
    Spoiled("ck_ledger_entry_settled", {"settled_at": "reserved_at"}),
    Spoiled("ck_ledger_entry_payee", OWED | {"assignment_id": "NULL"}, "kind = 'reward'", update=True),
    Spoiled("ck_ledger_entry_payee", OWED | {"worker_id": "NULL"}, "kind = 'reward'", update=True),
    Spoiled("ck_ledger_entry_bonus", {"example_id": "1"}, "kind = 'reward'"),
    Spoiled("ck_ledger_entry_bonus_for", OWED | {"example_id": "NULL", "assignment_id": "1"}, "kind = 'bonus'",
            update=True),
    Spoiled("ck_ledger_entry_held", {"held_at": "reserved_at", "held_reason": "'in doubt'"}),
    Spoiled("ck_ledger_entry_held_reason", {"held_reason": "'in doubt'"}),
    Spoiled("uq_ledger_entry_key", {"assignment_id": "NULL"}, "kind = 'reward'"),
    Spoiled("uq_ledger_entry_assignment", {"key": "'x'"}, "kind = 'reward'"),
    Spoiled("uq_ledger_entry_example", {"key": "'x'"}, "kind = 'bonus'"),
]  # fmt: skip
