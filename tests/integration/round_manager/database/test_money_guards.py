"""HITs and ledger entries cannot be rewritten."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from round_manager.models import Assignment, AssignmentStatus, EntryKind, EntryState, Hit, LedgerEntry
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.forbidden_changes import Deed, Forbidden, check_refused
from tests.integration.round_manager.database.sample_rows import SampleRows

LATER = NOON + timedelta(days=1)
forbidden = Forbidden()


@forbidden("guard_hit_fixed")
def a_hit_pays_less_than_it_said(_: SampleRows, session: Session) -> None:
    session.execute(update(Hit).values(reward_cents=1))


@forbidden("guard_hit_known")
def a_hit_becomes_another_one_on_the_marketplace(_: SampleRows, session: Session) -> None:
    session.execute(update(Hit).values(external_id="H2"))


@forbidden("guard_assignment_forward")
def submitted_work_becomes_unsubmitted(_: SampleRows, session: Session) -> None:
    session.execute(update(Assignment).values(status=AssignmentStatus.RETURNED, submitted_at=None))


@forbidden("guard_assignment_forward")
def approved_work_is_rejected_afterwards(_: SampleRows, session: Session) -> None:
    decided = {"decided_at": NOON, "decided_by": "owner"}
    session.execute(update(Assignment).values(status=AssignmentStatus.APPROVED, **decided))
    session.execute(update(Assignment).values(status=AssignmentStatus.REJECTED, reason="after all"))


@forbidden("guard_assignment_whose")
def submitted_work_passes_to_another_worker(sample: SampleRows, session: Session) -> None:
    session.execute(update(Assignment).values(worker_id=sample.voter))


@forbidden("guard_ledger_entry_begins")
def money_is_owed_that_was_not_reserved(sample: SampleRows, session: Session) -> None:
    owed: dict[str, Any] = {"owed_at": NOON, "worker_id": sample.author, "assignment_id": sample.assignment}
    session.add(sample.new_entry(state=EntryState.OWED, **owed))


@forbidden("guard_ledger_entry_forward")
def money_is_sent_that_was_not_owed(_: SampleRows, session: Session) -> None:
    session.execute(update(LedgerEntry).values(state=EntryState.SENT, owed_at=NOON, sent_at=NOON))


@forbidden("guard_ledger_entry_amount")
def an_amount_is_changed(_: SampleRows, session: Session) -> None:
    session.execute(update(LedgerEntry).values(cents=LedgerEntry.cents + 1))


def _walk(sample: SampleRows, session: Session, *steps: EntryState) -> LedgerEntry:
    """A new entry, brought forward step by step."""
    entry = sample.new_entry("walked", kind=EntryKind.EXTRA, worker_id=sample.author, assignment_id=sample.assignment)
    session.add(entry)
    session.flush()
    times = {EntryState.OWED: "owed_at", EntryState.SENT: "sent_at"}
    for step in steps:
        entry.state = step
        setattr(entry, times.get(step, "settled_at"), NOON)
        session.flush()
    return entry


@forbidden("guard_ledger_entry_payee")
def what_is_owed_to_one_is_owed_to_another(sample: SampleRows, session: Session) -> None:
    _walk(sample, session, EntryState.OWED).worker_id = sample.voter


@forbidden("guard_ledger_entry_sent")
def a_payment_was_sent_at_another_time(sample: SampleRows, session: Session) -> None:
    _walk(sample, session, EntryState.OWED, EntryState.SENT).sent_at = LATER


@forbidden("guard_ledger_entry_forward")
def what_is_owed_is_released(sample: SampleRows, session: Session) -> None:
    _walk(sample, session, EntryState.OWED, EntryState.RELEASED)


@forbidden("guard_ledger_entry_forward")
def a_sent_payment_is_owed_again(sample: SampleRows, session: Session) -> None:
    _walk(sample, session, EntryState.OWED, EntryState.SENT).state = EntryState.OWED


@forbidden("guard_ledger_entry_settled")
def a_confirmed_payment_is_touched(sample: SampleRows, session: Session) -> None:
    _walk(sample, session, EntryState.OWED, EntryState.SENT, EntryState.CONFIRMED).tries = 5


@forbidden("guard_ledger_entry_settled")
def a_released_entry_is_touched(sample: SampleRows, session: Session) -> None:
    _walk(sample, session, EntryState.RELEASED).last_error = "try again"


@forbidden("guard_ledger_entry_kept")
def an_entry_is_removed(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM ledger_entry"))


@pytest.mark.parametrize(("rule", "deed"), forbidden.cases)
def test_the_database_refuses_the_change(full_sample: SampleRows, rule: str, deed: Deed) -> None:
    check_refused(full_sample, rule, deed)
