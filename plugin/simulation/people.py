"""The people of the simulated crowd: made up, each with skill, honesty, care and patience of their own."""

from dataclasses import dataclass
from random import Random

# Of so many, one is dishonest; the first ones are not, so that a tiny crowd can work too.
DISHONEST_EACH = 6
FIRST_DISHONEST = 4
NAME = "Simulated worker"


@dataclass(frozen=True)
class Person:
    """One simulated worker.

    `skill` is how often they think of a hard sentence, `error_rate` how often they read or answer wrongly, `patience`
    how many tries they make on one sentence, `pace` how their time compares with most people's.
    """

    number: int
    seed: str
    skill: float
    error_rate: float
    patience: int
    pace: float
    honest: bool
    likes_checking: bool

    @property
    def name(self) -> str:
        """What the marketplace calls them."""
        return f"{NAME} {self.number}"

    def rng(self, *about: object) -> Random:
        """Their own chance, the same each time for the same thing."""
        return Random("/".join(map(str, (self.seed, self.number, *about))))  # noqa: S311 - nothing here is secret


def make_people(count: int, seed: str) -> list[Person]:
    """So many people, always the same for a seed."""
    return [_person(number, seed) for number in range(1, count + 1)]


def _person(number: int, seed: str) -> Person:
    rng = Random(f"{seed}/person/{number}")  # noqa: S311 - nothing here is secret
    return Person(
        number=number,
        seed=seed,
        skill=rng.uniform(0.15, 0.6),
        error_rate=rng.uniform(0.01, 0.12),
        patience=rng.randint(3, 6),
        pace=rng.uniform(0.7, 1.6),
        honest=number % DISHONEST_EACH != FIRST_DISHONEST,
        likes_checking=number % 2 == 0,
    )
