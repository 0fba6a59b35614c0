"""Evidence about validators for a person to judge: right on gold only, meeting too often, sharing an address.

Nothing follows from it automatically. The first two reports are corrected for the number of people and pairs that are
compared, so that a round of honest validators has a report in about one of a hundred cases. People who live or work
together share an address too, so the third report is weak evidence on its own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, lgamma, log, sqrt
from statistics import NormalDist

from sqlalchemy.orm import Session

from round_manager.models import Round, Task, spec_of
from round_manager.pseudonyms import worker_names
from round_manager.rates import Rate
from round_manager.validation.decisions import VoteCounter, VoteValue
from round_manager.validation.voted_examples import Validator, VotedExample, validators, voted_batches
from round_manager.work.addresses import shared_addresses

# The probability of a report in a round without anything to report.
LEVEL = 0.01
# With fewer votes or gold items, nothing can be said.
LEAST_VOTES, LEAST_GOLD, LEAST_MEETINGS = 20, 5, 5
# Examples that arrived one after the other and wait for votes at about the same time.
STRATUM = 200


@dataclass(frozen=True)
class GoldOnly:
    """A validator who is right on gold and disagrees with the decisions on other examples.

    `expected` is the agreement that their accuracy on gold predicts, at least: its lower limit, times the others'
    agreement relative to their accuracy. `high` is the upper limit of their own agreement, corrected for the number of
    validators.
    """

    validator: str
    gold: Rate
    agreed: Rate
    expected: float
    high: float


@dataclass(frozen=True)
class FrequentPair:
    """Two people who judge each other's examples far more often than chance.

    A meeting is a page on which one of them judged examples of the other. `p_value` is the probability of as many
    meetings if examples were assigned at random among those of about the same time, corrected for the number of pairs.
    """

    one: str
    other: str
    meetings: int
    expected: float
    p_value: float
    # Of the votes in these meetings: those that agree with the author.
    agreed: Rate
    # How many addresses both of them used.
    shared_addresses: int


@dataclass(frozen=True)
class SharedAddress:
    """Two people who used worker pages of the round from the same addresses, and how often one judged the other."""

    one: str
    other: str
    addresses: int
    meetings: int
    expected: float
    agreed: Rate


@dataclass(frozen=True)
class Suspects:
    """What a person should look at in a round, and how many validators and pairs were compared."""

    number: int
    gold_only: tuple[GoldOnly, ...]
    pairs: tuple[FrequentPair, ...]
    sharing: tuple[SharedAddress, ...]
    validators: int
    compared_pairs: int


def find_suspects(session: Session, round: Round) -> Suspects:
    """Return the evidence in a round's votes, the strongest first."""
    people = validators(session, round)
    meetings = Meetings(VoteCounter(spec_of(round)))
    for batch in voted_batches(session, round):
        meetings.add(batch)
    found, shared = meetings.frequent(), shared_addresses(session, round)
    named = {one for pair in found for one in pair[0]} | {one for pair in shared for one in pair}
    names = worker_names(session, session.get_one(Task, round.task_id), named)
    pairs = tuple(
        FrequentPair(names[one], names[other], count, expected, p_value, agreed, shared.get((one, other), 0))
        for (one, other), count, expected, p_value, agreed in found
    )
    sharing = (
        SharedAddress(
            one=names[pair[0]],
            other=names[pair[1]],
            addresses=addresses,
            meetings=meetings.met[pair],
            expected=meetings.expected.get(pair, 0.0),
            agreed=meetings.agreement(pair),
        )
        for pair, addresses in shared.items()
    )
    return Suspects(
        number=round.number,
        gold_only=tuple(right_on_gold_only(people)),
        pairs=pairs,
        sharing=tuple(sorted(sharing, key=lambda one: (-one.meetings, -one.addresses, one.one, one.other))),
        validators=len(people),
        compared_pairs=meetings.compared,
    )


def right_on_gold_only(people: Sequence[Validator]) -> list[GoldOnly]:
    """Return the validators whose agreement with decisions is far below what their accuracy on gold predicts."""
    compared = [one for one in people if one.agreed.of >= LEAST_VOTES and one.gold.of >= LEAST_GOLD]
    z = NormalDist().inv_cdf(1 - LEVEL / (2 * max(1, len(compared))))
    found = []
    for one in compared:
        others = [other for other in people if other is not one]
        agreed, right = _share(other.agreed for other in others), _share(other.gold for other in others)
        if agreed is None or not right:
            continue
        expected, high = one.gold.low * min(1.0, agreed / right), upper_limit(one.agreed, z)
        if high < expected:
            found.append(GoldOnly(one.name, one.gold, one.agreed, expected, high))
    return sorted(found, key=lambda one: one.high - one.expected)


def _share(rates: Iterable[Rate]) -> float | None:
    known = list(rates)
    return Rate(sum(one.count for one in known), sum(one.of for one in known)).share


def upper_limit(rate: Rate, z: float) -> float:
    """Return the upper end of Wilson's interval that is this many standard deviations wide."""
    middle = rate.count + z * z / 2
    half = z * sqrt(rate.count * (rate.of - rate.count) / rate.of + z * z / 4)
    return min(1.0, (middle + half) / (rate.of + z * z))


Pair = tuple[int, int]
Found = tuple[Pair, int, float, float, Rate]


@dataclass
class Meetings:
    """Counts who judged whose examples, page by page, and compares it with chance, stratum by stratum."""

    counter: VoteCounter
    met: Counter[Pair] = field(default_factory=Counter)
    expected: dict[Pair, float] = field(default_factory=lambda: defaultdict(float))
    votes: Counter[Pair] = field(default_factory=Counter)
    agreed: Counter[Pair] = field(default_factory=Counter)
    _waiting: list[VotedExample] = field(default_factory=list)

    @property
    def compared(self) -> int:
        """The number of pairs that could have met."""
        self._finish()
        return len(self.expected)

    def add(self, examples: Iterable[VotedExample]) -> None:
        """Add examples in the order of their arrival."""
        for example in examples:
            if example.votes:
                self._waiting.append(example)
                if len(self._waiting) == STRATUM:
                    self._finish()

    def frequent(self) -> list[Found]:
        """Return the pairs that met far more often than expected, the least probable first."""
        pairs = self.compared
        found: list[Found] = []
        for pair, count in self.met.items():
            p_value = min(1.0, poisson_tail(count, self.expected[pair]) * pairs)
            if count >= LEAST_MEETINGS and p_value < LEVEL:
                found.append((pair, count, self.expected[pair], p_value, self.agreement(pair)))
        return sorted(found, key=lambda one: (one[3], -one[1], one[0]))

    def agreement(self, pair: Pair) -> Rate:
        """Return how many of a pair's votes on each other agree with the author."""
        return Rate(self.agreed[pair], self.votes[pair])

    def _finish(self) -> None:
        """Count the meetings of a stratum, and how many were expected of each pair."""
        met = Counter(self._meetings())
        self._waiting.clear()
        by, of = Counter[int](), Counter[int]()
        for (validator, author), count in met.items():
            by[validator] += count
            of[author] += count
            self.met[_pair(validator, author)] += count
        for validator, given in by.items():
            # Nobody judges their own examples.
            others = of.total() - of[validator]
            for author, received in of.items():
                if author != validator:
                    self.expected[_pair(validator, author)] += given * received / others

    def _meetings(self) -> Iterator[Pair]:
        """Yield each validator with each author, once for a page: a page may have several examples of an author."""
        seen = set()
        for example in self._waiting:
            author = example.author_id
            own = VoteValue(example.label, example.answer).said
            for vote in example.votes:
                pair = _pair(vote.worker_id, author)
                if vote.given.flag is None:
                    self.votes[pair] += 1
                    self.agreed[pair] += self.counter.agree(vote.given.said, own)
                meeting = (vote.worker_id, author, vote.session_id)
                if vote.session_id is None or meeting not in seen:
                    seen.add(meeting)
                    yield vote.worker_id, author


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def poisson_tail(count: int, mean: float) -> float:
    """Return the probability of at least this many events."""
    if count == 0:
        return 1.0
    if mean <= 0:
        return 0.0
    term = exp(count * log(mean) - mean - lgamma(count + 1))
    total, number = 0.0, count
    while term > total * 1e-12 or number < mean:
        total += term
        number += 1
        term *= mean / number
    return min(1.0, total)
