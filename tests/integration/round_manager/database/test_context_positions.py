"""The database maintains the position of every active context in an open round."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from round_manager import migrations
from round_manager.database.columns import public_id
from round_manager.database.store import Store, open_store
from round_manager.models import Context, ContextTally, Round, RoundModel, RoundStatus
from round_manager.work.leases import lock_task
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.sample_rows import SampleRows, add_sample_rows, new_round
from tests.integration.round_manager.work.test_concurrency import at_once

SOME = 40


def _rows(sample: SampleRows, first: int) -> list[dict[str, Any]]:
    return [
        {
            "public_id": public_id(NOON),
            "task_id": sample.task,
            "key": f"n{number}",
            "position": number,
            "fields": {"prompt": "It rained."},
            "extra": {},
            "created_at": NOON,
        }
        for number in range(first, first + SOME)
    ]


def _places(session: Session, round_id: int) -> dict[int, tuple[int, int]]:
    """Return the position of each active context, and how often it was used."""
    rows = select(ContextTally).where(ContextTally.round_id == round_id, ContextTally.lot.is_not(None))
    found = session.scalars(rows.order_by(ContextTally.context_id)).all()
    assert len({one.lot for one in found}) == len(found)
    return {one.context_id: (int(one.position or 0), one.used) for one in found}


def _check(sample: SampleRows, round_id: int) -> None:
    with sample.store.read() as session:
        living = select(Context.id, Context.position).where(Context.retired_at.is_(None))
        places = {one: place for one, (place, _) in _places(session, round_id).items()}
        assert list(places.items()) == list(map(tuple, session.execute(living.order_by(Context.id))))


def _change(sample: SampleRows, change: Callable[[Session], object]) -> None:
    with sample.write() as session:
        change(session)
    _check(sample, sample.round)


def test_contexts_get_positions_when_they_are_added_removed_and_moved(sample: SampleRows) -> None:
    every = update(Context)
    _change(sample, lambda session: session.execute(insert(Context), _rows(sample, 10)))
    _change(sample, lambda session: session.execute(every.where(Context.id % 2 == 0).values(retired_at=NOON)))
    _change(sample, lambda session: session.execute(every.values(position=Context.position + 1_000)))
    _change(sample, lambda session: session.execute(every.where(Context.id % 3 == 0).values(retired_at=None)))
    _change(sample, lambda session: session.execute(every.values(extra={"more": 1})))
    retired = [{**one, "retired_at": NOON} for one in _rows(sample, 100)]
    _change(sample, lambda session: session.execute(insert(Context), retired))
    with sample.store.read() as session:
        assert _places(session, sample.round)[sample.context] == (1_000, 1)


def test_a_retired_context_comes_back_with_its_current_counts(sample: SampleRows) -> None:
    mine = update(Context).where(Context.id == sample.context)
    _change(sample, lambda session: session.execute(mine.values(retired_at=NOON)))
    _change(sample, lambda session: session.add(sample.new_example()))
    _change(sample, lambda session: session.execute(mine.values(retired_at=None)))
    with sample.store.read() as session:
        assert _places(session, sample.round) == {sample.context: (0, 2)}


def test_a_rolled_back_context_has_no_position(sample: SampleRows) -> None:
    with sample.undone() as session:
        session.execute(insert(Context), _rows(sample, 10))
        session.flush()
    _check(sample, sample.round)


def test_a_round_opens_with_positions_for_all_contexts_and_keeps_the_previous_rounds(sample: SampleRows) -> None:
    with sample.write() as session:
        session.execute(insert(Context), _rows(sample, 10))
        sample.move_round(session, RoundStatus.CLOSED)
    with sample.store.read() as session:
        before = _places(session, sample.round)
    second = _draft(sample)
    _open(sample, second)
    _check(sample, second)
    with sample.write() as session:
        session.execute(update(Context).where(Context.id % 2 == 0).values(retired_at=NOON))
    _check(sample, second)
    with sample.store.read() as session:
        assert _places(session, sample.round) == before


def test_contexts_added_while_a_round_opens_get_positions(sample: SampleRows) -> None:
    with sample.write() as session:
        sample.move_round(session, RoundStatus.CLOSED)
    second = _draft(sample)

    def add(first: int) -> None:
        with sample.write() as session:
            session.execute(insert(Context), _rows(sample, first))

    at_once(*[lambda first=first: add(first) for first in (100, 200, 300)], lambda: _open(sample, second))
    _check(sample, second)


def test_a_round_opened_by_an_older_version_gets_positions_for_its_contexts(database_url: str) -> None:
    with open_store(database_url, upgrade=True) as store:
        sample = add_sample_rows(store)
        with sample.write() as session:
            session.execute(insert(Context), _rows(sample, 10))
            session.execute(update(Context).where(Context.id % 2 == 0).values(retired_at=NOON))
        before = _tallies(store)
        migrations.downgrade(store.engine, "0023")
        store.upgrade()
        _check(sample, sample.round)
        living = {one: values for one, values in before.items() if values[2] is not None}
        assert _tallies(store) == living
        # And the triggers are there again.
        _change(sample, lambda session: session.execute(insert(Context), _rows(sample, 100)))


def _tallies(store: Store) -> dict[int, tuple[Any, ...]]:
    with store.read() as session:
        rows = session.scalars(select(ContextTally)).all()
        return {one.context_id: (one.used, one.fooled, one.lot, one.position) for one in rows}


def _draft(sample: SampleRows) -> int:
    with sample.write() as session:
        draft = new_round(sample.task, 2)
        session.add(draft)
        session.flush()
        session.add(RoundModel(round_id=draft.id, model_version_id=sample.model, task_id=sample.task, rank=0))
        return int(draft.id)


def _open(sample: SampleRows, round_id: int) -> None:
    with sample.write() as session:
        lock_task(session, sample.task)
        found = session.get_one(Round, round_id)
        found.status, found.opened_at = RoundStatus.OPEN, NOON
