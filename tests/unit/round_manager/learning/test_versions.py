import pytest

from round_manager.learning.versions import GuardDecision, VersionComparison


def compared(before: float | None, after: float) -> VersionComparison:
    return VersionComparison("round 1", 40, before, after)


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        (80.0, 78.0, True),
        (80.0, 77.9999, False),
        (80.0, 95.0, True),
        (70.1, 68.1, True),  # a loss of two points, despite rounding
        (None, 0.0, True),
    ],
)
def test_a_model_may_lose_exactly_as_much_as_the_guard_allows(
    before: float | None, after: float, accepted: bool
) -> None:
    assert GuardDecision([compared(before, after)], 2.0).accepted is accepted


def test_one_regression_is_enough_and_only_regressions_are_reported() -> None:
    decision = GuardDecision([VersionComparison("seed", 10, 90.0, 95.0), compared(80.0, 60.0)], 2.0)
    assert not decision.accepted
    assert [one.dataset for one in decision.regressions] == ["round 1"]
    assert "seed" not in decision.reason()


def test_the_record_of_an_accepted_model_has_every_comparison() -> None:
    decision = GuardDecision([VersionComparison("seed", 10, None, 95.0), compared(80.0, 81.0)], 0.0)
    assert decision.accepted
    assert decision.record()["comparisons"] == [
        {"dataset": "seed", "rows": 10, "before": None, "after": 95.0},
        {"dataset": "round 1", "rows": 40, "before": 80.0, "after": 81.0},
    ]
