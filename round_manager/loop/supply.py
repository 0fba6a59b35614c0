"""Supply: the HITs that a round needs now to reach its target within its budget.

Posted HITs count as if they were done. New examples are expected to succeed at the upper end of the rates' confidence
intervals: little is known at first, so few HITs are posted, and the last ones are not posted one at a time. Votes come
first, then the quiz for more workers, then new examples, each with enough money for its bonus and its first votes.
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
from round_manager.models import Hit, HitKind, Round, RoundStatus, Task, spec_of
from round_manager.money.prices import least_cents, vote_cents
from round_manager.policies import first_votes, most_votes
from round_manager.rates import Rate
from round_manager.tasks.rounds import live_round
from templates import TaskSpec

# At most this many HITs are planned in one transaction, because others wait for it.
MOST_AT_ONCE = 200
# HITs are planned in this many transactions at most; the rest is planned next time.
MOST_BATCHES = 20
MOST_OUT = 2_000
# A worker should not have to write more of a round's examples than this.
EXAMPLES_EACH = 10
# Validators beyond those who vote on one example: its author cannot vote.
SPARE_PEOPLE = 2
# Validation HITs may outlast the round's end: examples that were written in time are still validated.
TIME_TO_VALIDATE = timedelta(days=2)


@dataclass(frozen=True)
class Supply:
    """HITs to post: creation and validation HITs with one place each, and one quiz HIT with several places."""

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
    """Plan what the round needs and reserve its money; concurrent calls plan it once. Nothing is sent.

    If the task has a quiz, its qualification must already be on the marketplace.
    """
    # Lock the round before reading its budget: a second caller then counts what the first one planned.
    held = session.get_one(Round, round.id, with_for_update={"key_share": True}, populate_existing=True)
    supply = wanted_supply(session, held, crowd, now=now)
    planned: list[Hit] = []
    for request in requests_of(held, supply, now=now):
        planned += plan_hits(session, held, request, crowd, now=now)
    return supply, planned


def wanted_supply(session: Session, round: Round, crowd: Crowd, *, now: datetime) -> Supply:
    """Return what the round needs now; nothing if it is in-house, paused or over, and only votes after its end."""
    if round.in_house or round.paused_at is not None or round.status not in (RoundStatus.OPEN, RoundStatus.VALIDATING):
        return Supply()
    spec = spec_of(round)
    supply = plan_supply(spec, find_facts(session, round, spec, crowd.name, now=now), crowd.profile.fees)
    over = round.closes_at is not None and round.closes_at <= now
    return Supply(validate=supply.validate) if over else supply


def requests_of(round: Round, supply: Supply, *, now: datetime) -> list[HitRequest]:
    """Return the requests for a supply, each with its end."""
    end = round.closes_at or now + TIME_TO_VALIDATE
    until = max(end, now + TIME_TO_VALIDATE)
    requests = [
        HitRequest(HitKind.VALIDATE, supply.validate, 1, until),
        HitRequest(HitKind.QUIZ, 1 if supply.quiz_places else 0, max(1, supply.quiz_places), end),
        HitRequest(HitKind.CREATE, supply.create, 1, end),
    ]
    return [request for request in requests if request.hits]


def plan_supply(spec: TaskSpec, facts: SupplyFacts, fees: FeeSchedule) -> Supply:
    """Return what a round in this state needs, as far as its money goes."""
    pages = _pages(spec, facts) if spec.pay.validate_cents else 0
    pages = min(pages, MOST_AT_ONCE, facts.free_cents // vote_cents(spec, fees)) if pages else 0
    # The first votes on examples that are being written are not reserved yet.
    votes_ahead = _vote_cents(spec, facts.places(HitKind.CREATE), fees)
    left = facts.free_cents - pages * vote_cents(spec, fees) - votes_ahead
    people = _people(spec, facts, left, fees)
    left -= people * _quiz_cents(spec, fees)
    return Supply(_writing(spec, facts, left, fees), pages, people)


def pages_to_validate(spec: TaskSpec, lacking: Sequence[int], out: int) -> int:
    """Return how many more validation pages are needed; a worker's page has one vote for each of its examples.

    `lacking` are the missing votes of each example, `out` the pages that are already posted.
    """
    needed = max(max(lacking), ceil(sum(lacking) / _votes_per_page(spec))) if lacking else 0
    return max(0, needed - out)


def _pages(spec: TaskSpec, facts: SupplyFacts) -> int:
    return pages_to_validate(spec, facts.lacking, facts.places(HitKind.VALIDATE))


def _votes_per_page(spec: TaskSpec) -> int:
    """Return the votes of one validation HIT, without its share of gold items."""
    return max(1, floor(spec.work.validations_per_hit * (1 - spec.validation.gold_rate)))


def _vote_cents(spec: TaskSpec, hits: int, fees: FeeSchedule) -> int:
    """Return what the first votes cost on the examples of these creation HITs."""
    if not hits:
        return 0
    first = first_votes(spec.validation)
    return max(first, ceil(hits * spec.work.examples_per_hit * first / _votes_per_page(spec))) * vote_cents(spec, fees)


def _people(spec: TaskSpec, facts: SupplyFacts, left: int, fees: FeeSchedule) -> int:
    """Return the quiz places that are needed while there are too few workers to write and vote."""
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
    """Return the creation HITs that can reach the target at the best expected rates."""
    if not facts.is_open or not spec.pay.create_cents:
        return 0
    verified = Rate(facts.verified_fooling, facts.verified_fooling + facts.disputed_fooling).high
    each = spec.work.examples_per_hit * Rate(facts.fooled, facts.examples).high * verified
    expected = facts.verified_fooling + facts.pending_fooling * verified + facts.places(HitKind.CREATE) * each
    # Rounded first, against floating-point errors. A fraction of a HIT waits until more is known, unless nothing is
    # under way.
    lacking = round((facts.target - expected) / each, 6)
    is_idle = not facts.places(HitKind.CREATE) and not facts.pending_fooling
    needed = floor(lacking) or (1 if lacking > 0 and is_idle else 0)
    room = MOST_OUT - facts.places(HitKind.CREATE)
    return max(0, min(needed, room, MOST_AT_ONCE, _affordable(spec, left, fees)))


def _affordable(spec: TaskSpec, left: int, fees: FeeSchedule) -> int:
    """Return how many creation HITs the money covers, with their bonuses and first votes."""
    one = fees.reward(spec.pay.create_cents).total_cents
    one += spec.work.examples_per_hit * fees.bonus(spec.pay.fooled_bonus_cents).total_cents
    most = bisect_right(range(1, left // one + 1), left, key=lambda hits: hits * one + _vote_cents(spec, hits, fees))
    # A round ends when it cannot pay for one more HIT, so money for one HIT is always used.
    return max(most, 1 if left >= least_cents(spec, fees) else 0)


def plan_recruits(session: Session, task: Task, crowd: Crowd, people: int, *, now: datetime) -> list[Hit]:
    """Plan quiz HITs until this many people have passed the quiz or can take it; nothing is sent.

    The task's qualification must already be on the marketplace.
    """
    live = live_round(session, task.id)
    if live is None or live.in_house or spec_of(live).quiz is None:
        return []
    held = session.get_one(Round, live.id, with_for_update={"key_share": True}, populate_existing=True)
    known = people_lately(session, held, crowd.name, now=now) + places_out(session, held, crowd.name).get(
        HitKind.QUIZ, 0
    )
    planned: list[Hit] = []
    lacking = people - known
    while lacking > 0:
        places = places_in_one_hit(lacking, crowd.profile.fees)
        (request,) = requests_of(held, Supply(quiz_places=places), now=now)
        planned += plan_hits(session, held, request, crowd, now=now)
        lacking -= places
    return planned
