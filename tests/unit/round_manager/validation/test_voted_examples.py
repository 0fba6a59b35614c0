"""Krippendorff's alpha and Wilson's interval give what is published for them."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import pytest

from round_manager.rates import Rate
from round_manager.validation.voted_examples import Agreement

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), sections A to C; a star is a missing value.
BINARY = ("0100000010", "1110010000")
TWO_OBSERVERS = ("aabbdcccedda", "babbbccceddd")
FOUR_OBSERVERS = ("123321412***", "1233224125*3", "*3332342251*", "12332441251*")
# Wikipedia, "Krippendorff's alpha": three coders, fifteen units.
THREE_CODERS = ("*****34121133*3", "1*213343*******", "**21344*21133*4")


def alpha_of(units: Iterable[Sequence[str]]) -> float | None:
    """Return Krippendorff's alpha of units, each a list of labels."""
    agreement = Agreement()
    for votes in units:
        agreement.add(votes)
    return agreement.alpha


def units(observers: tuple[str, ...]) -> list[list[str]]:
    return [[one for one in unit if one != "*"] for unit in zip_longest(*observers, fillvalue="*")]


@pytest.mark.parametrize(
    ("observers", "alpha"),
    [(BINARY, 0.095), (TWO_OBSERVERS, 0.692), (FOUR_OBSERVERS, 0.743), (THREE_CODERS, 0.691)],
    ids=["binary", "two observers", "four observers with gaps", "three coders with gaps"],
)
def test_alpha_equals_published_values(observers: tuple[str, ...], alpha: float) -> None:
    assert alpha_of(units(observers)) == pytest.approx(alpha, abs=0.0005)


def test_full_agreement_is_one_and_a_single_vote_is_ignored() -> None:
    assert alpha_of(["aa", "bb", "c"]) == 1.0


@pytest.mark.parametrize("votes", [[], ["a"], ["aa", "aa"]])
def test_alpha_is_undefined_without_expected_disagreement(votes: list[str]) -> None:
    assert alpha_of(votes) is None


# Newcombe, "Two-sided confidence intervals for the single proportion" (1998), table I, method 3.
@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_equals_published_values(count: int, of: int, low: float, high: float) -> None:
    rate = Rate(count, of)
    assert [rate.low, rate.high] == pytest.approx([low, high], abs=0.00006)
    assert rate.share == count / of


def test_a_rate_of_nothing_is_unknown() -> None:
    assert (Rate(0, 0).share, Rate(0, 0).low, Rate(0, 0).high) == (None, 0.0, 1.0)
