"""The guard: which losses count, and against which versions."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from round_manager.learning.guard import ALL_ROWS, GuardDecision, Scores, VersionComparison, decide
from round_manager.learning.training_data import HeldOut
from templates import SeedRow

POINTS = 2.0


def held_out(*sizes: int) -> list[HeldOut]:
    row = SeedRow("r", "held_out", {"text": "A day."}, "positive", None, None, {})
    return [HeldOut(f"round {number}", number, (row,) * size, f"sha{number}") for number, size in enumerate(sizes, 1)]


def right(rows: int, wrong: int, *, first: int = 0) -> Scores:
    """Scores of which some are wrong, from a place on."""
    scores = np.ones(rows)
    scores[first : first + wrong] = 0
    return scores.tolist()


def one_set(before: Scores, after: Scores, points: float = POINTS) -> GuardDecision:
    return decide({"sha1": after}, {"old": {"sha1": before}}, {}, held_out(len(after)), points, {})


def compared(before: float | None, after: float, low: float = 1.0) -> VersionComparison:
    return VersionComparison("round 1", 40, before, after, "old", low, 9.0)


@pytest.mark.parametrize(
    ("before", "after", "low", "accepted"),
    [
        (80.0, 78.0, 1.0, True),
        (80.0, 77.9999, 1.0, False),
        (80.0, 77.0, -0.1, True),  # more than allowed, but it can be chance
        (80.0, 95.0, -20.0, True),
        (70.1, 68.1, 1.0, True),  # a loss of two points, despite rounding
        (None, 0.0, 0.0, True),
    ],
)
def test_a_loss_counts_if_it_is_larger_than_allowed_and_not_chance(
    before: float | None, after: float, low: float, accepted: bool
) -> None:
    assert GuardDecision([compared(before, after, low)], POINTS).accepted is accepted


def test_a_few_rows_of_two_hundred_do_not_refuse_a_version() -> None:
    assert one_set(right(200, 20), right(200, 25)).accepted
    # Nine lost and four gained.
    assert one_set(right(200, 20), right(200, 25, first=4)).accepted
    assert not one_set(right(200, 20), right(200, 40)).accepted
    assert not one_set(right(2_000, 200), right(2_000, 250)).accepted, "the same share of more rows"


def test_a_small_loss_is_allowed_however_certain_it_is() -> None:
    assert one_set(right(10_000, 1_000), right(10_000, 1_150)).accepted
    assert not one_set(right(10_000, 1_000), right(10_000, 1_150), points=1.0).accepted


@pytest.mark.parametrize("rows", [200, 1_000])
def test_a_slow_decline_is_noticed_against_the_best_earlier_version(rows: int) -> None:
    sets = held_out(*[rows] * 5)
    step = round(0.015 * rows)
    earlier: dict[str, Mapping[str, Scores]] = {}
    for number in range(8):
        new = {part.sha256: right(rows, rows // 10 + number * step) for part in sets}
        names = list(earlier)
        serving = {name: earlier[name] for name in names[-1:]}
        older = {name: earlier[name] for name in names[:-1]}
        assert decide(new, serving, {}, sets, POINTS, {}).accepted, "each step alone is small"
        decision = decide(new, serving, older, sets, POINTS, {})
        if not decision.accepted:
            assert 2 <= number <= 4
            assert {one.against for one in decision.regressions} == {"v0"}
            assert ALL_ROWS in {one.dataset for one in decision.regressions}
            return
        earlier[f"v{number}"] = new
    pytest.fail("a decline of ten points was not noticed")


def test_versions_that_are_as_good_are_hardly_ever_refused() -> None:
    draw = np.random.default_rng(3)
    sets = held_out(*[200] * 5)

    # All have the same chance on each row, so that they differ on some.
    chances = np.where(np.arange(200) < 160, 0.97, 0.35)

    def version() -> dict[str, Scores]:
        return {part.sha256: (draw.random(200) < chances).astype(float).tolist() for part in sets}

    refused = 0
    for _ in range(100):
        earlier = {f"v{number}": version() for number in range(5)}
        serving = {"v4": earlier.pop("v4")}
        refused += not decide(version(), serving, earlier, sets, POINTS, {}).accepted
    assert refused <= 5


def test_an_earlier_version_is_compared_on_the_sets_of_its_time() -> None:
    sets = held_out(300, 300)
    new = {"sha1": right(300, 60), "sha2": right(300, 10)}
    decision = decide(new, {"v2": new}, {"v1": {"sha1": right(300, 10)}}, sets, POINTS, {})
    found = {one.dataset: one.against for one in decision.comparisons}
    assert found == {"round 1": "v1", "round 2": "v2", ALL_ROWS: "v1"}
    assert [one.dataset for one in decision.regressions] == ["round 1", ALL_ROWS]


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_scores_between_zero_and_one_are_compared_by_a_bootstrap(loss: float) -> None:
    draw = np.random.default_rng(1)
    before = draw.random(300)
    after = np.clip(before - loss + 0.02 * draw.standard_normal(300), 0, 1)
    assert one_set(before.tolist(), after.tolist()).accepted is (loss == 0)


def test_one_regression_is_enough_and_only_regressions_are_reported() -> None:
    decision = GuardDecision([VersionComparison("seed", 10, 90.0, 95.0), compared(80.0, 60.0)], POINTS)
    assert not decision.accepted
    assert [one.dataset for one in decision.regressions] == ["round 1"]
    assert "seed" not in decision.reason()


def test_the_record_of_an_accepted_model_has_every_comparison() -> None:
    decision = decide({"sha1": right(10, 1)}, {}, {}, held_out(10), POINTS, {"v0": "gone"})
    assert decision.accepted
    record = decision.record()
    assert record["not_compared"] == {"v0": "gone"}
    (found,) = record["comparisons"]
    assert (found["dataset"], found["rows"], found["before"], found["after"]) == ("round 1", 10, None, 90.0)


def test_no_two_comparisons_share_a_version_by_mistake() -> None:
    sets: Sequence[HeldOut] = held_out(50)
    same = {"sha1": right(50, 5)}
    (found,) = decide(same, {"v1": same}, {"v1": same}, sets, 0.0, {}).comparisons
    assert (found.against, found.loss) == ("v1", 0)
    # One comparison: 95 %, widened because all rows are equal.
    assert found.low == -found.high
    assert found.high == pytest.approx(100 * (1 - 0.025 ** (1 / 50)), abs=1e-3)
