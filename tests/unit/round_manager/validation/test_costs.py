"""The cost of an assignment is divided among its items, and the parts add up exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from round_manager.validation.costs import Cost

TIMES = st.lists(st.none() | st.integers(0, 2**40), min_size=1, max_size=20)


def parts(whole: Cost, own: list[int | None]) -> list[Cost]:
    return [whole.part(place, own) for place in range(len(own))]


@given(TIMES, st.integers(0, 2**45), st.integers(0, 10**6))
def test_the_parts_add_up_to_the_whole_exactly(own: list[int | None], ms: int, cents: int) -> None:
    shared = parts(Cost(ms, cents), own)
    assert sum(shared, Cost()) == Cost(ms, cents)
    assert all(one.ms >= 0 and one.cents >= 0 for one in shared)
    assert max(one.cents for one in shared) - min(one.cents for one in shared) <= 1


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=20))
def test_items_keep_their_own_times_if_these_add_up_to_the_whole(own: list[int]) -> None:
    assert [one.ms for one in parts(Cost(sum(own)), [*own])] == own


@pytest.mark.parametrize(
    ("ms", "own", "shared"),
    [
        (100_001, [None, None, None], [33_333, 33_334, 33_334]),
        (100_001, [90_000, None, 1], [33_333, 33_334, 33_334]),
        (90_000, [0, 0, 0], [30_000, 30_000, 30_000]),
        (90_000, [0, 10_000, 20_000], [0, 30_000, 60_000]),
        (30_000, [40_000, 20_000], [20_000, 10_000]),
        (0, [40_000, 20_000], [0, 0]),
    ],
    ids=["all unknown", "one unknown", "all zero", "more than the items' own", "less than the items' own", "no time"],
)
def test_time_is_shared_by_the_items_own_times_if_all_are_known(
    ms: int, own: list[int | None], shared: list[int]
) -> None:
    assert [one.ms for one in parts(Cost(ms), own)] == shared


def test_money_is_shared_evenly_whatever_the_time() -> None:
    assert [one.cents for one in parts(Cost(60_000, 100), [1, 59_000, 999])] == [33, 33, 34]
