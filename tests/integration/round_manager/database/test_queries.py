"""Frequent queries of the pages, the manager and `status` use an index instead of scanning a table."""

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.integration.round_manager.database.sample_rows import SampleRows

QUESTIONS = {
    "how far is the round": (
        "SELECT status, fooled, count(*) FROM example WHERE round_id = 1 GROUP BY status, fooled",
        "ix_example_counts",
    ),
    "what waits for votes": (
        "SELECT id FROM example WHERE round_id = 1 AND status = 'pending' ORDER BY id LIMIT 20",
        "ix_example_pending",
    ),
    "what waits for the owner": (
        "SELECT id FROM example WHERE round_id = 1 AND status = 'flagged' ORDER BY id LIMIT 20",
        "ix_example_flagged",
    ),
    "what came in last": (
        "SELECT id, label FROM example WHERE round_id = 1 ORDER BY id DESC LIMIT 20",
        "ix_example_round",
    ),
    "which contexts has this author had": (
        "SELECT context_id FROM example WHERE author_id = 1",
        "ix_example_author",
    ),
    "how often was this context used, and did it fool": (
        "SELECT count(*), fooled FROM example WHERE context_id = 1 GROUP BY fooled",
        "ix_example_context",
    ),
    "is this a duplicate": (
        "SELECT public_id FROM example WHERE task_id = 1 AND content_sha256 = 'x'",
        "ix_example_content",
    ),
    "which known texts may be similar": (
        "SELECT text_id FROM text_key WHERE task_id = 1 AND key = 7",
        "pk_text_key",
    ),
    "which examples repeat this one": (
        "SELECT id FROM example WHERE duplicate_of = 'x'",
        "ix_example_duplicate",
    ),
    "what has this author written on pages that are not confirmed": (
        "SELECT id FROM example WHERE status = 'unconfirmed' AND author_id = 1 AND round_id = 1",
        "ix_example_unconfirmed",
    ),
    "which votes has this example": (
        "SELECT label FROM vote WHERE example_id = 1",
        "uq_vote_example_id_worker_id",
    ),
    "how did this validator vote": ("SELECT label FROM vote WHERE worker_id = 1", "ix_vote_worker"),
    "which attempts led to this example": (
        "SELECT fields FROM attempt WHERE example_id = 1 ORDER BY id",
        "ix_attempt_example",
    ),
    "how many tries has this page used": (
        "SELECT max(number) FROM attempt WHERE session_id = 1 AND item = 0",
        "uq_attempt_session",
    ),
    "what was asked lately": (
        "SELECT latency_us FROM attempt WHERE task_id = 1 ORDER BY asked_at DESC LIMIT 50",
        "ix_attempt_time",
    ),
    "which payments are to be sent": (
        "SELECT id FROM ledger_entry WHERE state = 'owed' ORDER BY next_try_at, id LIMIT 50",
        "ix_ledger_entry_owed",
    ),
    "which payments may not have arrived": (
        "SELECT id FROM ledger_entry WHERE state = 'sent' ORDER BY next_try_at, id LIMIT 50",
        "ix_ledger_entry_sent",
    ),
    "what does the round's statement say": (
        "SELECT state, sum(cents + fee_cents) FROM ledger_entry WHERE round_id = 1 GROUP BY state",
        "ix_ledger_entry_round",
    ),
    "what did this worker earn": (
        "SELECT sum(cents) FROM ledger_entry WHERE worker_id = 1 AND state = 'confirmed'",
        "ix_ledger_entry_worker",
    ),
    "which leases have expired": (
        "SELECT id FROM lease WHERE ended_at IS NULL AND expires_at < (SELECT max(leased_at) FROM lease WHERE id = 1)",
        "ix_lease_live",
    ),
    "which HITs are still to be polled": (
        "SELECT external_id FROM hit WHERE marketplace = 'mturk' AND status = 'reviewable' ORDER BY id",
        "ix_hit_status",
    ),
    "which pages wait for the marketplace": (
        "SELECT id FROM work_session WHERE status = 'submitted' ORDER BY id",
        "ix_work_session_to_confirm",
    ),
    "what is not in Label Studio yet": (
        "SELECT id FROM label_studio_annotation WHERE external_id IS NULL ORDER BY id",
        "ix_label_studio_annotation_unsent",
    ),
    "what happened to this round": (
        "SELECT action FROM audit_entry WHERE subject = 'round' AND subject_id = 1 ORDER BY id",
        "ix_audit_entry_subject",
    ),
}


def _plan(session: Session, question: str, values: dict[str, Any]) -> str:
    if session.get_bind().dialect.name == "sqlite":
        plan = session.execute(text(f"EXPLAIN QUERY PLAN {question}"), values).all()
    else:
        # The tables are nearly empty: make the planner assume large ones.
        for way in ("seqscan", "sort", "hashagg"):
            session.execute(text(f"SET LOCAL enable_{way} = off"))
        plan = session.execute(text(f"EXPLAIN {question}"), values).all()
    return (
        "\n".join(str(line) for line in plan)
        .replace("sqlite_autoindex_vote_1", "uq_vote_example_id_worker_id")
        .replace("SEARCH text_key USING PRIMARY KEY", "pk_text_key")
    )


@pytest.mark.parametrize(("question", "index"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_is_answered_from_its_index(fresh_sample: SampleRows, question: str, index: str) -> None:
    with fresh_sample.store.read() as session:
        plan = _plan(session, question, {})
    assert index in plan, plan
    assert "TEMP B-TREE" not in plan, plan


def test_an_index_over_some_rows_serves_a_question_with_a_bound_value(fresh_sample: SampleRows) -> None:
    question = "SELECT id FROM example WHERE round_id = 1 AND status = :status ORDER BY id LIMIT 20"
    with fresh_sample.store.read() as session:
        assert "ix_example_pending" in _plan(session, question, {"status": "pending"})
