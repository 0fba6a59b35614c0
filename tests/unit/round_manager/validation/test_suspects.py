"""Evidence about validators in simulated rounds: rings and careless validators are found, honest ones are not."""

from collections import Counter
from random import Random

import pytest

from round_manager.models import ExampleStatus
from round_manager.rates import Rate
from round_manager.validation.decisions import VoteCounter, VoteValue
from round_manager.validation.suspects import Meetings, poisson_tail, right_on_gold_only
from round_manager.validation.voted_examples import CastVote, Validator, VotedExample
from tests.campaign.base import built_in_pack

PEOPLE, EXAMPLES, VOTES, PER_PAGE = 30, 400, 3, 5
COUNTER = VoteCounter(built_in_pack("sentiment").spec)
SEEDS = range(60)


def simulated(seed: int, ring: frozenset[int] = frozenset()) -> list[VotedExample]:
    """A round in which people write and validate at random times.

    Members of the ring return pages until one has an example of another member.
    """
    rng = Random(seed)
    busy = [1.5 if number in ring else rng.expovariate(1) + 0.2 for number in range(PEOPLE)]
    authors = rng.choices(range(PEOPLE), busy, k=EXAMPLES)
    votes: list[list[CastVote]] = [[] for _ in range(EXAMPLES)]
    for page in range(EXAMPLES * VOTES // PER_PAGE):
        worker = rng.choices(range(PEOPLE), busy)[0]
        free = [
            one
            for one in range(EXAMPLES)
            if len(votes[one]) < VOTES and authors[one] != worker and all(v.worker_id != worker for v in votes[one])
        ]
        chosen = free[:PER_PAGE]
        if worker in ring:
            friends = [one for one in free if authors[one] in ring]
            chosen = [*friends[:4], *chosen][:PER_PAGE]
        for item, one in enumerate(dict.fromkeys(chosen)):
            votes[one].append(CastVote(worker, page, item, None, VoteValue("positive")))
    return [example(number, author, tuple(votes[number])) for number, author in enumerate(authors)]


def example(number: int, author: int, votes: tuple[CastVote, ...]) -> VotedExample:
    return VotedExample(
        votes, number, author, None, None, 0, "positive", None, None, True, ExampleStatus.VERIFIED, "positive", None
    )


def frequent(examples: list[VotedExample]) -> list[frozenset[int]]:
    meetings = Meetings(COUNTER)
    meetings.add(examples)
    return [frozenset(pair) for pair, *_ in meetings.frequent()]


def test_a_ring_is_found() -> None:
    ring = frozenset({3, 11, 17})
    rounds = [frequent(simulated(seed, ring)) for seed in range(10)]
    assert all(found and found[0] <= ring for found in rounds)


def test_honest_validators_are_not_reported() -> None:
    assert sum(bool(frequent(simulated(seed))) for seed in SEEDS) <= 2


def validator(name: str, rng: Random, right: float, gold: float) -> Validator:
    agreed, known = sum(rng.random() < right for _ in range(100)), sum(rng.random() < gold for _ in range(15))
    return Validator(name, 100, 0, Rate(agreed, 100), Rate(known, 15))


def careful(rng: Random) -> list[Validator]:
    """Validators who are a little better on gold than on other examples, some of them worse than others."""
    skills = [0.75 + 0.2 * rng.random() for _ in range(PEOPLE)]
    return [validator(f"w{number}", rng, skill, min(1.0, skill + 0.05)) for number, skill in enumerate(skills)]


def test_a_validator_who_is_right_on_gold_only_is_found() -> None:
    rng, found = Random(7), Counter[str]()
    for _ in range(20):
        found.update(one.validator for one in right_on_gold_only([*careful(rng), validator("liar", rng, 0.4, 0.99)]))
    assert found["liar"] >= 18
    assert found.total() - found["liar"] <= 1


def test_a_validator_who_is_wrong_everywhere_is_no_case_of_gold_only() -> None:
    rng = Random(7)
    assert right_on_gold_only([*careful(rng), validator("random", rng, 0.4, 0.4)]) == []


@pytest.mark.parametrize(("count", "mean", "probability"), [(0, 3.0, 1.0), (1, 1.0, 0.632121), (10, 2.0, 4.6498e-05)])
def test_the_tail_of_the_poisson_distribution(count: int, mean: float, probability: float) -> None:
    assert poisson_tail(count, mean) == pytest.approx(probability, rel=1e-4)
