import pytest

from round_manager.learning.acceptance import Acceptance, Comparison


def one(before: float | None, after: float) -> Comparison:
    return Comparison("round 1", 40, before, after)


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        (80.0, 78.0, True),
        (80.0, 77.9999, False),
        (80.0, 95.0, True),
        (70.1, 68.1, True),  # a loss of two points, whatever floats make of it
        (None, 0.0, True),
    ],
)
def test_a_model_may_lose_just_as_much_as_the_guard_says(before: float | None, after: float, accepted: bool) -> None:
    assert Acceptance([one(before, after)], 2.0).accepted is accepted


def test_one_loss_is_enough_and_only_losses_are_told() -> None:
    judged = Acceptance([Comparison("seed", 10, 90.0, 95.0), one(80.0, 60.0)], 2.0)
    assert not judged.accepted
    told = "round 1: from 80.0 to 60.0 points on 40 rows; 2 points may be lost (rounds.guard_points)"
    assert judged.reason() == told


def test_an_accepted_model_tells_all_its_figures() -> None:
    judged = Acceptance([Comparison("seed", 10, None, 95.0), one(80.0, 81.0)], 0.0)
    assert (
        judged.reason() == "seed: from nothing to 95.0 points on 10 rows; round 1: from 80.0 to 81.0 points on 40 rows"
    )
    assert judged.record()["comparisons"][1] == {"dataset": "round 1", "rows": 40, "before": 80.0, "after": 81.0}
