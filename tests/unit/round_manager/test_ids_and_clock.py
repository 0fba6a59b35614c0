"""Public ids, and the clock that they are made from."""

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122

import pytest

from common.clock import Clock, SystemClock
from round_manager.database.columns import public_id
from round_manager.errors import BadValueError
from tests.fakes.clock import NOON, SettableClock


def test_public_ids_sort_by_creation_time() -> None:
    clock = SettableClock()
    made = []
    for _ in range(1_000):
        clock.advance(timedelta(milliseconds=1))
        made.append(public_id(clock.now()))
    assert made == sorted(made)
    assert [str(one) for one in made] == sorted(str(one) for one in made)


def test_public_ids_of_one_moment_are_all_different() -> None:
    made = {public_id(NOON) for _ in range(10_000)}
    assert len(made) == 10_000
    assert {(one.version, one.variant) for one in made} == {(7, RFC_4122)}


def test_a_public_id_contains_its_time_and_is_not_predictable() -> None:
    one, other = public_id(NOON).int, public_id(NOON).int
    assert one >> 80 == other >> 80 == int(NOON.timestamp() * 1000)
    assert abs((one & ((1 << 62) - 1)) - (other & ((1 << 62) - 1))) > 1_000


def test_an_id_is_not_created_from_a_naive_time() -> None:
    with pytest.raises(BadValueError):
        public_id(datetime(2027, 3, 1))


def test_the_clocks_return_aware_utc_times() -> None:
    clocks: list[Clock] = [SystemClock(), SettableClock()]
    for clock in clocks:
        assert clock.now().utcoffset() == timedelta(0)
    assert abs(SystemClock().now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_settable_clock_stands_still_until_it_is_moved() -> None:
    clock = SettableClock()
    assert clock.now() == clock.now() == NOON
    assert clock.advance(timedelta(hours=2)) == clock.now() == NOON + timedelta(hours=2)
    clock.set(NOON)
    assert clock.now() == NOON
    with pytest.raises(ValueError, match="aware"):
        clock.set(datetime(2027, 3, 1))
