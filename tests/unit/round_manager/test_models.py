"""The tables, seen without a database."""

import sqlalchemy as sa

from common.database import UtcTime
from round_manager.models import Table, Worker
from round_manager.models.guards import TRIGGERS
from tests.fakes.clock import NOON

NOUNS = {
    "task", "round", "round_model", "context", "attempt", "example", "vote", "worker", "model_version", "hit",
    "assignment", "ledger_entry", "evaluation", "lease", "audit_entry", "work_session", "qualification",
    "qualification_grant", "block", "round_tally", "label_studio_link", "label_studio_task", "label_studio_annotation",
    "context_tally", "label_tally", "work_item", "gold_item", "gold_example", "gold_showing", "quiz_result",
    "training_job", "manager_step", "uncounted_vote", "data_token", "credited_span",
    "known_text", "text_key", "instructions_read", "page_address", "worker_group", "group_member", "round_group",
    "model_submission", "submission_terms",
    "board", "board_snapshot", "excluded_model", "suite",
}  # fmt: skip


def test_every_entity_of_the_design_has_its_table() -> None:
    assert set(Table.metadata.tables) == NOUNS


def test_only_the_models_of_a_round_are_deleted_by_cascade() -> None:
    actions = {
        (table.name, key.referred_table.name, key.ondelete)
        for table in Table.metadata.tables.values()
        for key in table.foreign_key_constraints
    }
    assert {action for action in actions if action[2] != "RESTRICT"} == {("round_model", "round", "CASCADE")}


def test_every_money_column_is_whole_cents() -> None:
    for table in Table.metadata.tables.values():
        for column in table.columns:
            if column.name.endswith("cents"):
                assert type(column.type).__name__ == "Cents", column


def test_every_time_column_is_utc() -> None:
    for table in Table.metadata.tables.values():
        for column in table.columns:
            if column.name.endswith(("_at", "_until")) or column.name == "at":
                assert isinstance(column.type, UtcTime), column
            assert not isinstance(column.type, sa.DateTime), column


def test_triggers_have_unique_names_that_fit_postgresql() -> None:
    names = [trigger.name for trigger in TRIGGERS]
    assert len(names) == len(set(names))
    assert max(map(len, names)) < 63


def test_the_repr_of_a_row_shows_no_contents() -> None:
    assert repr(Worker(marketplace="mturk", external_id="A1SECRET", first_seen_at=NOON)) == "<Worker None>"
