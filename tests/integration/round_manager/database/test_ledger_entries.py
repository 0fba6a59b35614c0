"""Ledger entries: the database enforces budgets, and the states always add up."""

from collections import defaultdict
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from round_manager.errors import DuplicateError, RefusedError
from round_manager.models import EntryKind, EntryState, HitKind, LedgerEntry, Round, Task
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.sample_rows import SampleRows, new_task

TOTAL = LedgerEntry.cents + LedgerEntry.fee_cents
NEXT = {
    EntryState.RESERVED: [EntryState.OWED, EntryState.RELEASED],
    EntryState.OWED: [EntryState.SENT],
    EntryState.SENT: [EntryState.CONFIRMED, EntryState.REFUSED],
}
TIMES = {EntryState.OWED: "owed_at", EntryState.SENT: "sent_at"}


def _move(entry: LedgerEntry, state: EntryState, at: datetime = NOON) -> None:
    entry.state = state
    setattr(entry, TIMES.get(state, "settled_at"), at)


def _pay_to(sample: SampleRows, key: str, cents: int = 45) -> LedgerEntry:
    entry = sample.new_entry(key, cents=cents, kind=EntryKind.EXTRA)
    entry.worker_id, entry.assignment_id = sample.author, sample.assignment
    return entry


def _statement(session: Session, round_id: int) -> dict[EntryState, int]:
    by_state = select(LedgerEntry.state, func.sum(TOTAL)).where(LedgerEntry.round_id == round_id)
    return {state: int(cents) for state, cents in session.execute(by_state.group_by(LedgerEntry.state))}


def _kept(owner: Round | Task) -> tuple[int, int, int]:
    """Return the sums that the database maintains for a round or a task."""
    return owner.reserved_cents, owner.owed_cents, owner.sent_cents


def test_a_payment_passes_through_all_its_states(sample: SampleRows) -> None:
    with sample.write() as session:
        entry = _pay_to(sample, "pay")
        session.add(entry)
        for state in (EntryState.OWED, EntryState.SENT, EntryState.CONFIRMED):
            session.flush()
            _move(entry, state)
    with sample.store.read() as session:
        assert _statement(session, sample.round) == {EntryState.CONFIRMED: 54}
        assert _kept(session.get_one(Round, sample.round)) == (0, 0, 54)


def test_a_round_cannot_reserve_more_than_its_budget(sample: SampleRows) -> None:
    with sample.write() as session:
        session.add(sample.new_entry("most", cents=491))
    with pytest.raises(RefusedError) as caught, sample.write() as session:
        session.add(sample.new_entry("one too many", cents=1, fee_cents=0))
    assert caught.value.rule == "ck_round_within_budget"
    with sample.store.read() as session:
        assert _kept(session.get_one(Round, sample.round)) == (500, 0, 0)


def test_a_task_cannot_reserve_more_than_its_budget_for_what_belongs_to_no_round(sample: SampleRows) -> None:
    with sample.write() as session:
        quiz = sample.new_hit("quiz", kind=HitKind.QUIZ, round_id=None)
        session.add(quiz)
    with pytest.raises(RefusedError) as caught, sample.write() as session:
        session.add(sample.new_entry("quiz", cents=1_001, hit_id=quiz.id, round_id=None))
    assert caught.value.rule == "ck_task_within_budget"


def test_a_budget_cannot_fall_below_the_reserved_amount(sample: SampleRows) -> None:
    with sample.write() as session:
        session.add(sample.new_entry("pay"))
    with pytest.raises(RefusedError), sample.write() as session:
        session.get_one(Task, sample.task).budget_cents = 53


def test_released_or_refused_money_can_be_reserved_again(sample: SampleRows) -> None:
    with sample.write() as session:
        released, refused = sample.new_entry("released", cents=241), _pay_to(sample, "refused", 241)
        session.add_all([released, refused])
        session.flush()
        _move(released, EntryState.RELEASED)
        for state in (EntryState.OWED, EntryState.SENT, EntryState.REFUSED):
            _move(refused, state)
            session.flush()
    with sample.write() as session:
        session.add(sample.new_entry("again", cents=491))


def test_a_key_is_used_once(sample: SampleRows) -> None:
    with sample.write() as session:
        session.add(sample.new_entry("key"))
    with pytest.raises(DuplicateError), sample.write() as session:
        session.add(sample.new_entry("key", cents=1))


def test_an_entry_of_another_task_leaves_this_one_alone(sample: SampleRows) -> None:
    with sample.write() as session:
        session.add(new_task("other"))
        session.add(sample.new_entry("pay"))
    with sample.store.read() as session:
        kept = {task.name: _kept(task) for task in session.scalars(select(Task))}
    assert kept == {"sentiment": (54, 0, 0), "other": (0, 0, 0)}


def test_many_entries_that_move_in_one_statement_are_all_counted(sample: SampleRows) -> None:
    with sample.write() as session:
        session.execute(insert(LedgerEntry), [_values(sample.new_entry(f"e{number}", cents=1)) for number in range(50)])
        session.execute(update(LedgerEntry).where(LedgerEntry.id % 2 == 0).values(state="released", settled_at=NOON))
    with sample.store.read() as session:
        assert _kept(session.get_one(Round, sample.round)) == (250, 0, 0)
        assert _kept(session.get_one(Task, sample.task)) == (250, 0, 0)


def _values(entry: LedgerEntry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in LedgerEntry.__table__.columns.keys() if name != "id"}  # noqa: SIM118


def test_a_statement_of_an_earlier_moment_is_a_sum_too(sample: SampleRows) -> None:
    days = [NOON + timedelta(days=day) for day in range(4)]
    with sample.write() as session:
        entry = _pay_to(sample, "pay")
        session.add(entry)
        for state, day in zip((EntryState.OWED, EntryState.SENT, EntryState.CONFIRMED), days[1:], strict=True):
            session.flush()
            _move(entry, state, day)
    owed_then = select(func.coalesce(func.sum(TOTAL), 0))
    with sample.store.read() as session:
        for number, owed in enumerate([0, 54, 0, 0]):
            then = days[number]
            due = (LedgerEntry.owed_at <= then) & ((LedgerEntry.sent_at > then) | LedgerEntry.sent_at.is_(None))
            assert session.scalar(owed_then.where(due)) == owed


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 120)), min_size=1, max_size=20))
def test_whatever_happens_the_states_add_up_to_the_budget(sample: SampleRows, steps: list[tuple[bool, int]]) -> None:
    entries: list[LedgerEntry] = []
    with sample.write() as session:
        for go_on, number in steps:
            movable = [entry for entry in entries if entry.state in NEXT]
            if go_on and movable:
                entry = movable[number % len(movable)]
                _move(entry, NEXT[entry.state][number % len(NEXT[entry.state])])
                session.flush()
            else:
                entries.extend(_reserve(session, _pay_to(sample, f"e{len(entries)}", number)))
        states = defaultdict(int, _statement(session, sample.round))
        counted = (
            states[EntryState.RESERVED],
            states[EntryState.OWED],
            states[EntryState.SENT] + states[EntryState.CONFIRMED],
        )
        session.expire_all()
        assert _kept(session.get_one(Round, sample.round)) == counted
        assert _kept(session.get_one(Task, sample.task)) == counted
        assert sum(counted) <= 500
        session.rollback()


def _reserve(session: Session, entry: LedgerEntry) -> list[LedgerEntry]:
    """The entry, or nothing if the budget has no room for it."""
    try:
        with session.begin_nested():
            session.add(entry)
    except RefusedError as error:
        if error.rule != "ck_round_within_budget":
            raise
        return []
    return [entry]
