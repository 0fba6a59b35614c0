"""Supply: the HITs that a round needs now, so that it reaches its target and never costs more than it may.

What stands on the marketplace counts as if it were done. Of what nobody has written yet, as much is expected to come
true as the upper end of the rates' intervals says: little is known at first, so few HITs are posted, and the last ones
are not posted one at a time. Votes come first, then people who may work, then new examples, each of which must leave
enough for its own bonus and its first votes.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, floor

from sqlalchemy.orm import Session

from crowd.port import Crowd
from crowd.profile import FeeSchedule
from round_manager.crowd.hit_planning import HitRequest, plan_hits
from round_manager.loop.supply_facts import SupplyFacts, find_facts, people_lately, places_out
from round_manager.models import Hit, HitKind, Round, RoundStatus, Task
from round_manager.policies import first_votes, most_votes
from round_manager.rates import Rate
from round_manager.specs import spec_of
from round_manager.tasks.affordability import least_cents, vote_cents
from round_manager.tasks.rounds import live_round
from templates import TaskSpec

# So many at most are planned in one transaction, which others wait for.
MOST_AT_ONCE = 200
MOST_OUT = 2_000
# Nobody should have to write more than so many of the examples that a round wants.
EXAMPLES_EACH = 10
# Validators beyond those who vote on one example: its author is none of them.
SPARE_PEOPLE = 2
# HITs to validate outlast the round's own date: what was written in time is checked all the same.
TIME_TO_VALIDATE = timedelta(days=2)


@dataclass(frozen=True)
class Supply:
    """HITs to post: one place each to create and to validate, and one HIT with so many places for the quiz."""

    create: int = 0
    validate: int = 0
    quiz_places: int = 0

    def __bool__(self) -> bool:
        return bool(self.create or self.validate or self.quiz_places)

    def __add__(self, other: "Supply") -> "Supply":
        return Supply(self.create + other.create, self.validate + other.validate, self.quiz_places + other.quiz_places)

    def __str__(self) -> str:
        parts = [(self.create, "to create"), (self.validate, "to validate"), (self.quiz_places, "places in the quiz")]
        return ", ".join(f"{number:,} {what}" for number, what in parts if number)


def supply_round(session: Session, round: Round, crowd: Crowd, *, now: datetime) -> tuple[Supply, list[Hit]]:
    """What the round needs, planned and its money reserved; two at once plan it once. Nothing is sent.

    Where the task has a quiz, its qualification must be on the marketplace before.
    """
    # The round's own row, before its budget's reader: whoever comes second counts what the first one planned.
    held = session.get_one(Round, round.id, with_for_update={"key_share": True}, populate_existing=True)
    supply = wanted_supply(session, held, crowd, now=now)
    planned: list[Hit] = []
    for wish in wishes_of(held, supply, now=now):
        planned += plan_hits(session, held, wish, crowd, now=now)
    return supply, planned


def wanted_supply(session: Session, round: Round, crowd: Crowd, *, now: datetime) -> Supply:
    """What the round needs now; nothing where it is paused, over, or past its date."""
    if round.paused_at is not None or round.status not in (RoundStatus.OPEN, RoundStatus.VALIDATING):
        return Supply()
    spec = spec_of(round)
    supply = plan_supply(spec, find_facts(session, round, spec, crowd.name, now=now), crowd.profile.fees)
    over = round.closes_at is not None and round.closes_at <= now
    return Supply(validate=supply.validate) if over else supply


def wishes_of(round: Round, supply: Supply, *, now: datetime) -> list[HitRequest]:
    """The same as wishes, each with its end."""
    end = round.closes_at or now + TIME_TO_VALIDATE
    until = max(end, now + TIME_TO_VALIDATE)
    wishes = [
        HitRequest(HitKind.VALIDATE, supply.validate, 1, until),
        HitRequest(HitKind.QUIZ, 1 if supply.quiz_places else 0, max(1, supply.quiz_places), end),
        HitRequest(HitKind.CREATE, supply.create, 1, end),
    ]
    return [wish for wish in wishes if wish.hits]


def plan_supply(spec: TaskSpec, facts: SupplyFacts, fees: FeeSchedule) -> Supply:
    """What a round that stands so needs, as far as its money goes."""
    pages = _pages(spec, facts) if spec.pay.validate_cents else 0
    pages = min(pages, MOST_AT_ONCE, facts.free_cents // vote_cents(spec, fees)) if pages else 0
    # The first votes on examples that are being written are not reserved yet.
    votes_ahead = _vote_cents(spec, facts.places(HitKind.CREATE), fees)
    left = facts.free_cents - pages * vote_cents(spec, fees) - votes_ahead
    people = _people(spec, facts, left, fees)
    left -= people * _quiz_cents(spec, fees)
    return Supply(_writing(spec, facts, left, fees), pages, people)


def pages_to_validate(spec: TaskSpec, lacking: Sequence[int], out: int) -> int:
    """Pages to validate that are lacking: one worker's page has one vote for an example, and so many examples.

    `lacking` are the votes that each example lacks, `out` the pages that stand already.
    """
    needed = max(max(lacking), ceil(sum(lacking) / _votes_a_page(spec))) if lacking else 0
    return max(0, needed - out)


def _pages(spec: TaskSpec, facts: SupplyFacts) -> int:
    return pages_to_validate(spec, facts.lacking, facts.places(HitKind.VALIDATE))


def _votes_a_page(spec: TaskSpec) -> int:
    """Votes that one HIT to validate brings when it has its share of gold."""
    return max(1, floor(spec.work.validations_per_hit * (1 - spec.validation.gold_rate)))


def _vote_cents(spec: TaskSpec, hits: int, fees: FeeSchedule) -> int:
    """Return what the first votes cost on the examples of so many creation HITs."""
    if not hits:
        return 0
    first = first_votes(spec.validation)
    return max(first, ceil(hits * spec.work.examples_per_hit * first / _votes_a_page(spec))) * vote_cents(spec, fees)


def _people(spec: TaskSpec, facts: SupplyFacts, left: int, fees: FeeSchedule) -> int:
    """Places in the quiz, while there are too few people to write and to vote."""
    if spec.quiz is None or not spec.pay.quiz_cents:
        return 0
    writers = ceil(facts.target / EXAMPLES_EACH) if facts.is_open else 0
    voters = most_votes(spec.validation) + SPARE_PEOPLE if facts.is_open or facts.lacking else 0
    lacking = max(writers, voters) - facts.people - facts.places(HitKind.QUIZ)
    spendable = left - least_cents(spec, fees) if facts.is_open else left
    return max(0, places_in_one_hit(min(lacking, spendable // _quiz_cents(spec, fees)), fees))


def places_in_one_hit(places: int, fees: FeeSchedule) -> int:
    """Return how many of these places one HIT can have before the marketplace's fee rises."""
    most = fees.assignments_before_fee_rises
    return places if most is None else min(places, most)


def _quiz_cents(spec: TaskSpec, fees: FeeSchedule) -> int:
    return fees.reward(spec.pay.quiz_cents).total_cents if spec.pay.quiz_cents else 1


def _writing(spec: TaskSpec, facts: SupplyFacts, left: int, fees: FeeSchedule) -> int:
    """HITs to create that bring the target into reach, if all goes as well as it may."""
    if not facts.is_open or not spec.pay.create_cents:
        return 0
    verified = Rate(facts.verified_fooling, facts.verified_fooling + facts.disputed_fooling).high
    each = spec.work.examples_per_hit * Rate(facts.fooled, facts.examples).high * verified
    expected = facts.verified_fooling + facts.pending_fooling * verified + facts.places(HitKind.CREATE) * each
    # Rounded first: a target that is met to the last digit is met. Part of a HIT waits until more is known, unless
    # there is nothing to wait for.
    lacking = round((facts.target - expected) / each, 6)
    is_idle = not facts.places(HitKind.CREATE) and not facts.pending_fooling
    needed = floor(lacking) or (1 if lacking > 0 and is_idle else 0)
    room = MOST_OUT - facts.places(HitKind.CREATE)
    return max(0, min(needed, room, MOST_AT_ONCE, _affordable(spec, left, fees)))


def _affordable(spec: TaskSpec, left: int, fees: FeeSchedule) -> int:
    """How many HITs to create the money covers, with their bonuses and first votes."""
    one = fees.reward(spec.pay.create_cents).total_cents
    one += spec.work.examples_per_hit * fees.bonus(spec.pay.fooled_bonus_cents).total_cents
    most = bisect_right(range(1, left // one + 1), left, key=lambda hits: hits * one + _vote_cents(spec, hits, fees))
    # Whoever ends the writing goes by the least that one costs: what covers that is never left unused.
    return max(most, 1 if left >= least_cents(spec, fees) else 0)


def plan_recruits(session: Session, task: Task, crowd: Crowd, people: int, *, now: datetime) -> list[Hit]:
    """HITs with places in the quiz until so many people have passed it or can take it; nothing is sent.

    The task's qualification must be on the marketplace before.
    """
    live = live_round(session, task.id)
    if live is None or spec_of(live).quiz is None:
        return []
    held = session.get_one(Round, live.id, with_for_update={"key_share": True}, populate_existing=True)
    known = people_lately(session, held, crowd.name, now=now) + places_out(session, held, crowd.name).get(
        HitKind.QUIZ, 0
    )
    planned: list[Hit] = []
    lacking = people - known
    while lacking > 0:
        places = places_in_one_hit(lacking, crowd.profile.fees)
        (wish,) = wishes_of(held, Supply(quiz_places=places), now=now)
        planned += plan_hits(session, held, wish, crowd, now=now)
        lacking -= places
    return planned
