"""What the demo reports while it runs; texts name the places to look at and never a sentence."""

from dataclasses import replace
from uuid import UUID

import pytest

from plugin.demo.news import SECONDS_TO_END, News, Pointers
from plugin.demo.progress import ExampleState, RoundState
from round_manager.models import EntryState, ExampleStatus, RoundStatus

POINTERS = Pointers("http://market/earnings", "http://studio/1", "outfox --config demo.toml", "sentiment", True)
TEXT = "what a person wrote"
MINE = ExampleState(
    UUID(int=1), 1, TEXT, "positive", True, ExampleStatus.PENDING, False, 0, 0, EntryState.RESERVED, False
)
OPEN = RoundState(1, RoundStatus.OPEN, 4, ("m1",), False, 60, (), ())


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def news(told: list[str]) -> News:
    news = News(told.append, POINTERS)
    news.update(OPEN)
    return news


def holding(*examples: ExampleState) -> RoundState:
    return replace(OPEN, examples=examples)


def test_an_example_is_followed_until_its_bonus_is_paid(news: News, told: list[str]) -> None:
    decided = replace(MINE, status=ExampleStatus.VERIFIED, votes=2, simulated_votes=2, bonus=EntryState.OWED)
    for one in (MINE, MINE, decided, replace(decided, bonus=EntryState.CONFIRMED)):
        news.update(holding(one))
    judged, validated, progress, paid = told
    assert "fooled the model" in judged
    assert "validated by 2 simulated colleagues" in validated
    assert "1 of 4" in progress
    assert "$0.60" in paid
    assert POINTERS.earnings in paid
    assert not any(TEXT in text for text in told)


def test_examples_of_simulated_colleagues_are_only_counted(news: News, told: list[str]) -> None:
    theirs = replace(MINE, simulated=True)
    news.update(holding(theirs))
    assert told == []
    news.update(holding(replace(theirs, status=ExampleStatus.VERIFIED, bonus=EntryState.CONFIRMED)))
    assert len(told) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"status": ExampleStatus.DISPUTED, "votes": 5}, "5 votes"),
        ({"status": ExampleStatus.FLAGGED}, "round flags sentiment"),
        ({"fooled": False, "bonus": None}, "did not fool"),
        ({"status": ExampleStatus.VERIFIED, "votes": 2, "simulated_votes": 1}, "2 people, 1 of them simulated"),
        ({"status": ExampleStatus.VERIFIED, "in_label_studio": True, "bonus": None}, "no bonus"),
        ({"is_new": False, "bonus": None}, "repeats a known text"),
    ],
)
def test_every_outcome_is_told(news: News, told: list[str], change: dict[str, object], expected: str) -> None:
    news.update(holding(replace(MINE, **change)))  # type: ignore[arg-type]
    assert any(expected in text for text in told)


@pytest.mark.parametrize("before", [(), (replace(MINE, status=ExampleStatus.UNCONFIRMED),)])
def test_an_example_that_was_decided_between_two_looks_is_reported_from_its_beginning(
    news: News, told: list[str], before: tuple[ExampleState, ...]
) -> None:
    news.update(holding(*before))
    news.update(holding(replace(MINE, status=ExampleStatus.VERIFIED, votes=2, simulated_votes=2, in_label_studio=True)))
    assert "Your example in Label Studio fooled the model" in told[0]
    assert "validated by 2 simulated colleagues" in told[1]


def test_a_round_is_followed_to_the_next_one(news: News, told: list[str]) -> None:
    ended = replace(OPEN, status=RoundStatus.VALIDATING)
    frozen = replace(ended, status=RoundStatus.CLOSED, frozen=True)
    news.update(ended)
    news.update(frozen)
    news.update(replace(OPEN, number=2, versions=("m2",)))
    assert "round metrics sentiment" in told[1]
    assert "Round 2 is open against m2" in told[2]
    assert POINTERS.label_studio in told[3]


def test_what_happened_at_the_end_of_a_round_is_reported_with_the_next_one(news: News, told: list[str]) -> None:
    news.update(holding(MINE))
    paid = replace(MINE, status=ExampleStatus.VERIFIED, votes=2, simulated_votes=2, bonus=EntryState.CONFIRMED)
    news.update(replace(OPEN, number=2, versions=("m2",)), lambda number: [paid] if number == 1 else [])
    assert [
        part for part in ("validated by", "was paid", "round metrics", "Round 2 is open") if part in " ".join(told)
    ] == [
        "validated by",
        "was paid",
        "round metrics",
        "Round 2 is open",
    ]


def test_a_round_that_does_not_end_says_what_it_waits_for(told: list[str]) -> None:
    now = [0.0]
    news = News(told.append, POINTERS, lambda: now[0])
    news.update(OPEN)
    waits = replace(OPEN, status=RoundStatus.VALIDATING, waits_for=("1 HIT to create not finished",))
    news.update(waits)
    now[0] += SECONDS_TO_END + 1
    news.update(waits)
    news.update(waits)
    assert [("1 HIT to create" in text) for text in told] == [False, True]
