"""Values are read back equal from every database, and unsupported values are refused."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import func, select

from round_manager.database.columns import public_id
from round_manager.errors import BadValueError
from round_manager.models import Context, Example, ModelVersion, Task
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.sample_rows import SampleRows, new_model, new_task

KATHMANDU = timezone(timedelta(hours=5, minutes=45))
MOMENTS = [
    datetime(1969, 7, 20, 20, 17, 40, 1, tzinfo=UTC),
    NOON,
    datetime(2027, 3, 1, 17, 45, 0, 999_999, tzinfo=KATHMANDU),
    datetime(2400, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
]
VALUES: list[Any] = [
    {"text": "emoji 🦊, עברית, <b>HTML</b>, \\u0000 typed out, \"quotes\" and 'more'"},
    {"nothing": None, "list": [1, -2, 3.5, 1e-7, 0.1], "deep": {"a": {"b": [True, False]}}, "big": 2**53},
    {},
]


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_time_comes_back_aware_in_utc_to_the_microsecond(shared_sample: SampleRows, moment: datetime) -> None:
    with shared_sample.undone() as session:
        session.add(new_task("other", created_at=moment))
        found = session.scalars(select(Task.created_at).where(Task.name == "other")).one()
    assert found == moment
    assert found.utcoffset() == timedelta(0)


def test_times_are_compared_and_sorted_as_times(shared_sample: SampleRows) -> None:
    with shared_sample.undone() as session:
        for number, moment in enumerate(reversed(MOMENTS)):
            session.add(new_model(shared_sample.task, f"m{number}", created_at=moment))
        made = select(ModelVersion.created_at).where(ModelVersion.name != "sentiment-1")
        assert session.scalars(made.order_by(ModelVersion.created_at)).all() == sorted(MOMENTS)
        assert session.scalar(select(func.max(made.subquery().c.created_at))) == max(MOMENTS)
        later = session.scalars(made.where(ModelVersion.created_at > NOON)).all()
        assert sorted(later) == [moment for moment in sorted(MOMENTS) if moment > NOON]


@pytest.mark.parametrize("value", [datetime(2027, 3, 1), "2027-03-01", 1_700_000_000])
def test_a_time_without_a_zone_is_refused(shared_sample: SampleRows, value: object) -> None:
    with pytest.raises(BadValueError), shared_sample.write() as session:
        session.add(new_task("other", created_at=value))


@pytest.mark.parametrize("value", VALUES, ids=["text", "numbers", "empty"])
def test_json_comes_back_equal(shared_sample: SampleRows, value: dict[str, Any]) -> None:
    row: dict[str, Any] = {"key": "k", "position": 9, "fields": value, "extra": {}, "created_at": NOON}
    with shared_sample.undone() as session:
        session.add(Context(public_id=public_id(NOON), task_id=shared_sample.task, **row))
        assert session.scalars(select(Context.fields).where(Context.key == "k")).one() == value


@pytest.mark.parametrize(
    "value",
    [{"x": float("nan")}, {"x": float("inf")}, {"x": "a\x00b"}, {"x": ["\ud83e"]}, {"a\x00b": 1}, {"x": NOON}],
    ids=["NaN", "infinity", "NUL", "half a character", "NUL in a key", "a time"],
)
def test_values_that_are_not_portable_json_are_refused(shared_sample: SampleRows, value: dict[str, Any]) -> None:
    with pytest.raises(BadValueError), shared_sample.write() as session:
        session.add(shared_sample.new_example(fields=value))


@pytest.mark.parametrize("text", ["a\x00b", "half \ud83e", "x" * 41])
def test_a_text_that_one_database_would_refuse_is_refused_by_both(shared_sample: SampleRows, text: str) -> None:
    with pytest.raises(BadValueError), shared_sample.write() as session:
        session.add(shared_sample.new_example(label=text))


@pytest.mark.parametrize("amount", [1.5, 1.0, Decimal("1"), "1", True])
def test_money_that_is_not_an_integer_is_refused(shared_sample: SampleRows, amount: object) -> None:
    with pytest.raises(BadValueError), shared_sample.write() as session:
        session.add(shared_sample.new_entry(cents=amount))


def test_a_row_comes_back_with_the_values_it_was_made_of(shared_sample: SampleRows) -> None:
    columns = [column.name for column in Example.__table__.columns]
    made = shared_sample.new_example(explanation={"why_right": "irony"}, active_ms=2**40, confidence=0.1)
    with shared_sample.undone() as session:
        session.add(made)
        session.flush()
        before = {name: getattr(made, name) for name in columns}
        session.expire_all()
        assert {name: getattr(made, name) for name in columns} == before
        assert made.fooled is True


def test_a_missing_json_value_is_stored_as_sql_null(shared_sample: SampleRows) -> None:
    with shared_sample.store.read() as session:
        assert session.scalar(select(func.count()).where(Example.answer.is_(None))) == 1
