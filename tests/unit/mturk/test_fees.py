import pytest
from hypothesis import given
from hypothesis import strategies as st

from mturk.fees import bonus_fee, reward_fee


@pytest.mark.parametrize(
    ("reward", "assignments", "masters", "fee"),
    [
        (100, 1, False, 20),
        (100, 9, False, 20),
        (100, 10, False, 40),
        (100, 10, True, 45),
        (1, 1, False, 1),
        (0, 1, False, 1),
        (3, 1, False, 1),
        (6, 1, False, 2),
    ],
)
def test_the_fee_on_a_reward(reward: int, assignments: int, masters: bool, fee: int) -> None:
    assert reward_fee(reward, assignments, masters=masters) == fee


def test_no_bonus_costs_nothing_and_any_bonus_at_least_a_cent() -> None:
    assert bonus_fee(0) == 0
    assert bonus_fee(1) == 1
    assert bonus_fee(60) == 12


@given(st.integers(0, 10**9), st.integers(1, 100), st.booleans())
def test_a_fee_is_never_below_its_percentage_nor_a_whole_cent_above(
    reward: int, assignments: int, masters: bool
) -> None:
    percent = 20 + (20 if assignments >= 10 else 0) + (5 if masters else 0)
    fee = reward_fee(reward, assignments, masters=masters)
    assert reward * percent <= fee * 100 < reward * percent + 100 or fee == 1


def test_a_negative_reward_is_refused() -> None:
    with pytest.raises(ValueError, match="less than nothing"):
        reward_fee(-1)
