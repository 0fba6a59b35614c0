"""Column types, seen from Python."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from round_manager.database.columns import Cents, CheckedTime, LimitedText, json_text
from round_manager.errors import BadValueError

SQLITE = sqlite.dialect()


@given(st.datetimes(timezones=st.timezones()))
def test_any_aware_time_survives_sqlite_to_the_microsecond(moment: datetime) -> None:
    column = CheckedTime()
    try:
        expected = moment.astimezone(UTC)
    except OverflowError:
        return
    assert column.process_result_value(column.process_bind_param(moment, SQLITE), SQLITE) == expected


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_times_sort_in_sqlite_as_they_do_in_python(one: datetime, other: datetime) -> None:
    column = CheckedTime()
    stored = (column.process_bind_param(one, SQLITE), column.process_bind_param(other, SQLITE))
    assert (stored[0] < stored[1]) == (one < other)


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(BadValueError):
        CheckedTime().process_bind_param(datetime(2027, 3, 1), SQLITE)


@pytest.mark.parametrize("value", [0.5, 1.0, float("nan"), Decimal(1), True, "1"])
def test_only_integers_are_cents(value: object) -> None:
    with pytest.raises(BadValueError):
        Cents().process_bind_param(value, SQLITE)  # type: ignore[arg-type]


def test_json_text_is_the_same_for_equal_values() -> None:
    assert json_text({"b": 1, "a": "ü"}) == json_text({"a": "ü", "b": 1}) == '{"a":"ü","b":1}'


def test_a_typed_backslash_is_not_read_as_a_nul() -> None:
    assert json_text({"text": "\\u0000"}) == '{"text":"\\\\u0000"}'


@pytest.mark.parametrize("value", [{"a": float("nan")}, {"a": "\x00"}, {"a": [{"b": ("\x00",)}]}, {"a": "\ud800"}])
def test_json_text_refuses_what_postgresql_refuses(value: dict[str, object]) -> None:
    with pytest.raises(BadValueError):
        json_text(value)


def test_a_text_fits_up_to_its_length() -> None:
    assert LimitedText(3).process_bind_param("äöü", SQLITE) == "äöü"
    with pytest.raises(BadValueError, match="3"):
        LimitedText(3).process_bind_param("äöüß", SQLITE)


@pytest.mark.parametrize("deep", [101, 960, 100_000])
def test_json_text_refuses_deeply_nested_values(deep: int) -> None:
    value: object = "text"
    for _ in range(deep):
        value = {"in": [value]} if deep == 101 else [value]
    with pytest.raises(BadValueError, match="100"):
        json_text(value)


def test_json_text_keeps_many_brackets_on_one_level() -> None:
    assert json_text([[]] * 1_000 + ["[" * 1_000]).count("[]") == 1_000
