"""What the marketplace takes on top of what workers get, in whole cents, always rounded up.

20 % of rewards and bonuses, 20 % more on the reward of a HIT with ten or more assignments, 5 % more for Masters, and
at least one cent for each assignment and each bonus.
"""

PERCENT = 20
MANY_ASSIGNMENTS = 10
MANY_PERCENT = 20
MASTERS_PERCENT = 5
LEAST_CENTS = 1


def reward_fee(reward_cents: int, assignments: int = 1, *, masters: bool = False) -> int:
    """The fee on one assignment of a HIT that has so many of them."""
    percent = PERCENT + (MANY_PERCENT if assignments >= MANY_ASSIGNMENTS else 0) + (MASTERS_PERCENT if masters else 0)
    return _fee(reward_cents, percent)


def bonus_fee(bonus_cents: int) -> int:
    """The fee on one bonus; nothing on no bonus."""
    return _fee(bonus_cents, PERCENT) if bonus_cents else 0


def _fee(cents: int, percent: int) -> int:
    if cents < 0:
        raise ValueError(f"{cents} cents is less than nothing")
    return max(LEAST_CENTS, -(-cents * percent // 100))
